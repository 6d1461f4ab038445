/**
 * A disk that fails once. What was taken back whole is no harm: the same store goes on. What is
 * unsure ends its writing, and no other's.
 */
import { fstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Lock } from "../../../src/store/dir/lock/lock.js";
import { openDir } from "../../../src/store/dir/open.js";
import { all } from "../../../src/testing/contract/case.js";
import { begin, Fixture } from "../../../src/testing/contract/fixture.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

afterEach(mend);

async function made() {
  const path = join(fresh(), "store");
  const f = new Fixture("a");
  const store = await openDir(path);
  await store.apply([f.begin(), f.save({ items: 1, mark: true })]);
  return { path, f, store };
}

type Opened = Awaited<ReturnType<typeof made>>["store"];

/** All that the change below touches. */
const whole = async (store: Opened, f: Fixture): Promise<unknown> => [
  (await store.sessions({ limit: 10 })).map(({ id, head }) => [id, head.text]),
  await store.saves(f.branch, all),
  (await store.documents.list({ kind: "k", limit: 5 })).map(({ text }) => text),
];

/** The first of some saves of one tick, a change of several sessions, and one with a document. */
const changesOf = (f: Fixture) => {
  const put = { of: null, version: 1, text: "doc", body: null, pins: [] };
  const change = {
    ...f.peek({ items: 2, blob: "body" }),
    head: { ...begin("a").head, branch: f.branch, text: "new" },
  };
  return [
    { what: "a save", changes: [f.peek({ items: 1 })], docs: [] },
    { what: "several sessions", changes: [change, begin("b"), begin("c")], docs: [] },
    {
      what: "a document",
      changes: [],
      docs: [{ kind: "k", id: "d", when: { absent: true as const }, put }],
    },
  ];
};

const names = ["openSync", "writeSync", "mkdirSync", "renameSync", "linkSync", "unlinkSync"];

test.each(names.flatMap((name) => [0, 1, 2].map((which) => ({ name, which }))))(
  "DIR-5: a change ($which) in which any call of $name fails with EIO is made, or is taken back and made by the same store",
  async ({ name, which }) => {
    for (let n = 1; ; n++) {
      const { path, f, store } = await made();
      // The lock is taken with the change.
      await store.close();
      const again = await openDir(path);
      const { changes, docs } = changesOf(f)[which] as ReturnType<typeof changesOf>[number];
      const before = await whole(again, f);
      let count = 0;
      const call = instead(name, (...args: unknown[]) => {
        count += 1;
        if (count === n) throw failure("EIO");
        return call(...args);
      });
      const answer = (await again.apply(changes, docs).catch((thrown: unknown) => thrown)) as {
        ok?: boolean;
      };
      mend();
      if (answer.ok !== true) {
        expect(answer, `${n}`).toMatchObject({ name: "HoldfastError", code: "IO" });
        expect(await whole(again, f), `${n}`).toEqual(before);
        expect(await again.apply(changes, docs), `${n}`).toEqual({ ok: true });
      }
      const after = await whole(again, f);
      expect(await again.check(), `${n}`).toEqual([]);
      await again.close();
      const last = await openDir(path);
      expect([await whole(last, f), await last.check()], `${n}`).toEqual([after, []]);
      await last.close();
      if (count < n) return;
    }
  },
);

test.each(
  ["mkdirSync", "renameSync", "linkSync", "unlinkSync"].flatMap((name) =>
    [0, 1, 2].map((which) => ({ name, which })),
  ),
)(
  "DIR-5: a change ($which) in which any call of $name is made and reported as failed is made, or is not made, and nothing between",
  async ({ name, which }) => {
    for (let n = 1; ; n++) {
      const { path, f, store } = await made();
      await store.close();
      const again = await openDir(path);
      const { changes, docs } = changesOf(f)[which] as ReturnType<typeof changesOf>[number];
      let count = 0;
      const call = instead(name, (...args: unknown[]) => {
        count += 1;
        const answer = call(...args);
        if (count === n) throw failure("EIO");
        return answer;
      });
      const answer = (await again.apply(changes, docs).catch((thrown: unknown) => thrown)) as {
        ok?: boolean;
      };
      mend();
      if (answer.ok !== true)
        expect(await again.apply(changes, docs), `${n}`).toEqual({ ok: true });
      const after = await whole(again, f);
      expect(await again.check(), `${n}`).toEqual([]);
      await again.close();
      const last = await openDir(path);
      expect([await whole(last, f), await last.check()], `${n}`).toEqual([after, []]);
      await last.close();
      if (count < n) return;
    }
  },
);

