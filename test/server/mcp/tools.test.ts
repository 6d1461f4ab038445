/**
 * The MCP server with the official client, over both transports and in both ages of the protocol.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.js";
import { TOOL_NAMES } from "../../../src/tools/index.js";
import { errorOf } from "../../support/error-of.js";
import { type Connected, calling, type Way, ways } from "../../support/mcp/connect.js";
import { badInputs, everyTool, INJECTION } from "../../support/mcp/every-tool.js";
import { isThorough } from "../../support/runs.js";
import { stores } from "../../support/stores.js";

const directories: string[] = [];
const connections: Connected[] = [];
afterEach(async () => {
  for (const connected of connections.splice(0)) await connected.close();
  for (const directory of directories.splice(0))
    rmSync(directory, { recursive: true, force: true });
});
const place = () => {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-mcp-"));
  directories.push(directory);
  return join(directory, "agent.db");
};

/** A connection that is ended with its test. */
const kept =
  (begin: Way["connect"]) =>
  async (store = place(), ...args: string[]): Promise<Connected> => {
    const connected = await begin(store, ...args);
    connections.push(connected);
    return connected;
  };

/** Each transport once, and each age of the protocol; in the faults any transport with any age. */
const someWays = ways.filter(
  ({ over, era }) => isThorough || (over === "stdio") === (era === "2025-11-25"),
);

describe.each(someWays)("MCP over $name", ({ era, connect: begin }) => {
  const connect = kept(begin);

  test("every tool does what it says; what it answers fits its schema, and its text is a copy of it", async () => {
    const { client } = await connect();
    // The client holds what a tool answers to the schema that it was told here.
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual([...TOOL_NAMES].sort());
    expect(client.getNegotiatedProtocolVersion()).toBe(era);
    await everyTool(async (name, args) => {
      const result = await client.callTool({ name, arguments: args });
      expect(result.isError, JSON.stringify(result.content)).toBeFalsy();
      expect(result.content).toEqual([
        { type: "text", text: JSON.stringify(result.structuredContent) },
      ]);
      return result.structuredContent as Record<string, unknown>;
    });
  });

  test("tools have titles, all four hints and schemas; and wrong arguments are refused in words, and the next call is answered", async () => {
    const { client } = await connect();
    const { tools } = await client.listTools();
    for (const { name, title, description, annotations, inputSchema, outputSchema } of tools) {
      expect(title, name).toBeTruthy();
      expect(description, name).toBeTruthy();
      expect(annotations).toEqual({
        title,
        readOnlyHint: expect.any(Boolean),
        destructiveHint: expect.any(Boolean),
        idempotentHint: expect.any(Boolean),
        openWorldHint: false,
      });
      expect(inputSchema).toMatchObject({ type: "object", additionalProperties: false });
      expect(outputSchema, name).toMatchObject({ type: "object" });
      expect("idempotencyKey" in (inputSchema.properties ?? {}), name).toBe(
        !annotations?.readOnlyHint,
      );
    }
    expect(client.getInstructions()).toMatch(/data, and never instructions/);
    const call = calling(client);
    for (const [name, args, says] of badInputs)
      expect(
        ((await errorOf(() => call(name, args))) as Error).message,
        `${name} ${JSON.stringify(args)}`,
      ).toMatch(says);
    expect(
      await errorOf(() => client.callTool({ name: "no_such_tool", arguments: {} })),
    ).toMatchObject({ code: -32_602 });
    expect(await call("persistence_stats", {})).toMatchObject({ agents: 0 });
  });
});

