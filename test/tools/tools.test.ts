/** The tools in a process: what each does, on every store, and what each refuses. */

import { afterEach, describe, expect, expectTypeOf, test } from "vitest";
import { Holdfast as Hold } from "../../src/holdfast.js";
import { type Holdfast, HoldfastError, open } from "../../src/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { MemoryStore } from "../../src/store/memory.js";
import {
  type StoreTool,
  TOOL_NAMES,
  type ToolName,
  type ToolsFor,
  type ToolsOptions,
} from "../../src/tools/index.js";
import { PAGE_CHARS } from "../../src/tools/pages.js";
import { errorOf } from "../support/error-of.js";
import { wrapped } from "../support/failures/wrapped.js";
import { type Answer, badInputs, type CallTool, everyTool } from "../support/mcp/every-tool.js";
import { stores } from "../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});
const fresh = async (address = "memory:") => {
  const hold = await open(address);
  opened.push(hold);
  return hold;
};

/** As a loop calls it: inputs are checked, and so is what comes back. */
function caller(hold: Holdfast, o?: ToolsOptions): CallTool {
  const tools = hold.tools(o) as Record<ToolName, StoreTool>;
  return async (name, input) => {
    const tool = tools[name];
    const parsed = await tool.inputSchema["~standard"].validate(input);
    if (parsed.issues !== undefined)
      throw new Error(parsed.issues.map(({ message }) => message).join("; "));
    const answer = await tool.execute(input);
    const checked = await tool.outputSchema["~standard"].validate(answer);
    expect(checked.issues, name).toBeUndefined();
    expect(JSON.parse(JSON.stringify(answer))).toEqual(answer);
    return answer as Answer;
  };
}

describe.each(stores)("tools on $name", ({ address }) => {
  test("each does what it says, and answers as its schema says", async () => {
    await everyTool(caller(await fresh(address())));
  });
});

describe("inputs", () => {
  test.each(badInputs)("%s refuses %j", async (name, input, says) => {
    const hold = await fresh();
    const before = await hold.stats();
    const error = (await errorOf(() => caller(hold)(name, input))) as Error & {
      readonly code?: string;
    };
    expect(`${error.code}: ${error.message}`).toMatch(says);
    expect(await hold.stats()).toEqual(before);
  });

  test("the schemas can be handed to a provider: objects, each property with a type and a description, none unknown allowed", async () => {
    const tools = Object.values((await fresh()).tools()) as StoreTool[];
    expect(tools).toHaveLength(17);
    for (const { inputSchema, outputSchema, description, title } of tools) {
      for (const schema of [inputSchema.json, outputSchema.json]) {
        expect(schema).toMatchObject({ type: "object", additionalProperties: false });
        for (const property of Object.values(schema.properties as Record<string, object>))
          expect("const" in property || "description" in property || "properties" in property).toBe(
            true,
          );
      }
      expect(description.length).toBeGreaterThan(20);
      // Some clients cut them there.
      expect(description.length).toBeLessThan(1_000);
      expect(title.length).toBeGreaterThan(5);
    }
  });
});

test("inputs that do not fit are refused by every tool, with nothing changed, and never with a TypeError", async () => {
  const hold = await fresh();
  const call = caller(hold);
  await call("conversation_save", { id: "c", messages: [{ role: "user", content: "hi" }] });
  const { checkpoint } = await call("checkpoint_create", { session: "c" });
  await call("conversation_save", { id: "c", messages: [{ role: "user", content: "and" }] });
  const before = await everything(hold);
  for (const name of TOOL_NAMES)
    for (const input of [
      undefined,
      null,
      5,
      "x",
      [],
      { dryrun: true },
      { id: 5 },
      { id: checkpoint.id, dryrun: true },
    ])
      expect(
        await errorOf(() => (hold.tools()[name] as StoreTool).execute(input as never)),
        `${name} ${JSON.stringify(input)}`,
      ).toMatchObject({
        code: expect.stringMatching(/^INVALID_/),
      });
  expect(await everything(hold)).toEqual(before);
  // One that is undefined is left out.
  expect(await hold.tools().conversation_list.execute({ agent: undefined } as never)).toMatchObject(
    { items: [{ id: "c" }] },
  );
  const misspelt = await errorOf(() =>
    hold.tools().conversation_save.execute({ id: "c", mesages: [] } as never),
  );
  expect(misspelt).toMatchObject({
    message: expect.stringMatching(
      /There is no "mesages" \(did you mean "messages"\?\); known are/,
    ),
  });
});

