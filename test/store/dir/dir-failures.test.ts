/**
 * Writes and syncs that fail under a store in a directory: never acknowledged, taken back where
 * that can be, and nothing after a failed sync.
 */
import { cpSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openDir } from "../../../src/store/dir/open.js";
import type { Store } from "../../../src/store/port.js";
import { all, seqs } from "../../../src/testing/contract/case.js";
import { begin, digestOf, Fixture } from "../../../src/testing/contract/fixture.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

afterEach(mend);

async function made() {
  const path = join(fresh(), "store");
  const f = new Fixture("a");
  const store = await openDir(path);
  await store.apply([f.begin()]);
  await store.apply([f.save({ items: 1, mark: true })]);
  return { path, f, store };
}

test("a disk that fills up in the middle of a save: nothing is left of it, and it lands once there is room", async () => {
  const { path, f, store } = await made();
  const next = f.save({ items: 3, text: "x".repeat(1000) });
  let calls = 0;
  const write = instead(
    "writeSync",
    (fd: number, bytes: Uint8Array, from: number, count: number, at: number) => {
      calls += 1;
      if (calls > 1) throw failure("ENOSPC");
      return write(fd, bytes, from, Math.floor(count / 2), at);
    },
  );
  await expect(store.apply([next])).rejects.toMatchObject({ code: "DISK_FULL", retryable: true });
  await expect(store.apply([next])).rejects.toMatchObject({ code: "DISK_FULL" });
  expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves.slice(0, 1)));
  mend();
  expect(await store.check()).toEqual([]);
  expect(await store.apply([next])).toEqual({ ok: true });
  await store.close();
  const again = await openDir(path);
  expect(await again.saves(f.branch, all)).toEqual(f.saves);
  expect(await again.check()).toEqual([]);
  await again.close();
});

/** All that a change may touch. */
const whole = async (store: Store, f: Fixture): Promise<unknown> => [
  await store.sessions({ limit: 10 }),
  await store.branches({ kind: "all" }),
  await store.saves(f.branch, all),
  await store.check(),
];

const calls = ["writeSync", "renameSync", "fsyncSync", "fdatasyncSync"];
const several = [false, true];

test.each(calls.flatMap((name) => several.map((isSeveral) => ({ name, isSeveral }))))(
  "PORT-1: a change (of several sessions: $isSeveral) in which any call of $name fails is made or is not made",
  { timeout: 120_000 },
  async ({ name, isSeveral }) => {
    for (let n = 1; ; n++) {
      const { path, f, store } = await made();
      const change = {
        ...f.peek({ items: 2, blob: "body" }),
        head: { ...begin("a").head, branch: f.branch, text: "new" },
      };
      const changes = isSeveral ? [change, begin("b"), begin("c")] : [change];
      const before = await whole(store, f);
      let count = 0;
      const call = instead(name, (...args: unknown[]) => {
        count += 1;
        if (count === n) throw failure("ENOSPC");
        return call(...args);
      });
      const answer = (await store.apply(changes).catch((thrown: unknown) => thrown)) as {
        ok?: boolean;
        code?: string;
      };
      mend();
      const live = await whole(store, f);
      await store.close();
      const again = await openDir(path);
      const after = await whole(again, f);
      const isMade = (await again.session("a")).row?.head.text === "new";
      // Where a sync fails it may be either, but nothing between.
      expect(
        answer.ok === true || ["DISK_FULL", "IO"].includes(answer.code ?? ""),
        `${n}: ${answer.code}`,
      ).toBe(true);
      if (answer.ok) expect(isMade, `${n}`).toBe(true);
      if (answer.code === "DISK_FULL") expect([isMade, live], `${n}`).toEqual([false, before]);
      if (!isMade) expect(after, `${n}`).toEqual(before);
      // The next writer goes on as if nothing had been.
      if (!isMade) expect(await again.apply(changes), `${n}`).toEqual({ ok: true });
      expect(
        [(await again.saves(f.branch, all)).length, (await again.sessions({ limit: 10 })).length],
        `${n}`,
      ).toEqual([2, isSeveral ? 3 : 1]);
      expect(await again.check(), `${n}`).toEqual([]);
      await again.close();
      if (count < n) break;
    }
  },
);

