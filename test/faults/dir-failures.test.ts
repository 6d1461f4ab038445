/** Writes and syncs that fail under a store in a directory: never acknowledged, taken back where that can be, and nothing after a failed sync. */
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openDir } from "../../src/store/dir/open.js";
import type { Store } from "../../src/store/port.js";
import { all, seqs } from "../../src/testing/case.js";
import { begin, Fixture } from "../../src/testing/fixture.js";
import { failure, instead, mend } from "./failing-calls.js";
import { fresh } from "./places.js";

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
  const write = instead("writeSync", (fd: number, bytes: Uint8Array, from: number, count: number, at: number) => {
    calls += 1;
    if (calls > 1) throw failure("ENOSPC");
    return write(fd, bytes, from, Math.floor(count / 2), at);
  });
  await expect(store.apply([next])).rejects.toMatchObject({ code: "DISK_FULL", retryable: true });
  await expect(store.apply([next])).rejects.toMatchObject({ code: "DISK_FULL" });
  expect(seqs(await store.saves(f.line, all))).toEqual(seqs(f.saves.slice(0, 1)));
  mend();
  expect(await store.check()).toEqual([]);
  expect(await store.apply([next])).toEqual({ ok: true });
  await store.close();
  const again = await openDir(path);
  expect(await again.saves(f.line, all)).toEqual(f.saves);
  expect(await again.check()).toEqual([]);
  await again.close();
});

/** All that a change may touch. */
const whole = async (store: Store, f: Fixture): Promise<unknown> => [
  await store.sessions({ limit: 10 }),
  await store.lines({ all: true }),
  await store.saves(f.line, all),
  await store.check(),
];

const calls = ["writeSync", "renameSync", "fsyncSync", "fdatasyncSync"];
const several = [false, true];

test.each(calls.flatMap((name) => several.map((isSeveral) => ({ name, isSeveral }))))(
  "P1: a change (of several sessions: $isSeveral) in which any call of $name fails is made or is not made",
  { timeout: 120_000 },
  async ({ name, isSeveral }) => {
    for (let n = 1; ; n++) {
      const { path, f, store } = await made();
      const change = { ...f.peek({ items: 2, blob: "body" }), head: { ...begin("a").head, line: f.line, text: "new" } };
      const changes = isSeveral ? [change, begin("b"), begin("c")] : [change];
      const before = await whole(store, f);
      let count = 0;
      const call = instead(name, (...args: unknown[]) => {
        count += 1;
        if (count === n) throw failure("ENOSPC");
        return call(...args);
      });
      const answer = (await store.apply(changes).catch((thrown: unknown) => thrown)) as { ok?: boolean; code?: string };
      mend();
      const live = await whole(store, f);
      await store.close();
      const again = await openDir(path);
      const after = await whole(again, f);
      const isMade = (await again.session("a"))?.head.text === "new";
      // Where a sync fails it may be either, but nothing between.
      expect(answer.ok === true || ["DISK_FULL", "IO"].includes(answer.code ?? ""), `${n}: ${answer.code}`).toBe(true);
      if (answer.ok) expect(isMade, `${n}`).toBe(true);
      if (answer.code === "DISK_FULL") expect([isMade, live], `${n}`).toEqual([false, before]);
      if (!isMade) expect(after, `${n}`).toEqual(before);
      // The next writer goes on as if nothing had been.
      if (!isMade) expect(await again.apply(changes), `${n}`).toEqual({ ok: true });
      expect([(await again.saves(f.line, all)).length, (await again.sessions({ limit: 10 })).length], `${n}`).toEqual([
        2,
        isSeveral ? 3 : 1,
      ]);
      expect(await again.check(), `${n}`).toEqual([]);
      await again.close();
      if (count < n) break;
    }
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
    expect((await store.session("a"))?.id).toBe("a");
    await store.close();
    // It may have been kept, or not: sent again, it is there once.
    const again = await openDir(path);
    expect(await again.apply([next])).toEqual({ ok: true });
    expect((await again.saves(f.line, all)).length).toBe(2);
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
  const answers = await Promise.allSettled(fixtures.map((f) => store.apply([f.save({ items: 1 })])));
  expect(count).toBe(6);
  for (const answer of answers) expect(answer).toMatchObject({ status: "rejected", reason: { code: "IO" } });
  mend();
  await expect(store.apply([begin("more")])).rejects.toMatchObject({ code: "IO" });
  await store.close();
  const again = await openDir(path);
  for (const f of fixtures) expect(seqs(await again.saves(f.line, all))).toEqual(seqs(f.saves));
  await again.close();
});

test.each(["ended", "made anew", "changed"] as const)(
  "S2: a document that is %s while a change of several is not finished stays so when that is",
  async (what) => {
    const { path, store } = await made();
    const put = (version: number, text: string) => ({ of: null, version, text, body: null, pins: [] });
    const [a, b] = ["a", "b"].map((id) => ({ kind: "k", id }) as const) as [{ kind: "k"; id: string }, { kind: "k"; id: string }];
    // Made, and not put in place: the disk is full by then.
    const rename = instead("renameSync", (from: string, to: string) => {
      if (to.includes("documents")) throw failure("ENOSPC");
      rename(from, to);
    });
    const both = [a, b].map((doc) => ({ ...doc, when: { absent: true as const }, put: put(1, "first") }));
    expect(await store.apply([], both)).toEqual({ ok: true });
    mend();
    expect((await store.doc("k", "a"))?.text).toBe("first");
    const later =
      what === "changed"
        ? [{ ...a, when: { version: 1 }, put: put(2, "later") }]
        : [
            { ...a, when: { version: 1 }, remove: true as const },
            ...(what === "ended" ? [] : [{ ...a, when: { absent: true as const }, put: put(1, "later") }]),
          ];
    for (const one of later) expect(await store.apply([], [one])).toEqual({ ok: true });
    const expected = what === "ended" ? undefined : "later";
    expect((await store.doc("k", "a"))?.text).toBe(expected);
    await store.close();
    const again = await openDir(path);
    await again.apply([begin("c")]);
    expect([(await again.doc("k", "a"))?.text, (await again.doc("k", "b"))?.text]).toEqual([expected, "first"]);
    await again.close();
  },
);