describe.each(stores)("keys of tools on $name", ({ address }) => {
  test("whatever changes something, called again under its key, changes nothing more and answers the same", async () => {
    const hold = await fresh(address());
    const call = caller(hold);
    let key = 0;
    const keyed = new Set<ToolName>();
    await everyTool(async (name, input) => {
      if (hold.tools()[name].annotations.readOnlyHint) return call(name, input);
      keyed.add(name);
      const idempotencyKey = `key ${key++}`;
      const answer = await call(name, { ...input, idempotencyKey });
      const after = await everything(hold);
      expect(await call(name, { ...input, idempotencyKey }), name).toEqual(answer);
      expect(await everything(hold), name).toEqual(after);
      expect(
        await errorOf(() =>
          call(name, { ...input, id: "other", session: undefined, idempotencyKey }),
        ),
        name,
      ).toBeInstanceOf(Error);
      return answer;
    });
    expect(keyed.size).toBe(8);
  });
});

test("a conversation that was saved under a key and deleted since is not brought back by asking again", async () => {
  const hold = await fresh();
  const call = caller(hold);
  const input = { id: "c", messages: [{ role: "user", content: "hi" }], idempotencyKey: "k" };
  await call("conversation_save", input);
  await call("conversation_delete", { id: "c" });
  expect(await errorOf(() => call("conversation_save", input))).toMatchObject({
    code: "NOT_FOUND",
  });
  expect(await hold.sessions.get("c")).toBeUndefined();
  // Under another key it is another call.
  expect(await call("conversation_save", { ...input, idempotencyKey: "other" })).toMatchObject({
    taken: true,
  });
  expect(
    await errorOf(() => call("conversation_save", { ...input, id: "d", idempotencyKey: "other" })),
  ).toMatchObject({ code: "CONFLICT" });
  expect(
    await errorOf(() =>
      call("conversation_save", { ...input, messages: [], idempotencyKey: "other" }),
    ),
  ).toMatchObject({
    code: "CONFLICT",
  });
});

/** All that a call could have changed, but for when. */
async function everything(hold: Holdfast): Promise<unknown> {
  const { items: sessions } = await hold.sessions.list({ limit: 100 });
  const { items: agents } = await hold.agents.list();
  return [
    sessions,
    agents,
    await hold.stats(),
    await Promise.all(agents.map(async ({ id }) => (await hold.agents.snapshots(id)).items)),
    await Promise.all(
      sessions.map(
        async ({ id }) => (await hold.checkpoints.list(id, { branches: "all", limit: 100 })).items,
      ),
    ),
    await Promise.all(sessions.map(async ({ id }) => (await hold.sessions.state(id)).messages)),
  ];
}