test.each(several)(
  "a change (of several sessions: %s) in which any file cannot be opened is not made, and is made once it can, in the same store",
  async (isSeveral) => {
    for (let n = 1; ; n++) {
      const { path, f, store } = await made();
      for (const name of ["fsyncSync", "fdatasyncSync"]) instead(name, () => {});
      const change = {
        ...f.peek({ items: 2, blob: "body" }),
        head: { ...begin("a").head, branch: f.branch, text: "new" },
      };
      const g = new Fixture("b");
      const changes = isSeveral ? [change, g.begin(), g.save({ items: 1 }), begin("c")] : [change];
      const put = { of: null, version: 1, text: "doc", body: null, pins: [] };
      const docs = isSeveral ? [] : [{ kind: "k", id: "d", when: { absent: true as const }, put }];
      const before = await whole(store, f);
      let count = 0;
      const openSync = instead("openSync", (...args: unknown[]) => {
        count += 1;
        if (count === n) throw failure(["EMFILE", "ENFILE", "ENOMEM"][n % 3] as string);
        return openSync(...args);
      });
      const answer = (await store.apply(changes, docs).catch((thrown: unknown) => thrown)) as {
        ok?: boolean;
      };
      instead("openSync", openSync as never);
      if (answer.ok !== true) {
        expect(answer, `${n}`).toMatchObject({
          name: "HoldfastError",
          code: "BUSY",
          retryable: true,
        });
        expect(await whole(store, f), `${n}`).toEqual(before);
        expect(await store.apply(changes, docs), `${n}`).toEqual({ ok: true });
      }
      const after = [await whole(store, f), await store.documents.list({ kind: "k", limit: 5 })];
      expect(await store.check(), `${n}`).toEqual([]);
      await store.close();
      const again = await openDir(path);
      expect(
        [await whole(again, f), await again.documents.list({ kind: "k", limit: 5 })],
        `${n}`,
      ).toEqual(after);
      await again.close();
      mend();
      if (count < n) break;
    }
  },
);

test("a journal that could be read only in part is not taken for an empty one", async () => {
  const { path, f, store } = await made();
  for (let i = 0; i < 3; i++) await store.apply([f.save({ items: 1, mark: true })]);
  await store.close();
  for (let n = 1; ; n++) {
    const again = await openDir(path);
    let count = 0;
    const read = instead("readSync", (...args: unknown[]) => {
      count += 1;
      if (count === n) throw failure("ENOMEM");
      return read(...args);
    });
    const next = f.peek({ items: 1 });
    const answer = (await again.apply([next]).catch((thrown: unknown) => thrown)) as {
      ok?: boolean;
    };
    mend();
    if (answer.ok !== true) expect(answer, `${n}`).toMatchObject({ code: "BUSY" });
    f.save({ items: 1 });
    expect(await again.apply([next]), `${n}`).toEqual({ ok: true });
    expect((await again.saves(f.branch, all)).length, `${n}`).toBe(4 + n);
    expect(await again.check(), `${n}`).toEqual([]);
    await again.close();
    if (count < n) break;
  }
});

test.each(["ENOENT", "EACCES", "ENOTDIR", "EMFILE", "EIO"])(
  "no call of the store throws the system's own error, where its files cannot be used (%s)",
  async (code) => {
    const { f, store } = await made();
    await store.apply([f.save({ items: 1, blob: "body" })]);
    const calls: [string, () => Promise<unknown>][] = [
      ["session", () => store.session("a")],
      ["sessions", () => store.sessions({ limit: 5 })],
      ["saves", () => store.saves(f.branch, all)],
      ["blob", () => store.blob(digestOf("body"))],
      ["docs", () => store.documents.list({ kind: "k", limit: 5 })],
      ["post", () => store.inbox.post("a", { id: "m", text: "m", due: 0 })],
      ["inbox", () => store.inbox.list("a", { dueBy: 1, limit: 5 })],
      ["claim", () => store.claims.claim({ agent: "x", dueBy: 1, limit: 5 }, () => undefined)],
      ["counts", () => store.info("counts")],
      ["check", () => store.check()],
      ["anchors", () => store.copies.anchors()],
      ["about", () => store.info()],
      ["generation", () => store.copies.generation()],
      ["beginGeneration", () => store.copies.begin()],
      ["cut", () => store.reclaim.cut(f.branch, 1, 5, true)],
      ["compact", () => store.reclaim.compact(10)],
      ["sweep", () => store.reclaim.sweep(10, true)],
      ["sweep, and remove", () => store.reclaim.sweep(10, false)],
      ["scrub", () => store.reclaim.scrub(() => false)],
      ["apply", () => store.apply([begin("new")])],
    ];
    const failed: string[] = [];
    for (const [name, call] of calls) {
      for (const failing of ["openSync", "readdirSync", "lstatSync", "unlinkSync"])
        instead(failing, () => {
          throw failure(code);
        });
      const thrown = await call().then(
        () => undefined,
        (error: unknown) => error as Error,
      );
      mend();
      if (thrown === undefined) continue;
      failed.push(name);
      expect([name, thrown.name, thrown.message]).toEqual([name, "HoldfastError", thrown.message]);
    }
    expect(failed).toEqual(expect.arrayContaining(["beginGeneration", "scrub", "apply"]));
    // A directory that is not there has nothing in it.
    if (code.startsWith("EN")) return store.close();
    expect(failed).toEqual(
      expect.arrayContaining(["counts", "check", "sweep", "sweep, and remove"]),
    );
    await store.close();
  },
);

