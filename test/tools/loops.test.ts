/** The tools in loops: in ours, killed at every point, and in the AI SDK's. */
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { expect, test } from "vitest";
import { Holdfast as Hold } from "../../src/holdfast.js";
import { type Holdfast, HoldfastError, open } from "../../src/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { MemoryStore } from "../../src/store/memory.js";
import { RECEIPT } from "../../src/store/port/documents.js";
import { everyCrash, scriptedModel } from "../../src/testing/index.js";
import { wrapped } from "../support/failures/wrapped.js";
import { isThorough } from "../support/runs.js";

const call = (id: string, name: string, input: object) => ({
  callId: id,
  name,
  input: input as never,
});

/** An agent that writes down what it learns, and looks it up. */
const model = () =>
  scriptedModel([
    {
      content: "",
      toolCalls: [
        call("1", "agent_save", { id: "keeper", state: { likes: "kelp" } }),
        call("2", "conversation_save", {
          id: "notes",
          messages: [{ role: "user", content: "She likes kelp." }],
        }),
      ],
    },
    {
      content: "",
      toolCalls: [call("3", "checkpoint_create", { agent: "keeper", label: "learned" })],
    },
    {
      content: "",
      toolCalls: [call("4", "checkpoint_create", { session: "notes", label: "noted" })],
    },
    ({ messages }) => {
      const { checkpoint } = JSON.parse(JSON.stringify(messages.at(-1))).content[0].output as {
        checkpoint: { id: string };
      };
      return {
        content: "",
        toolCalls: [
          call("5", "checkpoint_fork", { id: checkpoint.id }),
          call("6", "conversation_search", { query: "kelp" }),
        ],
      };
    },
    {
      content: "",
      toolCalls: [
        call("7", "agent_load", { id: "nobody" }),
        call("8", "conversation_delete", { id: "none" }),
      ],
    },
    "done",
  ]);

const keeper = (hold: Holdfast) =>
  hold.agent({ name: "keeper", model: model(), tools: hold.tools() });

async function done(hold: Holdfast) {
  const notes = await hold.sessions.state("notes");
  return {
    version: (await hold.agents.get("keeper"))?.version,
    notes: notes.messages.length,
    // Of the run itself none is made: an agent that is at work is looked at where it stands.
    snapshots: (await hold.agents.snapshots("keeper")).items.length,
    noted: (await hold.checkpoints.list("notes")).items.filter(({ label }) => label === "noted")
      .length,
    forks: (await hold.sessions.list()).items.filter(({ forkPoint }) => forkPoint !== undefined)
      .length,
    effects: (await hold.effects.list({ status: "in-doubt" })).items.length,
  };
}

/** `hold.agent` makes the record itself, with the first run. */
const ONCE = { version: 2, notes: 1, snapshots: 1, noted: 1, forks: 1, effects: 0 };

test("an agent keeps what it learns, and a refusal is told to it, not left open", async () => {
  await using hold = await open("memory:");
  const result = await keeper(hold).run("job", "go");
  expect(result).toMatchObject({ status: "completed", output: "done" });
  expect(await done(hold)).toEqual(ONCE);
  const { messages } = await hold.sessions.state("job");
  expect(JSON.stringify(messages)).toContain('NOT_FOUND: There is no agent \\"nobody\\"');
  expect(JSON.stringify(messages)).toContain('"deleted":false');
  // The key of a call is the loop's own: a model is not asked for one.
  expect(JSON.stringify(hold.tools().agent_save.input.json)).not.toContain("idempotencyKey");
});

test("killed at every point, it does everything once", async () => {
  const wrong: unknown[] = [];
  const report = await everyCrash({
    make: async (hold) => {
      const result = await keeper(hold).run("job", "go");
      const found = await done(hold);
      if (JSON.stringify(found) !== JSON.stringify(ONCE)) wrong.push(found);
      return result;
    },
    ledger: () => [],
  });
  expect(wrong).toEqual([]);
  expect(report).toMatchObject({ doubled: 0, lost: 0, inDoubt: 0 });
  expect(report.points).toBeGreaterThan(40);
});

if (isThorough)
  test("a call that would do without its key is found doubled: the control", async () => {
    const wrong: unknown[] = [];
    await everyCrash({
      make: async (hold) => {
        const tools = hold.tools();
        const agent_save = {
          ...tools.agent_save,
          run: (input: { readonly id: string }) => tools.agent_save.execute(input),
        };
        const result = await hold
          .agent({ name: "keeper", model: model(), tools: { ...tools, agent_save } })
          .run("job", "go");
        const found = await done(hold);
        if (JSON.stringify(found) !== JSON.stringify(ONCE)) wrong.push(found);
        return result;
      },
      ledger: () => [],
    });
    expect(wrong.length).toBeGreaterThan(0);
  });

