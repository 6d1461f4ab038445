/**
 * Calls that fail while the lock of a directory is taken or released: it is held, or it is free,
 * and no process is locked out.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Lock } from "../../../src/store/dir/lock/lock.js";
import { openDir } from "../../../src/store/dir/open.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

afterEach(mend);

/** Lets the nth of these calls fail, once. Answers how many there were. */
function failOnce(name: string, nth: number, code: string): () => number {
  let count = 0;
  const call = instead(name, (...args: unknown[]) => {
    count += 1;
    if (count === nth) throw failure(code);
    return call(...args);
  });
  return () => count;
}

const calls = [
  "openSync",
  "readdirSync",
  "lstatSync",
  "statSync",
  "fstatSync",
  "readSync",
  "writeSync",
  "fsyncSync",
  "linkSync",
  "unlinkSync",
];

test.each(calls.flatMap((name) => ["ENFILE", "ENOMEM", "EIO"].map((code) => ({ name, code }))))(
  "LOCK-6: one call of $name that fails with $code while the lock is taken leaves it taken here, or free for all",
  async ({ name, code }) => {
    for (let n = 1; ; n++) {
      const path = fresh();
      const [before, lock, other] = [new Lock(path), new Lock(path), new Lock(path)];
      // So that there is one to look at, and to remove.
      await before.take(0);
      before.release();
      const count = failOnce(name, n, code);
      const isTaken = await lock.take(0).then(
        () => true,
        () => false,
      );
      const isLast = count() < n;
      mend();
      expect([lock.number, lock.findMoved()], `${n}`).toEqual([isTaken ? 2 : 0, undefined]);
      lock.release();
      for (const next of [other, lock]) {
        await next.take(0);
        expect(next.findMoved(), `${n}`).toBeUndefined();
        next.release();
      }
      if (isLast) return;
    }
  },
);

test("LOCK-6: a process that waited and cannot remove its place in the queue has the lock all the same", async () => {
  const path = fresh();
  const [holding, lock] = [new Lock(path), new Lock(path)];
  await holding.take(0);
  const unlink = instead("unlinkSync", (file: string) => {
    if (file.includes("lock-wanted")) throw failure("EIO");
    unlink(file);
  });
  const taken = lock.take(60_000);
  holding.release();
  await taken;
  expect(lock.number).toBe(2);
  lock.release();
});

test("LOCK-6: a lock that was linked and could not be removed again is taken over by the store that left it", async () => {
  const path = fresh();
  const lock = new Lock(path);
  let isLinked = false;
  const link = instead("linkSync", (from: string, to: string) => {
    link(from, to);
    isLinked = true;
  });
  for (const [name, code] of [
    ["readdirSync", "ENFILE"],
    ["unlinkSync", "EIO"],
  ] as const) {
    const call = instead(name, (...args: unknown[]) => {
      if (isLinked) throw failure(code);
      return call(...args);
    });
  }
  await expect(lock.take(0)).rejects.toMatchObject({ code: "ENFILE" });
  mend();
  expect(readdirSync(path)).toContain("lock-1.json");
  expect(lock.number).toBe(0);
  await lock.take(0);
  expect(lock.number).toBe(2);
  lock.release();
});

test("a store whose lock could not be taken once writes at the next try, and others write", async () => {
  const path = join(fresh(), "store");
  const [a, b] = [await openDir(path, { busyMs: 0 }), await openDir(path, { busyMs: 60_000 })];
  let isLinked = false;
  const link = instead("linkSync", (from: string, to: string) => {
    link(from, to);
    if (/lock-\d+\.json$/.test(to)) isLinked = true;
  });
  const stat = instead("statSync", (...args: unknown[]) => {
    if (isLinked) throw failure("ENOMEM");
    return stat(...args);
  });
  await expect(a.apply([begin("a")])).rejects.toMatchObject({ code: "BUSY" });
  mend();
  expect(await a.apply([begin("a")])).toEqual({ ok: true });
  expect(await b.apply([begin("b")])).toEqual({ ok: true });
  await a.close();
  await b.close();
});
