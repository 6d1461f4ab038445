/** AetherShell: checkpoints as snapshots, values with tags, attachments, calls, orphans. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Message, partsOf } from "../../src/index.js";
import { migrate } from "../../src/migrate/index.js";
import { agent, checkpoint, conversation, message, T } from "./aethershell-files.js";
import { fixtures, place, put, using } from "./support.js";

const imported = async (files: Readonly<Record<string, unknown>>) => {
  const store = join(place(), "s.db");
  const path = put(place(), files);
  const report = await migrate("aethershell", path, store);
  return { store, path, report, notes: report.notes.map(({ what }) => what).join("\n") };
};

describe("checkpoints", () => {
  const files = {
    ...checkpoint("c2", 20, [conversation("x", 4), conversation("y", 1)], {
      checkpoint_type: "PreOperation",
    }),
    ...checkpoint("c1", 10, [conversation("x", 2)], { checkpoint_type: "Recovery" }),
    ...checkpoint("c3", 20, [conversation("x", 5)], { checkpoint_type: "Manual" }),
    "agents/ag.json": agent({ custom_state: { at: { Int: 99 } } }),
    "conversations/x.json": conversation("x", 6, {
      title: "Ex",
      tags: ["t"],
      archived: true,
      metadata: { k: "v" },
    }),
    "conversations/y.json": conversation("y", 1),
  };

  test("are checkpoints of each conversation, and snapshots of the agent in order; last comes how it stands now", async () => {
    const { store, path, report } = await imported(files);
    expect(report.sessions.map(({ id, checkpoints }) => [id, checkpoints])).toEqual([
      ["y", 1],
      ["x", 4],
    ]);
    expect(report.snapshots.map(({ id, outcome }) => [id, outcome])).toEqual(
      ["c1", "c2", "c3"].map((id) => [id, "imported"]),
    );
    await using(store, async (hold) => {
      const { items } = await hold.checkpoints.list("x");
      expect(
        items
          .toReversed()
          .map(({ label, kind, messageCount, description }) => [
            label,
            kind,
            messageCount,
            description,
          ]),
      ).toEqual([
        ["Checkpoint c1", "recovery", 2, "why"],
        ["Checkpoint c2", "pre-operation", 4, "why"],
        ["Checkpoint c3", "manual", 5, "why"],
        [undefined, "automatic", 6, undefined],
      ]);
      expect(await hold.sessions.get("x")).toMatchObject({
        title: "Ex",
        tags: ["t"],
        archived: true,
        metadata: { k: "v" },
      });
      expect(await hold.agents.get("ag")).toMatchObject({
        state: { at: 99 },
        system: "Be kind.",
        capabilities: ["a"],
        metadata: { m: "1" },
      });
      const snapshots = (await hold.agents.snapshots("ag")).items.toReversed();
      expect(snapshots.map(({ sessions, kind, createdAt }) => [sessions, kind, createdAt])).toEqual(
        [
          [1, "recovery", new Date((T + 10) * 1000).toISOString()],
          [2, "pre-operation", new Date((T + 20) * 1000).toISOString()],
          [2, "manual", new Date((T + 20) * 1000).toISOString()],
        ],
      );
      // A snapshot is what it was there: the agent and its conversation go back to it.
      await hold.agents.restore(snapshots[0]?.id as string);
      expect(await hold.sessions.get("x")).toMatchObject({
        titled: false,
        tags: [],
        archived: false,
      });
      expect((await hold.sessions.state("x")).messages).toHaveLength(2);
      expect(await hold.agents.get("ag")).toMatchObject({ state: { at: 10 } });
    });
    expect(
      (await migrate("aethershell", path, store)).sessions.map(({ outcome }) => outcome),
    ).toContain("conflict");
  });

  test("a source that has grown is continued; one that comes too late is said", async () => {
    const { store, path } = await imported(files);
    put(path, {
      ...checkpoint("c4", 40, [conversation("x", 7)]),
      ...checkpoint("c0", 5, [conversation("x", 1)]),
      "conversations/x.json": conversation("x", 8, { title: "Why" }),
      "conversations/z.json": conversation("z", 1),
      "agents/ag.json": agent({ custom_state: { at: { Int: 100 } } }),
    });
    const report = await migrate("aethershell", path, store);
    expect(
      report.sessions.map(({ id, outcome, checkpoints }) => [id, outcome, checkpoints]),
    ).toEqual([
      ["y", "known", 0],
      ["z", "imported", 1],
      ["x", "grown", 2],
    ]);
    expect(report.snapshots.map(({ id, outcome }) => [id, outcome])).toEqual([
      ["c0", "refused"],
      ["c1", "known"],
      ["c2", "known"],
      ["c3", "known"],
      ["c4", "imported"],
    ]);
    expect(report.agents).toEqual([{ id: "ag", outcome: "grown" }]);
    expect(report.notes.filter(({ path: of }) => of === "checkpoints/c0.json")).toHaveLength(2);
    await using(store, async (hold) => {
      expect(await hold.sessions.get("x")).toMatchObject({ title: "Why" });
      expect(await hold.agents.get("ag")).toMatchObject({ state: { at: 100 } });
      expect((await hold.sessions.state("x")).messages).toHaveLength(8);
    });
    expect(
      (await migrate("aethershell", path, store)).sessions.map(({ outcome }) => outcome),
    ).toEqual(["known", "known", "known"]);
  });

  test("a conversation that was put back: the session stands where it does, at an earlier live copy or at a checkpoint", async () => {
    const live = (turns: number) => ({ "conversations/x.json": conversation("x", turns) });
    const { store, path } = await imported({
      ...checkpoint("c1", 10, [conversation("x", 2)]),
      ...live(3),
    });
    const messages = () =>
      using(store, async (hold) => (await hold.sessions.state("x")).messages.length);
    for (const turns of [4, 3, 5, 2, 5, 6]) {
      put(path, live(turns));
      expect((await migrate("aethershell", path, store)).sessions).toMatchObject([
        { outcome: "grown" },
      ]);
      expect(await messages()).toBe(turns);
      expect((await migrate("aethershell", path, store)).sessions).toMatchObject([
        { outcome: "known" },
      ]);
    }
  });

  test("an agent put back here by a restore is left there, also where its words are those of an import under way", async () => {
    const { store, path } = await imported(files);
    const restored = async (n: number) => {
      await using(store, async (hold) =>
        hold.agents.restore((await hold.agents.snapshots("ag")).items.at(n)?.id as string),
      );
      const at = await using(store, async (hold) => (await hold.checkpoints.latest("x"))?.id);
      put(path, { "conversations/x.json": conversation("x", 9) });
      expect(
        (await migrate("aethershell", path, store)).sessions.find(({ id }) => id === "x"),
      ).toMatchObject({ outcome: "conflict" });
      expect(await using(store, async (hold) => (await hold.checkpoints.latest("x"))?.id)).toBe(at);
    };
    await restored(-1);
    await restored(-2);
  });

  test("those of one second are in the order of what they know, not of their random ids", async () => {
    const { store } = await imported({
      ...checkpoint("z", 10, [conversation("x", 1)]),
      ...checkpoint("m", 10, [conversation("x", 2)]),
      ...checkpoint("a", 10, [conversation("x", 3)]),
      ...checkpoint("b", 10, [
        conversation("x", 3, { last_message_at: T + 3, messages: [message(0)] }),
      ]),
    });
    await using(store, async (hold) => {
      const { items } = await hold.checkpoints.list("x");
      expect(items.map(({ label }) => label)).toEqual(
        ["a", "b", "m", "z"].map((id) => `Checkpoint ${id}`),
      );
      expect((await hold.sessions.state("x")).messages).toHaveLength(3);
    });
  });

  test("an agent of the same id from another directory is left alone; one that was given another name is the same", async () => {
    const { store, path } = await imported(files);
    const other = put(place(), {
      "agents/ag.json": agent({ name: "Second", custom_state: {} }),
      ...checkpoint("d1", 50, []),
    });
    put(other, {
      "checkpoints/d1.json": {
        ...Object.values(checkpoint("d1", 50, []))[0],
        agent_state: agent({ name: "Second" }),
      },
    });
    const report = await migrate("aethershell", other, store);
    expect(report.agents).toEqual([
      {
        id: "ag",
        outcome: "conflict",
        message: expect.stringContaining("another agent of this id"),
      },
    ]);
    expect(report.snapshots).toMatchObject([
      { id: "d1", outcome: "conflict", message: expect.stringContaining("another agent") },
    ]);
    await using(store, async (hold) =>
      expect(await hold.agents.get("ag")).toMatchObject({ name: "Ag", state: { at: 99 } }),
    );
    put(path, { "agents/ag.json": agent({ name: "Renamed" }) });
    expect((await migrate("aethershell", path, store)).agents).toEqual([
      { id: "ag", outcome: "grown" },
    ]);
    expect((await migrate("aethershell", path, store)).agents).toEqual([
      { id: "ag", outcome: "known" },
    ]);
  });

  test("what agents take here is counted, as their files are", async () => {
    const large = { custom_state: { x: { Str: "what holds kelp to the rock? ".repeat(1_000) } } };
    const { report, path, store } = await imported({ "agents/ag.json": agent(large) });
    expect(report.sourceBytes).toBeGreaterThan(29_000);
    expect(report.storedBytes).toBeGreaterThan(29_000);
    expect(await migrate("aethershell", path, store)).toMatchObject({
      sourceBytes: 0,
      storedBytes: 0,
    });
    expect(
      (await migrate("aethershell", path, join(place(), "s.db"), { dryRun: true })).storedBytes,
    ).toBe(report.storedBytes);
  });

  test("an agent that was changed here, or is another, is left alone; so are its snapshots", async () => {
    const { store, path } = await imported(files);
    await using(store, (hold) => hold.agents.save({ id: "ag", state: { mine: 1 } }));
    put(path, {
      ...checkpoint("c4", 40, [conversation("x", 7)]),
      "conversations/x.json": conversation("x", 7),
    });
    const report = await migrate("aethershell", path, store);
    expect(report.agents).toEqual([
      { id: "ag", outcome: "conflict", message: expect.stringContaining("changed here") },
    ]);
    expect(report.snapshots.at(-1)).toMatchObject({ id: "c4", outcome: "conflict" });
    expect(report.sessions).toContainEqual({ id: "x", outcome: "grown", checkpoints: 1 });
    await using(store, async (hold) =>
      expect((await hold.agents.get("ag"))?.state).toEqual({ mine: 1 }),
    );
    const other = join(place(), "s.db");
    await using(other, (hold) => hold.agents.save({ id: "ag", name: "Somebody else" }));
    expect((await migrate("aethershell", path, other)).agents).toMatchObject([
      { outcome: "conflict", message: expect.stringContaining("another agent") },
    ]);
    await using(other, async (hold) =>
      expect(await hold.agents.get("ag")).toMatchObject({ name: "Somebody else", version: 1 }),
    );
  });

  test("the checksum is of the text: MD5 and SHA-256, and one that does not match is said and not refused", async () => {
    const text = readFileSync(join(fixtures, "aethershell/checkpoints/cp-1.json"), "utf8");
    const bent = text.replace('"Hello 😀"', '"Hello 🙂"');
    const { report, notes } = await imported({
      "checkpoints/cp-1.json": bent,
      ...checkpoint("c1", 1, []),
      ...checkpoint("c2", 2, [], { checksum: "x" }),
    });
    expect(
      report.notes.filter(({ what }) => what.includes("checksum")).map(({ path }) => path),
    ).toEqual(["checkpoints/c2.json", "checkpoints/cp-1.json"]);
    expect(notes).toContain("does not match");
    expect(report.sessions).toMatchObject([{ id: "conv-1", checkpoints: 1 }]);
    expect((await imported({ "checkpoints/cp-1.json": text })).notes).not.toContain("checksum");
  });
});

test("attachments are files: bytes, text, addresses", async () => {
  const attachment = (id: string, more: object) => ({
    id,
    attachment_type: "File",
    name: `${id}.bin`,
    mime_type: "application/pdf",
    content: null,
    url: null,
    size: 3,
    ...more,
  });
  const attachments = [
    attachment("bytes", { content: "aGk=" }),
    attachment("words", { content: "not base64!" }),
    attachment("code", { attachment_type: "Code", mime_type: "text/x-rust", content: "abcd" }),
    attachment("far", { url: "https://x/y" }),
    attachment("both", { content: "aGk=", url: "https://x/y" }),
    attachment("inside", { url: "data:application/pdf;base64,aGk=" }),
    attachment("nothing", { mime_type: "" }),
    ...["aGk", "aGVs\nbG8=\n", "-_-_"].map((content) =>
      attachment("loose", { attachment_type: "Image", mime_type: "image/png", content }),
    ),
    attachment("short", { content: "aGk" }),
  ];
  const { store, report } = await imported({
    "conversations/x.json": conversation("x", 0, { messages: [message(0, { attachments })] }),
  });
  expect(report.skipped).toEqual([]);
  await using(store, async (hold) => {
    const [only] = (await hold.sessions.state("x")).messages;
    expect(partsOf(only as Message).slice(1)).toMatchObject([
      { name: "bytes.bin", mediaType: "application/pdf", data: { sizeBytes: 2 } },
      { data: { text: "not base64!" } },
      { mediaType: "text/x-rust", data: { text: "abcd" } },
      { data: { url: "https://x/y" } },
      { data: { sizeBytes: 2 }, provider: { aethershell: { url: "https://x/y", size: 3 } } },
      { data: { sizeBytes: 2 } },
      { mediaType: "application/octet-stream", data: { ref: { aethershell: "nothing" } } },
      { data: { sizeBytes: 2 } },
      { data: { sizeBytes: 5 } },
      { data: { sizeBytes: 3 } },
      { data: { text: "aGk" } },
    ]);
  });
});

test("calls keep their status; an answer in the call stands after it, unless a message gives it", async () => {
  const call = (id: string, status: string, result: string | null) => ({
    id,
    name: "calc",
    arguments: { n: { Int: 1 }, u: { Uri: "x:y" } },
    result,
    status,
  });
  const calls = [
    call("a", "Completed", "1"),
    call("b", "Failed", "no"),
    call("c", "Running", null),
    call("d", "Failed", "told twice"),
    call("e", "Completed", "alike"),
  ];
  const messages = [
    message(1, { content: "", tool_calls: calls }),
    message(2, { role: "Tool", content: "told", metadata: { tool_call_id: "d", more: "x" } }),
    message(3, { role: "Tool", content: "nobody asked" }),
    message(4, { role: "Tool", content: "alike", metadata: { tool_call_id: "e" } }),
  ];
  const { store } = await imported({ "conversations/x.json": conversation("x", 0, { messages }) });
  await using(store, async (hold) => {
    const [asked, inside, told, stray] = (await hold.sessions.state("x")).messages;
    const status = (name: string) => ({
      provider: { aethershell: { status: name, arguments: { u: { Uri: "x:y" } } } },
      input: { n: 1, u: "x:y" },
    });
    const calling = [
      status("Completed"),
      status("Failed"),
      status("Running"),
      status("Failed"),
      status("Completed"),
    ];
    expect(asked?.content).toMatchObject(calling);
    // What a call says itself stays with it where a message answers otherwise.
    const own = partsOf(asked as Message).map(
      ({ provider }) => (provider?.["aethershell"] as { result?: unknown } | undefined)?.result,
    );
    expect(own).toEqual([undefined, undefined, undefined, "told twice", undefined]);
    expect(inside).toMatchObject({
      role: "tool",
      content: [
        { callId: "a", outcome: "ok", output: "1" },
        { callId: "b", outcome: "error", output: "no" },
      ],
    });
    expect(told).toMatchObject({
      content: [{ callId: "d", outcome: "error", output: "told" }],
      metadata: { more: "x", source: { timestamp: T + 2 } },
    });
    expect(stray).toMatchObject({ role: "tool", content: "nobody asked" });
    const { messages: sent } = await hold.sessions.transcript("x", { format: "openai" });
    expect(sent.length).toBeGreaterThan(3);
  });
});

test("orphans, numbers that are none, values of a later version, and metadata with a field of ours", async () => {
  const state = {
    nan: { Float: null },
    later: { Tensor: { shape: [1] } },
    two: { Int: 1, Str: "x" },
    bare: "Undefined",
    list: { Array: [{ Float: null }] },
  };
  const odd = JSON.parse(
    '{"Record": {"__proto__": {"Int": 1}, "constructor": {"Int": 2}}}',
  ) as unknown;
  const { store, notes } = await imported({
    "agents/ag.json": agent({
      custom_state: { ...state, odd },
      metadata: { source: "their own" },
      capabilities: [],
      agent_type: "",
      system_prompt: null,
    }),
    "conversations/o.json": conversation("o", 1, {
      agent_id: "gone",
      metadata: { source: "theirs" },
    }),
  });
  expect(notes).toContain('agent "gone", which has no file: an orphan');
  expect(notes).toContain("is read as null");
  await using(store, async (hold) => {
    expect(await hold.sessions.get("o")).toMatchObject({
      agent: "gone",
      metadata: { source: { kind: "aethershell", metadata: { source: "theirs" } } },
    });
    const record = await hold.agents.get("ag");
    expect(record?.state).toMatchObject({
      nan: null,
      later: { Tensor: { shape: [1] } },
      two: { Int: 1, Str: "x" },
      bare: "Undefined",
      list: [null],
    });
    expect(Object.keys(record?.state["odd"] as object)).toEqual(["__proto__", "constructor"]);
    expect(record?.metadata).toMatchObject({
      source: { metadata: { source: "their own" }, tagged: { state: { nan: { Float: null } } } },
    });
    expect(record).not.toHaveProperty("type");
  });
  const again = await migrate("aethershell", put(place(), { "agents/ag.json": agent() }), store);
  expect(again.agents).toEqual([{ id: "ag", outcome: "grown" }]);
});