describe("which tools there are", () => {
  const names = async (o?: ToolsOptions) => Object.keys((await fresh()).tools(o)).sort();

  test("all, those that only read, some, and those for one agent", async () => {
    expect(await names()).toEqual([...TOOL_NAMES].sort());
    const reading = await names({ readOnly: true });
    expect(reading).toEqual(
      [
        "agent_list",
        "agent_load",
        "checkpoint_diff",
        "checkpoint_list",
        "conversation_file",
        "conversation_list",
        "conversation_load",
        "conversation_search",
        "persistence_stats",
      ].sort(),
    );
    expect(await names({ only: ["agent_load", "agent_save"], readOnly: true })).toEqual([
      "agent_load",
    ]);
    expect(await names({ agent: "ann" })).not.toContain("persistence_stats");
  });

  test("hints say what each does", async () => {
    const tools = (await fresh()).tools();
    const hints = Object.fromEntries(
      Object.entries(tools).map(([name, { annotations }]) => [name, annotations]),
    ) as Record<ToolName, StoreTool["annotations"]>;
    for (const name of TOOL_NAMES)
      for (const hint of [
        "readOnlyHint",
        "destructiveHint",
        "idempotentHint",
        "openWorldHint",
      ] as const)
        expect(hints[name][hint], `${name}.${hint}`).toBeTypeOf("boolean");
    expect(hints.agent_load).toMatchObject({
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
    });
    expect(hints.agent_delete).toMatchObject({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: true,
    });
    // It may replace a title.
    expect(hints.conversation_save).toMatchObject({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
    });
    expect(hints.checkpoint_fork).toMatchObject({
      readOnlyHint: false,
      destructiveHint: false,
      idempotentHint: false,
    });
  });

  test.each([
    { only: ["no_such"] },
    { only: "agent_load" },
    { readOnly: 1 },
    { agent: "" },
    { all: true },
    { approval: "yes" },
  ])("%j is refused", async (o) => {
    const hold = await fresh();
    expect(await errorOf(() => hold.tools(o as never))).toMatchObject({
      code: expect.stringMatching(/^INVALID_/),
    });
  });

  test("a person is asked before something is removed, where that is wanted", async () => {
    const tools = (await fresh()).tools({ approval: true });
    expect(tools.agent_delete).toMatchObject({ approval: true, needsApproval: true });
    expect(tools.conversation_save).toMatchObject({ approval: false, needsApproval: false });
    expect((await fresh()).tools().agent_delete.approval).toBe(false);
  });
});

describe("tools for one agent", () => {
  test("nothing of another's is there: not to read, find, count, change or delete", async () => {
    const hold = await fresh();
    const all = caller(hold);
    for (const id of ["ann", "bob"]) {
      await all("agent_save", { id });
      await all("conversation_save", {
        id: `of-${id}`,
        agent: id,
        messages: [{ role: "user", content: `kelp of ${id}` }],
      });
    }
    await all("conversation_save", {
      id: "nobodys",
      messages: [{ role: "user", content: "kelp of nobody" }],
    });
    const { checkpoint } = await all("checkpoint_create", { session: "of-bob" });
    const { checkpoint: whole } = await all("checkpoint_create", { agent: "bob" });
    const before = await hold.stats();
    const own = caller(hold, { agent: "ann" });
    const refused: readonly (readonly [ToolName, Record<string, unknown>])[] = [
      ["agent_save", { id: "bob", system: "mine" }],
      ["agent_load", { id: "bob" }],
      ["conversation_save", { id: "new", agent: "bob" }],
      ["conversation_load", { id: "of-bob" }],
      ["conversation_load", { id: "of-ann", at: checkpoint.id }],
      ["conversation_list", { agent: "bob" }],
      ["conversation_search", { query: "kelp", agent: "bob" }],
      ["checkpoint_create", { agent: "bob" }],
      ["checkpoint_create", { session: "of-bob" }],
      ["checkpoint_list", { agent: "bob" }],
      ["checkpoint_list", { session: "of-bob" }],
      ["checkpoint_list", { agent: "bob", conversations: true }],
      ["checkpoint_restore", { id: checkpoint.id }],
      ["checkpoint_restore", { id: whole.id }],
      ["checkpoint_restore", { id: checkpoint.id, session: "of-ann" }],
      ["checkpoint_fork", { id: checkpoint.id, as: "stolen" }],
      ["checkpoint_diff", { from: checkpoint.id, to: checkpoint.id }],
    ];
    for (const [name, input] of refused)
      expect(await errorOf(() => own(name, input)), name).toMatchObject({ code: "NOT_FOUND" });
    for (const id of ["of-bob", "nobodys"])
      expect(await errorOf(() => own("conversation_save", { id, title: "mine" }))).toMatchObject({
        code: "CONFLICT",
      });
    for (const [name, input] of [
      ["agent_delete", { id: "bob" }],
      ["conversation_delete", { id: "of-bob" }],
      ["conversation_delete", { id: "nobodys" }],
      ["checkpoint_delete", { id: checkpoint.id }],
      ["checkpoint_delete", { id: whole.id }],
    ] as const)
      expect(await own(name, input), name).toMatchObject({ deleted: false });
    expect(await hold.stats()).toEqual(before);
    expect((await own("agent_list", {})).items.map(({ id }: Answer) => id)).toEqual(["ann"]);
    expect((await own("conversation_list", {})).items.map(({ id }: Answer) => id)).toEqual([
      "of-ann",
    ]);
    expect(
      (await own("conversation_search", { query: "kelp" })).items.map(
        ({ sessionId }: Answer) => sessionId,
      ),
    ).toEqual(["of-ann"]);
    expect((await own("conversation_search", { query: "kelp", session: "of-bob" })).items).toEqual(
      [],
    );
    const checkpoints = (await own("checkpoint_list", { conversations: true })).items;
    expect(checkpoints.every((one: Answer) => one.session === "of-ann")).toBe(true);
    // What is its own it can change; a conversation that it makes is its own.
    expect(await own("conversation_save", { id: "new" })).toMatchObject({
      session: { agent: "ann" },
    });
    expect(await own("checkpoint_create", {})).toMatchObject({
      checkpoint: { agent: "ann", sessions: 2 },
    });
  });
});

