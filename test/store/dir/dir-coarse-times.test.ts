/**
 * File systems whose times rise in steps: two changes in one step have the same times, and neither
 * may be overlooked.
 */
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { Save } from "../../../src/core/journal/save.js";
import { entryOf } from "../../../src/store/dir/index/session-catalog.js";
import { SessionIndex } from "../../../src/store/dir/index/session-index.js";
import { watchDue, watchSession } from "../../../src/store/dir/index/watch.js";
import { openDir } from "../../../src/store/dir/open.js";
import { newDoc, type SessionDoc } from "../../../src/store/dir/sessions/session-file.js";
import { begin, digestOf, Fixture } from "../../../src/testing/contract/fixture.js";
import { instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

afterEach(mend);

/**
 * All that is changed has one time: long ago, or within the step that has not ended yet. A document
 * that is exchanged has the number of the file that it takes the place of, as file systems give it
 * out again.
 */
function stopTime(when: "long ago" | "now"): void {
  const ms = when === "now" ? Date.now() + 3_600_000 : 1_000_000_000_001;
  const ns = BigInt(ms) * 1_000_000n;
  const lstat = instead("lstatSync", (path: string, options?: object) => {
    const found = lstat(path, options) as Record<string, unknown> | undefined;
    if (found === undefined) return undefined;
    const isBig = typeof found["size"] === "bigint";
    const ino = path.includes("documents") ? { ino: isBig ? 1n : 1 } : undefined;
    return Object.assign(
      found,
      ino,
      isBig ? { ctimeNs: ns, mtimeNs: ns, ctimeMs: BigInt(ms) } : { ctimeMs: ms, mtimeMs: ms },
    );
  });
}

test("CATALOG-3: two processes whose changes have one time know of each other's sessions, and gc removes nothing of theirs", async () => {
  const path = join(fresh(), "store");
  const [a, b] = [await openDir(path), await openDir(path)];
  await a.apply([begin("first")]);
  const ids = async (store: typeof a) => (await store.sessions({ limit: 10 })).map(({ id }) => id);
  expect([await ids(a), await ids(b)]).toEqual([["first"], ["first"]]);
  stopTime("long ago");
  const f = new Fixture("of-b");
  // Both look once under this time, as a dashboard does.
  expect([await ids(a), await ids(b)]).toEqual([["first"], ["first"]]);
  await b.apply([f.begin(), f.save({ items: 1, mark: true, blob: "body" })]);
  expect(await ids(a)).toEqual(["of-b", "first"]);
  await a.apply([begin("of-a")]);
  await b.apply([begin("of-b-again")]);
  for (const store of [a, b])
    expect(await ids(store)).toEqual(["of-b-again", "of-a", "of-b", "first"]);
  await a.reclaim.sweep(100, false);
  expect(await a.blob(digestOf("body"))).toBeDefined();
  expect(await a.check()).toEqual([]);
  await a.close();
  await b.close();
});

const docOf = (id: string): SessionDoc => {
  const { head, label } = begin(id) as Pick<SessionDoc, "head" | "label">;
  return { ...newDoc(id), no: 1, head, label };
};

/** A log that was followed to its end, to which another process adds a row. */
function followed() {
  const path = join(fresh(), "changes.jsonl");
  let made = ["a"];
  writeFileSync(path, `{"made":"0123456789abcdef"}\n["a"]\n`);
  const index = new SessionIndex(path, (id) => (made.includes(id) ? docOf(id) : undefined));
  index.reset([entryOf(docOf("a"))], index.end());
  const listed = () => [...index.catalogue.entries()].map(({ id }) => id);
  const add = () => {
    made = ["a", "b"];
    appendFileSync(path, `["b"]\n`);
  };
  /** In its place another, as long, of a later change. */
  const exchange = () => writeFileSync(path, `{"made":"fedcba9876543210"}\n["c"]\n`);
  return { index, listed, add, exchange };
}

test("CATALOG-3: a reader looks into a log that was touched a moment ago, also where its times are the same", () => {
  const { index, listed, add, exchange } = followed();
  stopTime("now");
  expect([index.follow(), listed()]).toEqual([true, ["a"]]);
  add();
  expect([index.follow(), listed()]).toEqual([true, ["a", "b"]]);
  exchange();
  expect(index.follow()).toBe(false);
});

test("CATALOG-3: the process that takes the lock looks into the log, whatever its times say", () => {
  const { index, listed, add, exchange } = followed();
  stopTime("long ago");
  expect([index.follow(), listed()]).toEqual([true, ["a"]]);
  add();
  expect([index.follow("always"), listed()]).toEqual([true, ["a", "b"]]);
  exchange();
  expect(index.follow("always")).toBe(false);
});

test("STAMP-1: a reader sees a document that was changed twice in one step, and what it pins", async () => {
  const path = join(fresh(), "store");
  const [a, b] = [await openDir(path), await openDir(path)];
  const f = new Fixture("s");
  await b.apply([f.begin(), f.save({ items: 1, mark: true }), f.save({ items: 1, mark: true })]);
  const [first, second] = f.saves as [Save, Save];
  const put = (version: number, seq: number) => ({
    of: null,
    version,
    text: `text ${version}`,
    body: null,
    pins: [{ branch: f.branch, seq }],
  });
  const change = (when: object, ...of: Parameters<typeof put>) =>
    b.apply([], [{ kind: "k", id: "d", when, put: put(...of) }]);
  stopTime("now");
  await change({ absent: true }, 1, first.seq);
  const seen = async () => [
    (await a.documents.list({ kind: "k", limit: 5 })).map(({ text }) => text),
    (await a.documents.pins(f.branch)).map(({ seq }) => seq),
  ];
  expect(await seen()).toEqual([["text 1"], [first.seq]]);
  await b.apply([], [{ kind: "k", id: "d", when: {}, remove: true }]);
  await change({ absent: true }, 2, second.seq);
  expect(await seen()).toEqual([["text 2"], [second.seq]]);
  await a.close();
  await b.close();
});

/** Counts how often a watch wakes. */
function watched(begin: (wake: () => void) => () => void) {
  const woken = { times: 0 };
  const stop = begin(() => {
    woken.times += 1;
  });
  return { woken, stop };
}

test("STAMP-1: a row of the log that has the time of the row before it wakes who waits for what is due", async () => {
  const root = fresh();
  const log = join(root, "changes.jsonl");
  writeFileSync(log, "one\n");
  stopTime("long ago");
  const { woken, stop } = watched((wake) => watchDue(join(root, "waiting"), log, wake));
  appendFileSync(log, "two\n");
  await expect.poll(() => woken.times).toBeGreaterThan(0);
  stop();
});

test("STAMP-1: mail that has the time of the last look wakes who waits for a session", async () => {
  const directory = fresh();
  const inbox = join(directory, "inbox");
  mkdirSync(inbox);
  stopTime("now");
  const { woken, stop } = watched((wake) => watchSession(directory, wake));
  writeFileSync(join(inbox, "m.json"), "{}");
  await expect.poll(() => woken.times).toBeGreaterThan(0);
  stop();
});
