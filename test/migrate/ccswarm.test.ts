/** Directories of ccswarm: an index that lies, bytes, parents, forks. */
import { join } from "node:path";
import { deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { migrate } from "../../src/migrate/index.js";
import { place, put, tree, using } from "./support.js";

interface Made {
  readonly session?: string;
  readonly parent?: string | null;
  readonly at?: number | string;
  readonly state?: unknown;
  readonly context?: readonly number[] | null;
  readonly compressed?: boolean;
  readonly more?: object;
}

const checkpoint = (
  id: string,
  {
    session = "s",
    parent = null,
    at = 0,
    state = { id },
    context = null,
    compressed = false,
    more,
  }: Made = {},
) => ({
  [`sessions/${session}/${id}.json`]: {
    id,
    session_id: session,
    label: null,
    created_at:
      typeof at === "string" ? at : `2026-01-28T02:30:0${Math.floor(at / 10)}.00000000${at % 10}Z`,
    state,
    context,
    metadata: {
      tasks_completed: 1,
      token_count: 7,
      state_size_bytes: 1,
      context_compressed: compressed,
      parent_checkpoint_id: parent,
      extra: {},
    },
    ...more,
  },
});

const imported = async (files: Readonly<Record<string, unknown>>) => {
  const store = join(place(), "s.db");
  const path = put(place(), files);
  const report = await migrate("ccswarm", path, store);
  return { store, path, report, notes: report.notes.map(({ what }) => what).join("\n") };
};

test("order is that of nanoseconds; counts are kept", async () => {
  const { store, report } = await imported({
    ...checkpoint("b", { at: 2 }),
    ...checkpoint("c", { at: 1 }),
    ...checkpoint("a", { at: 3 }),
  });
  expect((await tree(store)).parents).toEqual({ c: null, b: "c", a: "b" });
  expect(report.sessions).toEqual([{ id: "s", outcome: "imported", checkpoints: 3 }]);
  await using(store, async (hold) =>
    expect(await hold.checkpoints.latest("s")).toMatchObject({ tokenCount: 7, tasksCompleted: 1 }),
  );
});

test("the index is a hint: what it misses is imported, what it makes up is said, its paths are not opened", async () => {
  const outside = put(place(), {
    "secret.json": Object.values(checkpoint("secret", { state: { canary: "CANARY" } }))[0],
  });
  const entry = (id: string, path: string) => ({
    id,
    session_id: "s",
    label: null,
    created_at: "2026-01-28T02:30:07Z",
    path,
    size_bytes: 1,
  });
  const index = {
    a: entry("a", "sessions/s/a.json"),
    secret: entry("secret", join(outside, "secret.json")),
    gone: entry("gone", "../x.json"),
  };
  const { store, notes, report } = await imported({
    ...checkpoint("a"),
    ...checkpoint("b", { at: 1 }),
    "index.json": index,
  });
  expect(notes).toContain('Checkpoint "secret" is in the index, and no file has it.');
  expect(notes).toContain('Checkpoint "gone" is in the index');
  expect(report.notes).toContainEqual({
    path: "sessions/s/b.json",
    what: expect.stringContaining("not in the index"),
  });
  expect(
    JSON.stringify(await using(store, async (hold) => (await hold.sessions.list()).items)),
  ).not.toContain("CANARY");
  expect((await tree(store)).parents).toEqual({ a: null, b: "a" });
  const torn = await imported({ ...checkpoint("a"), "index.json": '{"a": {' });
  expect(torn.report).toMatchObject({
    sessions: [{ checkpoints: 1 }],
    skipped: [{ path: "index.json" }],
  });
});

describe("states", () => {
  const stateOf = async (state: unknown, more: Made = {}) => {
    const { store, report } = await imported(checkpoint("a", { state, ...more }));
    expect(report.skipped).toEqual([]);
    const { state: shown } = await using(store, (hold) => hold.sessions.state("s"));
    const latest = await using(store, (hold) => hold.checkpoints.latest("s"));
    return {
      shown,
      notes: report.notes,
      renamed: (latest?.metadata["source"] as { renamed?: unknown } | undefined)?.renamed,
    };
  };

  test("that are no objects are under one key; of others, only the keys that are not for us have another name", async () => {
    for (const state of [[1], "text", 7, null])
      expect((await stateOf(state)).shown).toEqual({ state });
    const said = await stateOf(
      { messages: [1], messages_: 2, "a\nb": 3, k: 4, context: 5 },
      { context: [104, 105] },
    );
    const names = Object.keys(said.renamed as object);
    expect(said.shown).toEqual({
      messages__: [1],
      messages_: 2,
      [String(names[1])]: 3,
      k: 4,
      context_: 5,
      context: ["hi"],
    });
    expect(said.renamed).toEqual({
      messages__: "messages",
      [String(names[1])]: "a\nb",
      context_: "context",
    });
    expect(said.notes).toContainEqual({
      what: expect.stringContaining('has another name here: "messages__"'),
    });
    const odd = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') as unknown;
    expect(Object.keys((await stateOf(odd)).shown)).toEqual(["__proto__", "constructor"]);
  });

  test.each(["history", "messages", "context"])("%s that grow are stored once", async (key) => {
    const line = (i: number) => ({
      role: "user",
      content: `${i} `.padEnd(300, "what holds kelp to the rock, and why? "),
    });
    const files = Array.from({ length: 60 }, (_, i) => {
      const all = Array.from({ length: i + 1 }, (_each, k) => line(k));
      const grown =
        key === "context"
          ? { context: [...Buffer.from(JSON.stringify(all))] }
          : { state: { [key]: all, n: i } };
      return checkpoint(`k${i}`, {
        at: new Date(1_775_270_000_000 + i * 1000).toISOString(),
        ...grown,
      });
    });
    const { report } = await imported(Object.assign({}, ...files) as Record<string, unknown>);
    expect(report.sessions).toMatchObject([{ checkpoints: 60 }]);
    expect(report.storedBytes).toBeLessThan(60 * 300 * (key === "context" ? 6 : 3));
  });
});

describe("context", () => {
  const context = async (bytes: Uint8Array | readonly unknown[], compressed: boolean) => {
    const { store, notes } = await imported(
      checkpoint("a", { state: {}, context: [...bytes] as number[], compressed }),
    );
    return { notes, state: (await using(store, (hold) => hold.sessions.state("s"))).state };
  };
  const text = "What holds kelp to the rock? ".repeat(50);

  test("is text where it is UTF-8, else base64, in pieces", async () => {
    expect((await context(Buffer.from("é😀"), false)).state).toEqual({ context: ["é😀"] });
    expect((await context([104, 105, 255, 0], false)).state).toEqual({
      context: ["aGn/AA=="],
      contextFormat: { encoding: "base64" },
    });
    expect((await context([], false)).state).toEqual({ context: [] });
    expect((await context([1, 256], false)).state).toEqual({
      context: [1, 256],
      contextFormat: { encoding: "none" },
    });
    for (const start of ["", "x"]) {
      const long = `${start}${"😀".repeat(3_000)}`;
      const { state } = await context(Buffer.from(long), false);
      expect((state["context"] as string[]).join("")).toBe(long);
    }
  });

  test("is unpacked where it is compressed, in bounds", async () => {
    const pieces = [text.slice(0, 1024), text.slice(1024)];
    expect((await context(gzipSync(text), true)).state).toEqual({
      context: pieces,
      contextFormat: { compressed: "gzip" },
    });
    expect((await context(deflateSync(text), true)).state).toEqual({
      context: pieces,
      contextFormat: { compressed: "zlib" },
    });
    const plain = await context(Buffer.from("not packed"), true);
    expect(plain.state).toEqual({
      context: ["not packed"],
      contextFormat: { compressed: "unknown" },
    });
    expect(plain.notes).toContain("cannot be unpacked");
    const bomb = gzipSync(Buffer.alloc(65 * 1024 * 1024), { level: 9 });
    expect(await context(bomb, true)).toMatchObject({
      notes: expect.stringContaining("cannot be unpacked"),
      state: { contextFormat: { compressed: "unknown" } },
    });
  });
});

describe("parents", () => {
  test("a branch is a line, and the newest is where the session stands", async () => {
    const files = {
      ...checkpoint("root", { at: 0 }),
      ...checkpoint("a1", { at: 1, parent: "root" }),
      ...checkpoint("b1", { at: 2, parent: "root" }),
      ...checkpoint("a2", { at: 3, parent: "a1" }),
      ...checkpoint("b2", { at: 4, parent: "b1" }),
    };
    const { store, notes } = await imported(files);
    expect(await tree(store)).toEqual({
      parents: { root: null, a1: "root", b1: "root", a2: "a1", b2: "b1" },
      at: "b2",
    });
    expect(notes).not.toContain("parent");
    await using(store, async (hold) =>
      expect((await hold.sessions.state("s")).state).toEqual({ id: "b2" }),
    );
  });

  test("that come later by the clock, are missing, elsewhere, or go in a circle", async () => {
    const { store, notes, report } = await imported({
      ...checkpoint("child", { at: 0, parent: "old" }),
      ...checkpoint("old", { at: 5 }),
      ...checkpoint("orphan", { at: 6, parent: "gone" }),
      ...checkpoint("far", { at: 7, parent: "other" }),
      ...checkpoint("self", { at: 8, parent: "self" }),
      ...checkpoint("x", { at: 20, parent: "z" }),
      ...checkpoint("y", { at: 21, parent: "x" }),
      ...checkpoint("z", { at: 22, parent: "y" }),
      ...checkpoint("other", { session: "t" }),
    });
    expect(report.sessions).toMatchObject([
      { id: "s", checkpoints: 8 },
      { id: "t", checkpoints: 1 },
    ]);
    expect((await tree(store)).parents).toMatchObject({
      child: "old",
      orphan: "child",
      far: "orphan",
      self: "far",
      z: "y",
    });
    for (const said of [
      '"gone", which is not there',
      'which is of session "t"',
      "which is itself",
      "go in a circle",
    ])
      expect(notes).toContain(said);
  });

  test("that come late: a repaired file and a branch with an earlier time are lines, and the session stands at its end", async () => {
    const { store, path } = await imported({
      ...checkpoint("k0", { at: 0 }),
      ...checkpoint("k2", { at: 20, parent: "k0" }),
      ...checkpoint("k4", { at: 40, parent: "k3" }),
      "sessions/s/k3.json": "{torn",
    });
    put(path, {
      ...checkpoint("k1", { at: 10, parent: "k0" }),
      ...checkpoint("k3", { at: 30, parent: "k2" }),
      ...checkpoint("k11", { at: 11, parent: "k1" }),
    });
    const report = await migrate("ccswarm", path, store);
    expect(report.sessions).toEqual([{ id: "s", outcome: "grown", checkpoints: 3 }]);
    expect(await tree(store)).toEqual({
      parents: { k0: null, k1: "k0", k11: "k1", k2: "k0", k3: "k2", k4: "k2" },
      at: "k4",
    });
    expect((await migrate("ccswarm", path, store)).sessions).toEqual([
      { id: "s", outcome: "known", checkpoints: 0 },
    ]);
  });

  test("that are refused: what follows them follows the one before, and trying again moves nothing", async () => {
    const bad = { metadata: { parent_checkpoint_id: "k0", extra: { x: "y".repeat(2_000_000) } } };
    const { store, path } = await imported({
      ...checkpoint("k0", { at: 0 }),
      ...checkpoint("k1", { at: 1, more: bad }),
      ...checkpoint("k2", { at: 2, parent: "k0" }),
      ...checkpoint("k3", { at: 3, parent: "k1" }),
    });
    expect(await tree(store)).toEqual({ parents: { k0: null, k2: "k0", k3: "k0" }, at: "k3" });
    const lines = () => using(store, async (hold) => (await hold.stats()).sizeBytes);
    const before = await lines();
    const again = await migrate("ccswarm", path, store);
    expect(again).toMatchObject({
      sessions: [{ outcome: "known" }],
      skipped: [{ path: "sessions/s/k1.json" }],
      storedBytes: 0,
    });
    expect(await lines()).toBe(before);
  });

  test("any tree is kept, whatever the order of its files", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { minLength: 1, maxLength: 9 }), async (choices) => {
        const parents = choices.map((choice, i) => (i === 0 ? null : `n${choice % i}`));
        const files = parents.map((parent, i) => checkpoint(`n${i}`, { at: i, parent }));
        const { store } = await imported(
          Object.assign({}, ...files.toReversed()) as object as Record<string, unknown>,
        );
        const shown = await tree(store);
        expect(shown).toEqual({
          parents: Object.fromEntries(parents.map((parent, i) => [`n${i}`, parent])),
          at: `n${parents.length - 1}`,
        });
      }),
      { numRuns: 12 },
    );
  });
});