describe("pages", () => {
  const lengthOf = (answer: Answer) => JSON.stringify(answer).length;

  test("a long conversation comes in pages that are joined without loss", async () => {
    const hold = await fresh();
    const call = caller(hold);
    // Of all lengths, with what JSON escapes, and characters of two halves at every place where a
    // page may end.
    const texts = Array.from({ length: 60 }, (_, i) => '😀"\n'.repeat((i * 97) % 900) + i);
    texts.push("🐚".repeat(3 * PAGE_CHARS), "end");
    for (const content of texts)
      await call("conversation_save", { id: "c", messages: [{ role: "user", content }] });
    const seen: string[] = [];
    let torn = "";
    let pages = 0;
    for (let cursor: string | undefined; ; ) {
      const answer = await call("conversation_load", { id: "c", ...(cursor && { cursor }) });
      expect(lengthOf(answer)).toBeLessThan(PAGE_CHARS * 1.5 + 2_000);
      pages++;
      for (const item of answer.items as Answer[]) {
        if (item.piece === undefined) seen.push(item.content as string);
        else {
          expect(item.from).toBe(torn.length);
          expect((item.piece as string).isWellFormed()).toBe(true);
          torn += item.piece as string;
          if (torn.length === item.of) {
            seen.push((JSON.parse(torn) as { content: string }).content);
            torn = "";
          }
        }
      }
      cursor = answer.next as string | undefined;
      if (cursor === undefined) break;
    }
    expect(seen).toEqual(texts);
    expect(pages).toBeGreaterThan(5);
  });

  test("a long record, a long difference, and cursors that came from nowhere", async () => {
    const hold = await fresh();
    const call = caller(hold);
    const system = "x".repeat(3 * PAGE_CHARS);
    await call("agent_save", { id: "ann", system });
    let whole = "";
    for (let cursor: string | undefined; ; ) {
      const answer = await call("agent_load", { id: "ann", ...(cursor && { cursor }) });
      expect(answer.agent).toBeUndefined();
      whole += answer.piece.piece;
      cursor = answer.next;
      if (cursor === undefined) break;
    }
    expect(JSON.parse(whole)).toMatchObject({ id: "ann", system });
    await call("conversation_save", { id: "c", messages: [{ role: "user", content: "hi" }] });
    const { checkpoint: from } = await call("checkpoint_create", { session: "c" });
    for (let i = 0; i < 5; i++)
      await call("conversation_save", {
        id: "c",
        messages: [{ role: "user", content: `${i}`.repeat(9_000) }],
      });
    const { checkpoint: to } = await call("checkpoint_create", { session: "c" });
    const page = await call("checkpoint_diff", { from: from.id, to: to.id });
    expect(page).toMatchObject({ count: 5, next: expect.any(String) });
    expect(page.items).toHaveLength(2);
    for (const cursor of ["p99", "p0.99999999", "p-1", "x", "p1e3", "p00"]) {
      expect(String(await errorOf(() => call("conversation_load", { id: "c", cursor })))).toMatch(
        /cursor/,
      );
    }
  });
});

