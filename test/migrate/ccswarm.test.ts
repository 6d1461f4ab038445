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
  { session = "s", parent = null, at = 0, state = { id }, context = null, compressed = false, more }: Made = {},
) => ({
  [`sessions/${session}/${id}.json`]: {
    id,
    session_id: session,
    label: null,
    created_at: typeof at === "string" ? at : `2026-01-28T02:30:0${Math.floor(at / 10)}.00000000${at % 10}Z`,
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
  const { store, report } = await imported({ ...checkpoint("b", { at: 2 }), ...checkpoint("c", { at: 1 }), ...checkpoint("a", { at: 3 }) });
  expect((await tree(store)).parents).toEqual({ c: null, b: "c", a: "b" });
  expect(report.sessions).toEqual([{ id: "s", outcome: "imported", checkpoints: 3 }]);
  await using(store, async (hold) => expect(await hold.checkpoints.latest("s")).toMatchObject({ tokenCount: 7, tasksCompleted: 1 }));
});

test("the index is a hint: what it misses is imported, what it makes up is said, its paths are not opened", async () => {
  const outside = put(place(), { "secret.json": Object.values(checkpoint("secret", { state: { canary: "CANARY" } }))[0] });
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
  const { store, notes, report } = await imported({ ...checkpoint("a"), ...checkpoint("b", { at: 1 }), "index.json": index });
  expect(notes).toContain('Checkpoint "secret" is in the index, and no file has it.');
  expect(notes).toContain('Checkpoint "gone" is in the index');
  expect(report.notes).toContainEqual({ path: "sessions/s/b.json", what: expect.stringContaining("not in the index") });
  expect(JSON.stringify(await using(store, async (hold) => (await hold.sessions.list()).items))).not.toContain("CANARY");
  expect((await tree(store)).parents).toEqual({ a: null, b: "a" });
  const torn = await imported({ ...checkpoint("a"), "index.json": '{"a": {' });
  expect(torn.report).toMatchObject({ sessions: [{ checkpoints: 1 }], skipped: [{ path: "index.json" }] });
});

test("states that are no objects, or have a key that is not for us, are kept whole under one", async () => {
  for (const state of [[1], "text", 7, null, { messages: [1] }, { "": 1 }, { "a\nb": 1 }]) {
    const { store, report } = await imported(checkpoint("a", { state }));
    expect(report.skipped).toEqual([]);
    await using(store, async (hold) => expect((await hold.sessions.state("s")).state).toEqual({ state }));
  }
  const { store } = await imported(checkpoint("a", { state: { context: 1, k: 2 }, context: [104, 105] }));
  await using(store, async (hold) =>
    expect((await hold.sessions.state("s")).state).toEqual({ state: { context: 1, k: 2 }, context: { text: "hi" } }),
  );
  const odd = await imported(checkpoint("a", { state: JSON.parse('{"__proto__": {"x": 1}, "constructor": 2}') }));
  await using(odd.store, async (hold) => expect(Object.keys((await hold.sessions.state("s")).state)).toEqual(["__proto__", "constructor"]));
});

describe("context", () => {
  const context = async (bytes: Uint8Array | readonly unknown[], compressed: boolean) => {
    const { store, notes } = await imported(checkpoint("a", { context: [...bytes] as number[], compressed }));
    return { notes, ...(await using(store, async (hold) => (await hold.sessions.state("s")).state as { context: object })) };
  };
  const text = "What holds kelp to the rock? ".repeat(50);

  test("is text where it is UTF-8, else base64", async () => {
    expect((await context(Buffer.from("é😀"), false)).context).toEqual({ text: "é😀" });
    expect((await context([104, 105, 255, 0], false)).context).toEqual({ base64: "aGn/AA==" });
    expect((await context([], false)).context).toEqual({ text: "" });
    expect((await context([1, 256], false)).context).toEqual({ value: [1, 256] });
  });

  test("is unpacked where it is compressed, in bounds", async () => {
    expect((await context(gzipSync(text), true)).context).toEqual({ text, compressed: "gzip" });
    expect((await context(deflateSync(text), true)).context).toEqual({ text, compressed: "zlib" });
    const plain = await context(Buffer.from("not packed"), true);
    expect(plain.context).toEqual({ text: "not packed", compressed: "unknown" });
    expect(plain.notes).toContain("cannot be unpacked");
    const bomb = gzipSync(Buffer.alloc(65 * 1024 * 1024), { level: 9 });
    expect(await context(bomb, true)).toMatchObject({
      notes: expect.stringContaining("cannot be unpacked"),
      context: { compressed: "unknown" },
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
    expect(await tree(store)).toEqual({ parents: { root: null, a1: "root", b1: "root", a2: "a1", b2: "b1" }, at: "b2" });
    expect(notes).not.toContain("parent");
    await using(store, async (hold) => expect((await hold.sessions.state("s")).state).toEqual({ id: "b2" }));
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
    expect((await tree(store)).parents).toMatchObject({ child: "old", orphan: "child", far: "orphan", self: "far", z: "y" });
    for (const said of ['"gone", which is not there', 'which is of session "t"', "which is itself", "go in a circle"])
      expect(notes).toContain(said);
  });

  test("any tree is kept, whatever the order of its files", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(), { minLength: 1, maxLength: 9 }), async (choices) => {
        const parents = choices.map((choice, i) => (i === 0 ? null : `n${choice % i}`));
        const files = parents.map((parent, i) => checkpoint(`n${i}`, { at: i, parent }));
        const { store } = await imported(Object.assign({}, ...files.toReversed()) as object as Record<string, unknown>);
        const shown = await tree(store);
        expect(shown).toEqual({ parents: Object.fromEntries(parents.map((parent, i) => [`n${i}`, parent])), at: `n${parents.length - 1}` });
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
    expect(report.sessions.map(({ id, outcome, checkpoints }) => [id, outcome, checkpoints])).toEqual([
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
        origin: { sessionId: "s" },
        metadata: { why: "x", source: { kind: "ccswarm", id: "f", fork: { status: "Merged", checkpoint: "a" } } },
      });
      expect(await hold.sessions.get("empty")).toMatchObject({ origin: { sessionId: "s" }, metadata: { source: { id: "empty" } } });
      expect((await hold.sessions.state("empty")).state).toEqual({ id: "b" });
    });
    expect((await migrate("ccswarm", path, store)).sessions.map(({ outcome }) => outcome)).toEqual(Array(4).fill("known"));
    put(path, checkpoint("g2", { session: "g", at: 30, parent: "g1" }));
    expect((await migrate("ccswarm", path, store)).sessions).toContainEqual({ id: "g", outcome: "grown", checkpoints: 1 });
  });

  test("without what they began at, of each other, or torn, are said", async () => {
    const forks = {
      ...fork("lost", "s", "gone"),
      ...fork("own", "s", "gone"),
      ...fork("p", "q", "q1"),
      ...fork("q", "p", "p1"),
      ...fork("wrong", "t", "a"),
      broken: { fork_id: "broken" },
      odd: 7,
    };
    const { report, notes } = await imported({
      ...checkpoint("a"),
      ...checkpoint("o1", { session: "own" }),
      ...checkpoint("p1", { session: "p" }),
      ...checkpoint("q1", { session: "q" }),
      "forks.json": { forks, children: {} },
    });
    expect(report.sessions.map(({ id, outcome }) => [id, outcome])).toEqual(["own", "q", "p", "s", "wrong"].map((id) => [id, "imported"]));
    for (const said of [
      "nothing of it is left to import",
      "a session of its own",
      'its checkpoint is of "s"',
      '"broken" does not say',
      '"odd" does not',
    ])
      expect(notes).toContain(said);
  });
});