test.each(["EIO", "ENOSPC"])(
  "a sync that fails with %s: not acknowledged, and nothing more is written until the store is opened again",
  async (code) => {
    const { path, f, store } = await made();
    const next = f.peek({ items: 1 });
    instead("fdatasyncSync", () => {
      throw failure(code);
    });
    await expect(store.apply([next])).rejects.toMatchObject({ code: "IO" });
    mend();
    await expect(store.apply([next])).rejects.toMatchObject({ code: "IO" });
    await expect(store.apply([begin("b")])).rejects.toMatchObject({ code: "IO" });
    expect((await store.session("a")).row?.id).toBe("a");
    await store.close();
    // It may have been kept, or not: sent again, it is there once.
    const again = await openDir(path);
    expect(await again.apply([next])).toEqual({ ok: true });
    expect((await again.saves(f.branch, all)).length).toBe(2);
    await again.close();
  },
);

test("of saves that are synced side by side, one that fails lets none seem safe", async () => {
  const { path, store } = await made();
  const fixtures = Array.from({ length: 6 }, (_, i) => new Fixture(`s${i}`));
  for (const f of fixtures) await store.apply([f.begin(), f.save({ items: 1 })]);
  let count = 0;
  const sync = instead("fdatasync", (fd: number, done: (error: Error | null) => void) => {
    count += 1;
    if (count === 3) setImmediate(done, failure("EIO"));
    else sync(fd, done);
  });
  const answers = await Promise.allSettled(
    fixtures.map((f) => store.apply([f.save({ items: 1 })])),
  );
  expect(count).toBe(6);
  for (const answer of answers)
    expect(answer).toMatchObject({ status: "rejected", reason: { code: "IO" } });
  mend();
  await expect(store.apply([begin("more")])).rejects.toMatchObject({ code: "IO" });
  await store.close();
  const again = await openDir(path);
  for (const f of fixtures) expect(seqs(await again.saves(f.branch, all))).toEqual(seqs(f.saves));
  await again.close();
});

test.each(["ended", "made anew", "changed"] as const)(
  "SESSIONFILE-2: a document that is %s while a change of several is not finished stays so when that is",
  async (what) => {
    const { path, store } = await made();
    const put = (version: number, text: string) => ({
      of: null,
      version,
      text,
      body: null,
      pins: [],
    });
    const [a, b] = ["a", "b"].map((id) => ({ kind: "k", id }) as const) as [
      { kind: "k"; id: string },
      { kind: "k"; id: string },
    ];
    // Made, and not put in place: the disk is full by then.
    const rename = instead("renameSync", (from: string, to: string) => {
      if (to.includes("documents")) throw failure("ENOSPC");
      rename(from, to);
    });
    const both = [a, b].map((doc) => ({
      ...doc,
      when: { absent: true as const },
      put: put(1, "first"),
    }));
    expect(await store.apply([], both)).toEqual({ ok: true });
    mend();
    expect((await store.documents.get("k", "a"))?.text).toBe("first");
    const later =
      what === "changed"
        ? [{ ...a, when: { version: 1 }, put: put(2, "later") }]
        : [
            { ...a, when: { version: 1 }, remove: true as const },
            ...(what === "ended"
              ? []
              : [{ ...a, when: { absent: true as const }, put: put(1, "later") }]),
          ];
    for (const one of later) expect(await store.apply([], [one])).toEqual({ ok: true });
    const expected = what === "ended" ? undefined : "later";
    expect((await store.documents.get("k", "a"))?.text).toBe(expected);
    await store.close();
    const again = await openDir(path);
    await again.apply([begin("c")]);
    expect([
      (await again.documents.get("k", "a"))?.text,
      (await again.documents.get("k", "b"))?.text,
    ]).toEqual([expected, "first"]);
    await again.close();
  },
);