test("where the store was away, a call is looked for under its key: nothing is left in doubt", async () => {
  for (const when of ["before", "after"] as const) {
    const inner = new MemoryStore();
    let away = 0;
    const store = wrapped(inner, {
      async apply(changes, docs) {
        const isCall = docs?.some(({ kind }) => kind === RECEIPT) ?? false;
        if (isCall && away++ === 0) {
          if (when === "after") await inner.apply(changes, docs);
          throw new HoldfastError("UNREACHABLE", "It is away.");
        }
        return inner.apply(changes, docs);
      },
      documents: {
        async get(kind, id) {
          // And is not back when whoever called looks whether it was done.
          if (kind === RECEIPT && away === 1) {
            away++;
            throw new HoldfastError("UNREACHABLE", "It is still away.");
          }
          return inner.documents.get(kind, id);
        },
      },
    });
    const hold = new Hold(store, thisMachine(), { now: Date.now }, 30_000);
    const agent = hold.agent({
      name: "keeper",
      model: scriptedModel([
        {
          content: "",
          toolCalls: [call("1", "agent_save", { id: "ann", state: { likes: "kelp" } })],
        },
        { content: "", toolCalls: [call("2", "checkpoint_fork", { id: "0000000000000000-1" })] },
        { content: "", toolCalls: [call("3", "checkpoint_create", { session: "job" })] },
        "done",
      ]),
      tools: hold.tools(),
    });
    const began = performance.now();
    expect(await agent.run("job", "go"), when).toMatchObject({ status: "completed" });
    expect(away).toBeGreaterThan(1);
    expect((await hold.agents.get("ann"))?.version).toBe(1);
    const said = JSON.stringify((await hold.sessions.state("job")).messages);
    expect(said).toContain("NOT_FOUND: There is no checkpoint");
    // At once, and not after it has waited for itself.
    expect(said).toContain('BAD_STATUS: You are at work in \\"job\\"');
    expect(performance.now() - began).toBeLessThan(10_000);
    await hold.close();
  }
});

test("a store that is away for a second leaves nothing in doubt", async () => {
  const inner = new MemoryStore();
  let until = 0;
  const away = () => {
    if (performance.now() < until) throw new HoldfastError("UNREACHABLE", "It is away.");
  };
  const store = wrapped(inner, {
    async apply(changes, docs) {
      if (until === 0 && docs?.some(({ kind }) => kind === RECEIPT)) {
        await inner.apply(changes, docs);
        until = performance.now() + 1_000;
      }
      away();
      return inner.apply(changes, docs);
    },
    documents: {
      async get(kind, id) {
        away();
        return inner.documents.get(kind, id);
      },
    },
  });
  const hold = new Hold(store, thisMachine(), { now: Date.now }, 30_000);
  const agent = hold.agent({
    name: "keeper",
    model: scriptedModel([
      { content: "", toolCalls: [call("1", "agent_save", { id: "ann" })] },
      "done",
    ]),
    tools: hold.tools(),
  });
  expect(await agent.run("job", "go")).toMatchObject({ status: "completed" });
  expect((await hold.agents.get("ann"))?.version).toBe(1);
  expect(JSON.stringify((await hold.sessions.state("job")).messages)).not.toContain(
    "not as it was",
  );
  await hold.close();
});

test("an agent does not delete itself, nor find what it says just now", async () => {
  await using hold = await open("memory:");
  const agent = hold.agent({
    name: "keeper",
    model: scriptedModel([
      {
        content: "",
        toolCalls: [
          call("1", "conversation_delete", { id: "job" }),
          call("2", "agent_delete", { id: "keeper" }),
        ],
      },
      { content: "", toolCalls: [call("3", "conversation_search", { query: "kelp" })] },
      "done",
    ]),
    tools: hold.tools(),
  });
  expect(await agent.run("job", "Where is the kelp?")).toMatchObject({ status: "completed" });
  const said = JSON.stringify((await hold.sessions.state("job")).messages);
  expect(said.match(/BAD_STATUS: You are at work/g)).toHaveLength(2);
  expect(said).toContain('"items":[]');
});

test("a person is asked before something is removed", async () => {
  await using hold = await open("memory:");
  await hold.agents.save({ id: "ann" });
  const agent = hold.agent({
    name: "keeper",
    model: scriptedModel([
      { content: "", toolCalls: [call("1", "agent_delete", { id: "ann" })] },
      "done",
    ]),
    tools: hold.tools({ approval: true }),
  });
  expect(await agent.run("job", "go")).toMatchObject({ status: "waiting" });
  const { items } = await hold.effects.list({ status: "waiting" });
  expect(await hold.agents.get("ann")).toBeDefined();
  await hold.effects.approve(items[0]?.effectId as string, { by: "eve" });
  expect(await agent.resume("job")).toMatchObject({ status: "completed" });
  expect(await hold.agents.get("ann")).toBeUndefined();
});

test("the AI SDK takes them as they are", async () => {
  await using hold = await open("memory:");
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 },
  };
  let asked = 0;
  const seen: unknown[] = [];
  const mock = new MockLanguageModelV3({
    doGenerate: async ({ tools, prompt }) => {
      seen.push(tools, prompt.at(-1));
      const input = ['{"id":"ann","state":{"likes":"kelp"}}', '{"id":"ann"}', '{"id":7}'][asked++];
      const toolName = asked === 1 ? "agent_save" : "agent_load";
      return input === undefined
        ? {
            content: [{ type: "text", text: "done" }],
            finishReason: { unified: "stop", raw: "stop" },
            usage,
            warnings: [],
          }
        : {
            content: [{ type: "tool-call", toolCallId: `${asked}`, toolName, input }],
            finishReason: { unified: "tool-calls", raw: "tool" },
            usage,
            warnings: [],
          };
    },
  });
  const { text, steps } = await generateText({
    model: mock,
    prompt: "go",
    tools: hold.tools(),
    stopWhen: stepCountIs(5),
  });
  expect(text).toBe("done");
  expect((seen[0] as { name: string; inputSchema: object }[]).map(({ name }) => name)).toContain(
    "checkpoint_fork",
  );
  expect((seen[0] as { name: string; inputSchema: object }[])[0]?.inputSchema).toMatchObject({
    type: "object",
    required: ["id"],
  });
  expect(steps[1]?.toolResults[0]?.output).toMatchObject({
    agent: { id: "ann", state: { likes: "kelp" } },
  });
  expect(JSON.stringify(seen.at(-1))).toMatch(/error/);
  expect(await hold.agents.get("ann")).toMatchObject({ version: 1, state: { likes: "kelp" } });
});