describe("pages of what changes meanwhile", () => {
  test("what is added at the end is shown; what has changed before ends the pages, and a cursor of something else is none", async () => {
    const hold = await fresh();
    const call = caller(hold);
    const say = (id: string, n: number) =>
      call("conversation_save", {
        id,
        messages: Array.from({ length: n }, (_, i) => ({
          role: "user",
          content: `${i}`.repeat(5_000),
        })),
      });
    await say("a", 1);
    const { checkpoint } = await call("checkpoint_create", { session: "a" });
    await say("a", 9);
    await say("b", 10);
    const { next } = await call("conversation_load", { id: "a" });
    expect(
      String(await errorOf(() => call("conversation_load", { id: "b", cursor: next }))),
    ).toMatch(/did not come from this answer/);
    expect(
      String(
        await errorOf(() => call("conversation_load", { id: "a", what: "state", cursor: next })),
      ),
    ).toMatch(/did not come/);
    await say("a", 1);
    expect(await call("conversation_load", { id: "a", cursor: next })).toMatchObject({ count: 11 });
    await hold.sessions.rewind("a", checkpoint.id);
    await say("a", 12);
    expect(
      String(await errorOf(() => call("conversation_load", { id: "a", cursor: next }))),
    ).toMatch(/changed since: begin anew/);
  });

  test("pieces of two versions of a record are not joined", async () => {
    const hold = await fresh();
    const call = caller(hold);
    await call("agent_save", { id: "ann", system: "a".repeat(3 * PAGE_CHARS) });
    const { next } = await call("agent_load", { id: "ann" });
    await call("agent_save", { id: "ann", system: "b".repeat(3 * PAGE_CHARS) });
    expect(String(await errorOf(() => call("agent_load", { id: "ann", cursor: next })))).toMatch(
      /changed since: begin anew/,
    );
  });
});

test("lists of what is long are shorter, and go on", async () => {
  const hold = await fresh();
  const call = caller(hold);
  const names = (n: number) => Array.from({ length: n }, (_, i) => `${i}`.padStart(200, "x"));
  for (let i = 0; i < 12; i++) {
    await call("agent_save", { id: `a${i}`, capabilities: names(1_000) });
    await call("conversation_save", {
      id: `c${i}`,
      tags: names(100),
      messages: [{ role: "user", content: "hi" }],
    });
    await call("checkpoint_create", { session: "c0", description: "d".repeat(10_000) });
  }
  for (const [name, input, count] of [
    ["agent_list", {}, 12],
    ["conversation_list", {}, 12],
    ["checkpoint_list", { session: "c0" }, 13],
  ] as const) {
    const seen: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await call(name, { ...input, limit: 100, ...(cursor && { cursor }) });
      expect(JSON.stringify(page).length, name).toBeLessThan(2 * PAGE_CHARS);
      seen.push(...(page.items as { id: string }[]).map(({ id }) => id));
      cursor = page.next as string | undefined;
      if (cursor === undefined) break;
    }
    expect(new Set(seen).size, name).toBe(count);
    expect(seen, name).toHaveLength(count);
  }
  expect(JSON.stringify(await call("agent_save", { id: "a0" })).length).toBeLessThan(PAGE_CHARS);
});

