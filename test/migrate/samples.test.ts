/** The samples of the four systems, as they are. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type AgentRecord, type FilePart, type Message, partsOf } from "../../src/index.js";
import { guessKind, KINDS, migrate } from "../../src/migrate/index.js";
import { errorOf } from "../support/error-of.js";
import { stores } from "../support/stores.js";
import { fixtures, place, put, using, viewAt } from "./support.js";

const sample = (kind: string) => join(fixtures, kind);

test.each(
  stores
    .filter(({ traits }) => traits.durable)
    .flatMap((store) => KINDS.map((kind) => [kind, store] as const)),
)("%s is imported once, however often it is run", async (kind, store) => {
  const address = store.address();
  const first = await migrate(kind, sample(kind), address);
  expect(
    new Set([...first.sessions, ...first.agents, ...first.snapshots].map(({ outcome }) => outcome)),
  ).toEqual(new Set(["imported"]));
  expect(first.sourceBytes).toBeGreaterThan(first.storedBytes);
  const before = await viewAt(address);
  const again = await migrate(kind, sample(kind), address);
  expect(
    new Set([...again.sessions, ...again.agents, ...again.snapshots].map(({ outcome }) => outcome)),
  ).toEqual(new Set(["known"]));
  expect(again).toMatchObject({
    sourceBytes: 0,
    storedBytes: 0,
    notes: first.notes,
    skipped: first.skipped,
  });
  expect(await viewAt(address)).toEqual(before);
  expect(before).toMatchObject({ ok: true });
});

test("ares: sessions by what is in the files, times and runs of tools kept", async () => {
  const store = join(place(), "s.db");
  expect(await migrate("ares", sample("ares"), store)).toMatchObject({
    sessions: [
      { id: "a", outcome: "imported", checkpoints: 2 },
      { id: "a_b", outcome: "imported", checkpoints: 1 },
    ],
    files: 5,
    skipped: [],
    notes: [],
  });
  await using(store, async (hold) => {
    const a = await hold.sessions.state("a");
    expect(a.messages.map(({ role, content }) => [role, content])).toEqual([
      ["user", 'Hé "q"\n😀 \u2028'],
      ["assistant", "Hi there"],
    ]);
    expect(a.state["partialResults"]).toEqual(["partial output"]);
    expect(a.state["toolCalls"]).toMatchObject([
      { tool_name: "search", arguments: '{"q":1}' },
      { result: null, success: false },
    ]);
    expect(a.session).toMatchObject({
      agent: "researcher",
      status: "in-progress",
      createdAt: "2026-04-04T02:33:20.000Z",
    });
    expect(
      (await hold.checkpoints.list("a")).items.map(({ step, createdAt }) => [step, createdAt]),
    ).toEqual([
      [1, "2026-04-04T02:33:21.000Z"],
      [0, "2026-04-04T02:33:20.000Z"],
    ]);
    expect(await hold.sessions.get("a_b")).toMatchObject({ status: "completed" });
  });
});

test("ccswarm: states as they are, bytes, and integers of 64 bits as text", async () => {
  const store = join(place(), "s.db");
  const { notes } = await migrate("ccswarm", sample("ccswarm"), store);
  expect(notes.map(({ what }) => what)).toEqual(
    Array(2).fill("1 number is past what a double holds and kept as text: state.big."),
  );
  await using(store, async (hold) => {
    const { items } = await hold.checkpoints.list("session-1");
    expect(items).toMatchObject([
      {
        label: "before refactor",
        parentId: items[1]?.id,
        metadata: { k: { x: 1 }, source: { createdAt: "2026-01-28T02:31:00Z" } },
      },
      {
        createdAt: "2026-01-28T02:30:07.123Z",
        metadata: { source: { createdAt: "2026-01-28T02:30:07.123456789Z" } },
      },
    ]);
    const { state } = await hold.sessions.state("session-1");
    expect(state).toEqual({
      big: "9007199254740993",
      key: "value",
      list: [1, null, true],
      n: 1,
      context: ["aGn/AA=="],
      contextFormat: { encoding: "base64" },
    });
  });
});

test("smooth: tool calls and answers as parts", async () => {
  const store = join(place(), "s.db");
  const { skipped } = await migrate("smooth", sample("smooth"), store);
  expect(skipped).toEqual([
    {
      path: "sqlite-conversation-blob.json",
      why: expect.stringContaining("no checkpoint of smooth"),
    },
  ]);
  await using(store, async (hold) => {
    const { messages, session } = await hold.sessions.state("agent-1");
    expect(session.agent).toBe("agent-1");
    expect(messages.map(({ id, content }) => [id, content])).toEqual([
      ["m1", "test"],
      ["m2", "go"],
      ["m3", [{ type: "tool-call", callId: "call_1", name: "read", input: { path: "a.txt" } }]],
      ["m4", [{ type: "tool-result", callId: "call_1", outcome: "ok", output: "ok" }]],
    ]);
    expect(messages[0]?.metadata).toEqual({
      source: { timestamp: "2026-04-03T21:46:58.123456789Z" },
    });
    const [checkpoint] = (await hold.checkpoints.list("agent-1")).items;
    expect(checkpoint).toMatchObject({
      step: 3,
      metadata: { bead_id: "smooth-abc", phase: "execute", source: { id: "c-1" } },
    });
  });
});

test("aethershell: the agent, its conversation and a snapshot; the checksum matches", async () => {
  const store = join(place(), "s.db");
  const report = await migrate("aethershell", sample("aethershell"), store);
  expect(report.notes.map(({ what }) => what).filter((what) => what.includes("checksum"))).toEqual(
    [],
  );
  await using(store, async (hold) => {
    const agent = await hold.agents.get("agent-1");
    expect(agent).toMatchObject({
      name: "Test Agent",
      type: "gpt-4",
      capabilities: ["a"],
      config: { k: "v", temperature: 0.7 },
    });
    expect(agent?.state).toEqual({
      ...{
        arr: [1, null],
        bool: true,
        int: "9223372036854775807",
        float: 2,
        tiny: 1e-7,
        big: 1e21,
        str: "Null",
        null: null,
        7: 7,
      },
      ...{ uri: "https://x", err: { error: "e" }, bi: { _type: "Builtin", name: "ls" } },
      ...{
        lam: "<lambda>",
        alam: "<async lambda>",
        fut: "<future>",
        rec: { 9: null, 10: 1, x: 1 },
      },
      table: { schema: ["x"], rows: [{ 9: null, 10: 1, x: 1 }] },
    });
    const { tagged } = (agent as AgentRecord).metadata["source"] as { tagged: { state: object } };
    expect(tagged.state).toMatchObject({
      int: { Int: "9223372036854775807" },
      uri: { Uri: "https://x" },
      lam: { Lambda: { params: ["x"] } },
    });
    expect(tagged.state).not.toHaveProperty("bool");
    const { messages, session } = await hold.sessions.state("conv-1");
    expect(session).toMatchObject({ title: "Hello", tags: ["t"], agent: "agent-1" });
    const [asked, called, answered] = messages;
    expect(asked?.content).toMatchObject([
      { text: "Hello 😀" },
      { type: "file", name: "a.png", mediaType: "image/png" },
    ]);
    const file = partsOf(asked as Message)[1] as FilePart & { data: { digest: string } };
    expect(Buffer.from((await hold.blob(file.data.digest)) as Uint8Array).toString()).toBe("hi");
    expect(called).toMatchObject({
      parentId: "m1",
      content: [
        {
          callId: "call-123",
          name: "calc",
          input: { a: 1, b: 2 },
          provider: { aethershell: { status: "Pending" } },
        },
      ],
    });
    expect(answered?.content).toEqual([
      { type: "tool-result", callId: "call-123", outcome: "ok", output: "3" },
    ]);
    const snapshots = (await hold.agents.snapshots("agent-1")).items;
    expect(snapshots).toMatchObject([
      {
        name: "Test checkpoint",
        kind: "manual",
        sessions: 1,
        createdAt: "2026-04-04T02:33:29.000Z",
      },
    ]);
    expect(snapshots[0]?.metadata).toMatchObject({
      source: { id: "cp-1", isVerified: true, conversations: ["conv-1"] },
    });
  });
});

describe("what is asked for", () => {
  test("a kind, and a path that holds it; another kind is named", async () => {
    for (const kind of KINDS) expect(await guessKind(sample(kind))).toBe(kind);
    const store = join(place(), "s.db");
    for (const kind of KINDS) {
      const other = kind === "ares" ? "ccswarm" : "ares";
      expect(await errorOf(() => migrate(other, sample(kind), store))).toMatchObject({
        code: "INVALID_OPTION",
        message: expect.stringContaining(`holdfast import ${kind} `),
      });
    }
    expect(await errorOf(() => migrate("octopoda" as "ares", sample("ares"), store))).toMatchObject(
      { code: "INVALID_OPTION" },
    );
    expect(await errorOf(() => migrate("ares", join(place(), "missing"), store))).toMatchObject({
      code: "NOT_FOUND",
    });
    expect(await errorOf(() => migrate("ares", "", store))).toMatchObject({
      code: "INVALID_OPTION",
    });
    expect(await errorOf(() => migrate("ares", place(), store))).toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringContaining("<session>_<step>.json"),
    });
    expect(
      await errorOf(() => migrate("ares", put(place(), { "package.json": { name: "x" } }), store)),
    ).toMatchObject({
      code: "NOT_FOUND",
    });
    const file = join(put(place(), { "x.db": "no database" }), "x.db");
    expect(await errorOf(() => migrate("ares", file, store))).toMatchObject({ code: "NOT_FOUND" });
    expect(await errorOf(() => migrate("smooth", file, store))).toMatchObject({
      code: "INVALID_OPTION",
    });
    // None of them has made a store.
    expect(existsSync(store)).toBe(false);
  });
});