describe("forks", () => {
  const fork = (id: string, parent: string, at: string, more: object = {}) => ({
    [id]: {
      fork_id: id,
      parent_session_id: parent,
      checkpoint_id: at,
      branch_name: null,
      created_at: "2026-01-28T03:00:00Z",
      status: "Active",
      metadata: {},
      ...more,
    },
  });

  test("begin at their checkpoint and go on; one that nothing was added to is there as well", async () => {
    const forks = {
      ...fork("f", "s", "a", { branch_name: "try it", status: "Merged", metadata: { why: "x" } }),
      ...fork("g", "f", "f1"),
      ...fork("empty", "s", "b"),
    };
    const { store, report, path } = await imported({
      ...checkpoint("a", { at: 0 }),
      ...checkpoint("b", { at: 1, parent: "a" }),
      ...checkpoint("f1", { session: "f", at: 10, parent: "a" }),
      ...checkpoint("g1", { session: "g", at: 20 }),
      "forks.json": { forks, children: { s: ["f", "empty"], f: ["g"] } },
      "index.json": {},
    });
    expect(
      report.sessions.map(({ id, outcome, checkpoints }) => [id, outcome, checkpoints]),
    ).toEqual([
      ["s", "imported", 2],
      ["empty", "imported", 0],
      ["f", "imported", 1],
      ["g", "imported", 1],
    ]);
    expect((await tree(store, "g")).parents).toEqual({ a: null, f1: "a", g1: "f1" });
    await using(store, async (hold) => {
      expect(await hold.sessions.get("f")).toMatchObject({
        title: "try it",
        tags: ["try it"],
        forkPoint: { sessionId: "s" },
        metadata: {
          why: "x",
          source: { kind: "ccswarm", id: "f", fork: { status: "Merged", checkpoint: "a" } },
        },
      });
      expect(await hold.sessions.get("empty")).toMatchObject({
        forkPoint: { sessionId: "s" },
        metadata: { source: { id: "empty" } },
      });
      expect((await hold.sessions.state("empty")).state).toEqual({ id: "b" });
    });
    expect((await migrate("ccswarm", path, store)).sessions.map(({ outcome }) => outcome)).toEqual(
      Array(4).fill("known"),
    );
    put(path, checkpoint("g2", { session: "g", at: 30, parent: "g1" }));
    expect((await migrate("ccswarm", path, store)).sessions).toContainEqual({
      id: "g",
      outcome: "grown",
      checkpoints: 1,
    });
  });

  test("without what they began at, of each other, or torn, are said", async () => {
    const forks = {
      ...fork("lost", "s", "gone"),
      ...fork("own", "s", "gone"),
      ...fork("p", "q", "q1"),
      ...fork("q", "p", "p1"),
      ...fork("wrong", "t", "a"),
      ...fork("own2", "own2", "o2"),
      broken: { fork_id: "broken" },
      odd: 7,
    };
    const { report, notes } = await imported({
      ...checkpoint("a"),
      ...checkpoint("o1", { session: "own" }),
      ...checkpoint("o2", { session: "own2" }),
      ...checkpoint("p1", { session: "p" }),
      ...checkpoint("q1", { session: "q" }),
      "forks.json": { forks, children: {} },
    });
    expect(report.sessions.map(({ id, outcome }) => [id, outcome])).toEqual(
      ["own", "own2", "q", "p", "s", "wrong"].map((id) => [id, "imported"]),
    );
    for (const said of [
      "nothing of it is left to import",
      "a session of its own",
      'its checkpoint is of "s"',
      '"broken" does not say',
      '"odd" does not',
      "it is no fork",
    ])
      expect(notes).toContain(said);
  });
});