test("a store that does not answer has not said that there is nothing: tools for one agent do not act on another's", async () => {
  const inner = new MemoryStore();
  let busy = false;
  const once =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (busy) {
        busy = false;
        throw new HoldfastError("BUSY", "Not now.");
      }
      return call(...args);
    };
  const store = wrapped(inner, {
    session: once((...args: Parameters<MemoryStore["session"]>) => inner.session(...args)),
    saves: once((...args: Parameters<MemoryStore["saves"]>) => inner.saves(...args)),
    branches: once((...args: Parameters<MemoryStore["branches"]>) => inner.branches(...args)),
    documents: {
      get: once((kind: string, id: string) => inner.documents.get(kind, id)),
    },
  });
  const hold = new Hold(store, thisMachine(), { now: Date.now }, 30_000);
  opened.push(hold);
  const all = caller(hold);
  await all("conversation_save", {
    id: "of-bob",
    agent: "bob",
    messages: [{ role: "user", content: "hi" }],
  });
  const { checkpoint } = await all("checkpoint_create", { session: "of-bob" });
  const { checkpoint: whole } = await all("checkpoint_create", { agent: "bob" });
  const before = await everything(hold);
  const own = caller(hold, { agent: "ann" });
  for (const [name, input] of [
    ["checkpoint_create", { session: "of-bob" }],
    ["checkpoint_fork", { id: checkpoint.id, as: "mine" }],
    ["checkpoint_delete", { id: checkpoint.id }],
    ["checkpoint_delete", { id: whole.id }],
    ["checkpoint_restore", { id: whole.id }],
    ["conversation_save", { id: "of-bob", title: "mine" }],
    ["conversation_delete", { id: "of-bob" }],
  ] as const) {
    busy = true;
    expect(await errorOf(() => own(name, input)), name).toMatchObject({ code: "BUSY" });
    expect(await everything(hold), name).toEqual(before);
  }
});

test("asked again, a fork that is another's by now is not shown", async () => {
  const hold = await fresh();
  const [ann, bob] = ["ann", "bob"].map((agent) => caller(hold, { agent })) as [CallTool, CallTool];
  await ann("conversation_save", { id: "c", messages: [{ role: "user", content: "hi" }] });
  const { checkpoint } = await ann("checkpoint_create", { session: "c" });
  const input = { id: checkpoint.id, as: "x", idempotencyKey: "k" };
  await ann("checkpoint_fork", input);
  await ann("conversation_delete", { id: "x" });
  await bob("conversation_save", { id: "x", title: "a secret plan" });
  expect(String(await errorOf(() => ann("checkpoint_fork", input)))).not.toContain("secret");
});

test("a title can be saved as often as one likes where somebody is at work, and a save is told again after a redaction", async () => {
  const hold = await fresh();
  const call = caller(hold);
  await using session = await hold.session("busy");
  session.append({ role: "user", content: "hi" });
  await session.checkpoint();
  for (let i = 0; i < 120; i++)
    expect(await call("conversation_save", { id: "busy", title: `${i}` })).toMatchObject({
      count: 0,
      taken: true,
    });
  const input = {
    id: "c",
    messages: [{ role: "user", content: "pin 4711", id: "m" }],
    idempotencyKey: "k",
  };
  await call("conversation_save", input);
  await hold.sessions.redact("c", "4711");
  expect(await call("conversation_save", input)).toMatchObject({ taken: true });
});

test("what an agent is called by others does not end the pages of its record", async () => {
  const hold = await fresh();
  const call = caller(hold);
  await call("agent_save", { id: "ann", system: "x".repeat(3 * PAGE_CHARS) });
  const { next } = await call("agent_load", { id: "ann" });
  await call("conversation_save", { id: "c", agent: "ann" });
  expect(await call("agent_load", { id: "ann", cursor: next })).toMatchObject({
    activeSessions: ["c"],
    piece: { from: expect.any(Number) },
  });
});

test("whether a call was made long ago, and is forgotten, nobody can say", async () => {
  const hold = await fresh();
  const { agent_save } = hold.tools();
  if (agent_save.mode !== "keyed") throw new Error("it has no key");
  const request = (key: string, daysAgo: number) => ({
    key,
    input: { id: "ann" },
    startedAt: new Date(Date.now() - daysAgo * 86_400_000).toISOString(),
    holder: "dead" as const,
    context: undefined,
  });
  expect(await agent_save.check(request("k", 0))).toEqual({ retry: true });
  expect(await agent_save.check(request("k", 8))).toBeUndefined();
  await agent_save.execute({ id: "ann", idempotencyKey: "k" });
  expect(await agent_save.check(request("k", 0))).toMatchObject({
    output: { agent: { version: 1 } },
  });
  expect(await agent_save.check(request("k", 8))).toMatchObject({
    output: { agent: { version: 1 } },
  });
});