/** Lets syncs of this kind fail from now on. Answers the files whose sync has failed. */
function failSyncs(name: "fdatasyncSync" | "fdatasync"): {
  readonly failed: Set<number>;
  readonly retried: number[];
} {
  const found = { failed: new Set<number>(), retried: [] as number[] };
  let isFailing = true;
  for (const each of ["fdatasyncSync", "fsyncSync"]) {
    const sync = instead(each, (fd: number) => {
      const { ino } = fstatSync(fd);
      if (found.failed.has(ino)) found.retried.push(ino);
      if (isFailing && each === name) {
        isFailing = false;
        found.failed.add(ino);
        throw failure("EIO");
      }
      return sync(fd);
    });
  }
  const sync = instead("fdatasync", (fd: number, done: (error: Error | null) => void) => {
    const { ino } = fstatSync(fd);
    if (found.failed.has(ino)) found.retried.push(ino);
    if (!isFailing || name !== "fdatasync") return sync(fd, done);
    isFailing = false;
    found.failed.add(ino);
    setImmediate(done, failure("EIO"));
  });
  return found;
}

test.each(["fdatasyncSync", "fdatasync"] as const)(
  "VIEW-4: a journal whose %s failed is not synced again; another process writes it anew, and goes on",
  async (name) => {
    const { path, f, store } = await made();
    const g = new Fixture("g");
    await store.apply([g.begin(), g.save({ items: 1 })]);
    const other = await openDir(path, { busyMs: 60_000 });
    const found = failSyncs(name);
    // Two of one tick are synced side by side.
    const saves = name === "fdatasync" ? [f, g] : [f];
    for (const answer of await Promise.allSettled(
      saves.map((each) => store.apply([each.save({ items: 1 })])),
    ))
      expect(answer).toMatchObject({ status: "rejected", reason: { code: "IO" } });
    expect(found.failed.size).toBe(1);
    // DIR-5, and the lock is released all the same.
    await expect(store.apply([begin("more")])).rejects.toMatchObject({ code: "IO" });
    for (const each of saves)
      expect(await other.apply([each.save({ items: 1 })])).toEqual({ ok: true });
    for (const each of saves) expect(await other.saves(each.branch, all)).toEqual(each.saves);
    await expect(store.apply([begin("more")])).rejects.toMatchObject({ code: "IO" });
    expect([found.retried, await other.check()]).toEqual([[], []]);
    await store.close();
    await other.close();
    expect(found.retried).toEqual([]);
  },
);

test("VIEW-4: a process that cannot say which journal was not synced keeps the lock until it can", async () => {
  const { path, f, store } = await made();
  const other = await openDir(path, { busyMs: 1 });
  failSyncs("fdatasyncSync");
  let tries = 0;
  const open = instead("openSync", (file: string, ...more: unknown[]) => {
    if (!file.endsWith(".unsynced")) return open(file, ...more);
    tries += 1;
    throw failure("EIO");
  });
  await expect(store.apply([f.save({ items: 1 })])).rejects.toMatchObject({ code: "IO" });
  await expect.poll(() => tries).toBeGreaterThan(2);
  await expect(other.apply([begin("b")])).rejects.toMatchObject({ code: "BUSY" });
  mend();
  await expect.poll(() => other.apply([begin("b")])).toEqual({ ok: true });
  await store.close();
  await other.close();
});

test("DIR-5: a store that has failed reads what other processes do, also of the change that failed", async () => {
  const { path, store } = await made();
  const other = await openDir(path, { busyMs: 60_000 });
  let isPlaced = false;
  const rename = instead("renameSync", (from: string, to: string) => {
    rename(from, to);
    if (to.endsWith("session.json")) isPlaced = true;
  });
  const sync = instead("fsyncSync", (fd: number) => {
    if (isPlaced) throw failure("EIO");
    return sync(fd);
  });
  await expect(store.apply([begin("b")])).rejects.toMatchObject({ code: "IO" });
  mend();
  expect(await other.apply([begin("c")])).toEqual({ ok: true });
  for (const each of [store, other])
    expect((await each.sessions({ limit: 5 })).map(({ id }) => id)).toEqual(["c", "b", "a"]);
  await store.close();
  await other.close();
});

test("LOCK-2: a release that was made and reported as failed leaves no second holder", async () => {
  const path = fresh();
  const [lock, other] = [new Lock(path), new Lock(path)];
  await lock.take(0);
  const link = instead("linkSync", (from: string, to: string) => {
    link(from, to);
    throw failure("EIO");
  });
  try {
    lock.release();
  } catch {}
  mend();
  await other.take(0);
  await expect(lock.take(0)).rejects.toMatchObject({ code: "BUSY" });
  expect(lock.number).toBe(0);
  other.release();
  expect(readdirSync(path)).toContain("lock-2.free.json");
});