test.each(["lists first", "writes first"])(
  "SESSIONFILE-2: a change of several that is made and not finished is not forgotten when all files are read again, by a process that %s",
  async (what) => {
    const { path, f: a, store } = await made();
    const [f, g] = [new Fixture("one"), new Fixture("Two")];
    const change = {
      session: "a",
      when: {},
      head: { ...begin("a").head, branch: a.branch, status: "waiting", text: "new" },
    };
    // Made, and not put in place: the disk is full by then.
    const rename = instead("renameSync", (from: string, to: string) => {
      if (to.endsWith("session.json")) throw failure("ENOSPC");
      rename(from, to);
    });
    expect(
      await store.apply([
        change,
        f.begin(),
        f.save({ items: 1, mark: true, blob: "body" }),
        g.begin(),
      ]),
    ).toEqual({ ok: true });
    mend();
    expect(await store.check()).toEqual([]);
    // As a power cut leaves it.
    const left = join(fresh(), "store");
    cpSync(path, left, { recursive: true });
    for (const name of readdirSync(left))
      if (name === "changes.jsonl" || name.startsWith("lock-")) rmSync(join(left, name));
    await store.close();
    const again = await openDir(left);
    const listed = async () =>
      (await again.sessions({ limit: 10 })).map(({ id, no }) => `${id} ${no}`);
    if (what === "lists first") expect(await listed()).toEqual(["Two 3", "one 2", "a 1"]);
    await again.apply([begin("new")]);
    expect(await listed()).toEqual(["new 4", "Two 3", "one 2", "a 1"]);
    await again.reclaim.sweep(100, false);
    expect(await again.blob(digestOf("body"))).toBeDefined();
    expect(await again.check()).toEqual([]);
    await again.close();
  },
);

test.each([
  { what: "is taken back", cuts: true, code: "DISK_FULL" },
  { what: "that cannot be taken back is the last that is written", cuts: false, code: "IO" },
])("DIR-3: half a row in the log of changes $what", async ({ cuts, code }) => {
  const { path, store } = await made();
  const write = instead("writeSync", (fd: number, bytes: Buffer, ...at: number[]) => {
    if (!bytes.toString().startsWith('["b"]')) return write(fd, bytes, ...at);
    write(fd, bytes, at[0], 3, at[2]);
    throw failure("ENOSPC");
  });
  if (!cuts)
    instead("ftruncateSync", () => {
      throw failure("EIO");
    });
  await expect(store.apply([begin("b")])).rejects.toMatchObject({ code });
  mend();
  const reader = await openDir(path);
  const ids = async () => (await reader.sessions({ limit: 5 })).map(({ id }) => id);
  expect(await ids()).toEqual(["a"]);
  if (cuts) expect(await store.apply([begin("c")])).toEqual({ ok: true });
  else await expect(store.apply([begin("c")])).rejects.toMatchObject({ code: "IO" });
  await store.close();
  const again = await openDir(path);
  expect(await again.apply([begin("d")])).toEqual({ ok: true });
  expect(await ids()).toEqual(cuts ? ["d", "c", "a"] : ["d", "a"]);
  expect(await again.check()).toEqual([]);
  await again.close();
  await reader.close();
});

test("DIR-5: mail that was taken in, and could not be synced where it is kept, is the last that is written", async () => {
  const { path, f, store } = await made();
  await store.inbox.post("a", { id: "m", text: "m", due: 0 });
  let isMoved = false;
  const rename = instead("renameSync", (from: string, to: string) => {
    rename(from, to);
    if (basename(dirname(to)) === "done") isMoved = true;
  });
  const sync = instead("fsyncSync", (fd: number) => {
    if (isMoved) throw failure("EIO");
    return sync(fd);
  });
  await expect(store.apply([{ ...f.peek({ items: 1 }), drained: ["m"] }])).rejects.toMatchObject({
    code: "IO",
  });
  expect(isMoved).toBe(true);
  mend();
  await expect(store.apply([begin("b")])).rejects.toMatchObject({ code: "IO" });
  await store.close();
  const again = await openDir(path);
  expect(await again.inbox.list("a", { dueBy: 1, limit: 5 })).toEqual([]);
  expect(await again.check()).toEqual([]);
  await again.close();
});
