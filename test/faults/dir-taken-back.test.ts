/** A disk that fails once. What was taken back whole is no harm: the same store goes on. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Lock } from "../../src/store/dir/lock.js";
import { openDir } from "../../src/store/dir/open.js";
import { all } from "../../src/testing/case.js";
import { begin, Fixture } from "../../src/testing/fixture.js";
import { failure, instead, mend } from "./failing-calls.js";
import { fresh } from "./places.js";

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
  await store.saves(f.line, all),
  (await store.docs({ kind: "k", limit: 5 })).map(({ text }) => text),
];

/** The first of some saves of one tick, a change of several sessions, and one with a document. */
const changesOf = (f: Fixture) => {
  const put = { of: null, version: 1, text: "doc", body: null, pins: [] };
  const change = { ...f.peek({ items: 2, blob: "body" }), head: { ...begin("a").head, line: f.line, text: "new" } };
  return [
    { what: "a save", changes: [f.peek({ items: 1 })], docs: [] },
    { what: "several sessions", changes: [change, begin("b"), begin("c")], docs: [] },
    { what: "a document", changes: [], docs: [{ kind: "k", id: "d", when: { absent: true as const }, put }] },
  ];
};

const names = ["openSync", "writeSync", "mkdirSync", "renameSync", "linkSync", "unlinkSync"];

test.each(names.flatMap((name) => [0, 1, 2].map((which) => ({ name, which }))))(
  "C5: a change ($which) in which any call of $name fails with EIO is made, or is taken back and made by the same store",
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
      const answer = (await again.apply(changes, docs).catch((thrown: unknown) => thrown)) as { ok?: boolean };
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

test.each(["mkdirSync", "renameSync", "linkSync", "unlinkSync"].flatMap((name) => [0, 1, 2].map((which) => ({ name, which }))))(
  "C5: a change ($which) in which any call of $name is made and reported as failed is made, or is not made, and nothing between",
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
      const answer = (await again.apply(changes, docs).catch((thrown: unknown) => thrown)) as { ok?: boolean };
      mend();
      if (answer.ok !== true) expect(await again.apply(changes, docs), `${n}`).toEqual({ ok: true });
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

test("O2: a release that was made and reported as failed leaves no second holder", async () => {
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