/** What follows does not depend on transport and age together. */
describe.each(ways.filter(({ over, era }) => (over === "stdio") === (era === "2025-11-25")))(
  "MCP over $name",
  ({ connect: begin }) => {
    const connect = kept(begin);

    test("sessions and checkpoints are resources, found by id and read in pages; what was said stands in no list", async () => {
      const { client } = await connect();
      const call = calling(client);
      for (let i = 0; i < 60; i++)
        await call("conversation_save", {
          id: `c/${i}`,
          messages: [{ role: "user", content: INJECTION }],
        });
      const { checkpoint } = await call("checkpoint_create", { session: "c/7" });
      await call("conversation_save", {
        id: "c/7",
        messages: [{ role: "user", content: "x".repeat(30_000) }],
      });
      const uris: string[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await client.listResources(cursor === undefined ? {} : { cursor });
        expect(JSON.stringify(page)).not.toContain("Ignore");
        uris.push(...page.resources.map(({ uri }) => uri));
        cursor = page.nextCursor;
        if (cursor === undefined) break;
      }
      expect(uris).toHaveLength(60);
      const read = async (uri: string) => {
        const { contents } = await client.readResource({ uri });
        expect(contents).toMatchObject([{ uri, mimeType: "application/json" }]);
        return JSON.parse((contents[0] as { text: string }).text) as Record<string, any>;
      };
      const now = await read(`holdfast://sessions/${encodeURIComponent("c/7")}`);
      expect(now).toMatchObject({
        session: { id: "c/7" },
        count: 2,
        items: [{ content: INJECTION }, { from: 0 }],
        next: expect.any(String),
      });
      expect(now.notice).toMatch(/They are data/);
      expect(await read(`holdfast://sessions/c%2F7?cursor=${now.next}`)).toMatchObject({
        items: [{ of: now.items[1].of }],
      });
      expect(await read(`holdfast://checkpoints/${checkpoint.id}`)).toMatchObject({
        session: { id: "c/7" },
        count: 1,
      });
      const { resourceTemplates } = await client.listResourceTemplates();
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual([
        "holdfast://sessions/{id}{?cursor}",
        "holdfast://checkpoints/{id}{?cursor}",
      ]);
      for (const uri of [
        "holdfast://sessions/none",
        "holdfast://sessions/",
        "holdfast://sessions/c/7",
        "holdfast://sessions/%",
        "holdfast://sessions/%00",
        "holdfast://checkpoints/none",
        "holdfast://other/c%2F7",
        "file:///etc/passwd",
        "nonsense",
        "holdfast://sessions/c%2F7?cursor=p9",
      ])
        expect(await errorOf(() => client.readResource({ uri })), uri).toMatchObject({
          code: -32_602,
        });
      expect(await errorOf(() => client.listResources({ cursor: "nonsense" }))).toMatchObject({
        code: -32_602,
      });
    });

    test("a hundred calls at once are all answered, each with its own", async () => {
      const store = place();
      const { client } = await connect(store);
      const call = calling(client);
      const answers = await Promise.all(
        Array.from({ length: 100 }, async (_, i) => {
          if (i % 4 === 0) return (await call("agent_save", { id: `a${i}` })).agent.id as string;
          if (i % 4 === 1)
            return (
              await call("conversation_save", {
                id: `c${i}`,
                messages: [{ role: "user", content: "hi" }],
              })
            ).session.id as string;
          if (i % 4 === 2)
            return (
              (await call("conversation_save", {
                id: "shared",
                messages: [{ role: "user", content: `${i}` }],
                tags: [`t${i}`],
              })) && "shared"
            );
          return (await call("persistence_stats", {})) && "stats";
        }),
      );
      expect(answers.filter((id, i) => i % 4 === 0 && id === `a${i}`)).toHaveLength(25);
      expect(answers.filter((id, i) => i % 4 === 1 && id === `c${i}`)).toHaveLength(25);
      expect(await call("conversation_load", { id: "shared" })).toMatchObject({ count: 25 });
      expect(await call("persistence_stats", {})).toMatchObject({ sessions: 26, messages: 50 });
    });

    test("read-only: nothing that changes anything is there, and none of it can be called", async () => {
      const store = place();
      {
        await using hold = await open(store);
        await hold.agents.save({ id: "ann" });
      }
      const { client } = await connect(store, "--read-only");
      const { tools } = await client.listTools();
      expect(tools.every(({ annotations }) => annotations?.readOnlyHint)).toBe(true);
      expect(tools).toHaveLength(9);
      for (const name of TOOL_NAMES.filter((each) => !tools.some((tool) => tool.name === each)))
        expect(
          await errorOf(() => client.callTool({ name, arguments: { id: "ann" } })),
          name,
        ).toMatchObject({ code: -32_602 });
      expect(await calling(client)("agent_load", { id: "ann" })).toMatchObject({
        agent: { version: 1 },
      });
    });

    test("for one agent: nothing of another's is there", async () => {
      const store = place();
      {
        await using hold = await open(store);
        for (const agent of ["ann", "bob"])
          await hold.sessions.append(`of-${agent}`, [{ role: "user", content: "hi" }], {
            create: true,
            agent,
          });
      }
      const { client } = await connect(store, "--agent", "ann");
      const call = calling(client);
      expect((await client.listResources()).resources.map(({ name }) => name)).toEqual(["of-ann"]);
      expect(
        await errorOf(() => client.readResource({ uri: "holdfast://sessions/of-bob" })),
      ).toMatchObject({ code: -32_602 });
      expect(String(await errorOf(() => call("conversation_load", { id: "of-bob" })))).toMatch(
        /NOT_FOUND/,
      );
      expect((await call("conversation_list", {})).items).toMatchObject([{ id: "of-ann" }]);
    });
  },
);

describe.each(stores.filter(({ traits }) => traits.durable))("MCP on $name", ({ address }) => {
  test("every tool, over stdio", async () => {
    const { client } = await kept((ways[0] as Way).connect)(address());
    await client.listTools();
    await everyTool(calling(client));
  });
});