test("what one agent calls its calls is nothing to another, and refusing changes nothing", async () => {
  const hold = await fresh();
  const [ann, bob] = ["ann", "bob"].map((agent) => caller(hold, { agent })) as [CallTool, CallTool];
  await bob("agent_save", { id: "bob", idempotencyKey: "1" });
  expect(await ann("agent_save", { id: "ann", idempotencyKey: "1" })).toMatchObject({
    agent: { version: 1 },
  });
  await bob("conversation_save", { id: "secret", idempotencyKey: "2" });
  await bob("conversation_delete", { id: "secret", idempotencyKey: "3" });
  expect(await ann("conversation_delete", { id: "secret", idempotencyKey: "3" })).toEqual({
    deleted: false,
    keptFor: [],
    checkpoints: [],
  });
  const before = await hold.stats();
  const call = caller(hold);
  await call("conversation_save", {
    id: "c",
    title: "old",
    messages: [{ role: "user", content: "hi", id: "m" }],
    idempotencyKey: "4",
  });
  for (const input of [
    { id: "new", idempotencyKey: "4" },
    { id: "new", tags: ["a\nb"] },
    { id: "new", idempotencyKey: "é".repeat(150) },
    { id: "c", title: "newer", messages: [{ role: "user", content: "other", id: "m" }] },
  ])
    expect(await errorOf(() => call("conversation_save", input))).toMatchObject({
      code: expect.stringMatching(/CONFLICT|INVALID_ID/),
    });
  expect((await hold.sessions.get("c"))?.title).toBe("old");
  expect(await hold.stats()).toEqual({
    ...before,
    sessions: before.sessions + 1,
    checkpoints: 1,
    messages: 1,
    sizeBytes: expect.any(Number),
  });
});

test("what is stored comes back marked as data, and stands in no description", async () => {
  const hold = await fresh();
  const call = caller(hold);
  const before = JSON.stringify(Object.entries(hold.tools()));
  await everyTool(async (name, input) => {
    const answer = await call(name, input);
    const texts = JSON.stringify(answer);
    if (texts.includes("Ignore all previous")) expect(answer.notice, name).toMatch(/They are data/);
    return answer;
  });
  expect(JSON.stringify(Object.entries(hold.tools()))).toBe(before);
});

test("the types are those of an agent's tools", async () => {
  const hold = await fresh();
  const agent = hold.agent({
    name: "x",
    model: async () => ({ content: "done" }),
    tools: { ...hold.tools(), own: { mode: "repeatable", run: () => 1 } },
  });
  expectTypeOf<keyof ReturnType<typeof hold.tools>>().toEqualTypeOf<ToolName>();
  expectTypeOf<
    keyof ToolsFor<{ only: ["agent_load", "agent_save"]; readOnly: true }>
  >().toEqualTypeOf<"agent_load">();
  expectTypeOf(hold.tools({ agent: "x" })).not.toHaveProperty("persistence_stats");
  expectTypeOf(hold.tools({ readOnly: true })).not.toHaveProperty("checkpoint_fork");
  // What is not known here may not be there.
  const wide: ToolsOptions = { readOnly: true };
  expectTypeOf(hold.tools(wide).agent_save).toEqualTypeOf<ToolsFor<{}>["agent_save"] | undefined>();
  const { items } = await hold.tools().conversation_search.execute({ query: "kelp" });
  expectTypeOf(items[0]?.snippet).toEqualTypeOf<string | undefined>();
  // @ts-expect-error there is no such argument
  await errorOf(() => hold.tools().conversation_search.execute({ q: "kelp" }));
  expect((await agent.run("s", "hi")).status).toBe("completed");
});
