/**
 * The queue of processes that wait for a directory's lock, and files in it of processes that are
 * gone.
 */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isAwaited, QueuePlace } from "../../../src/store/dir/lock/lock-queue.js";
import { openDir } from "../../../src/store/dir/open.js";
import { monotonicMs } from "../../../src/store/machine.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => {
  const path = join(root, `store-${++count}`);
  mkdirSync(path);
  return path;
};

/** The file of a process that began to wait so many milliseconds after its machine started. */
const left = (path: string, ms: number): string => {
  const name = `lock-wanted-${String(ms).padStart(15, "0")}-0123456789ab.json`;
  writeFileSync(join(path, name), "");
  return name;
};
const FORTY_DAYS = 40 * 24 * 3_600_000;

test("QUEUE-2: a file of a boot that lasted longer than this one awaits nothing, and is nobody's turn", () => {
  const path = fresh();
  left(path, monotonicMs() + FORTY_DAYS);
  expect(isAwaited(path)).toBe(false);
  const [first, second] = [new QueuePlace(path), new QueuePlace(path)];
  expect(first.ahead()).toEqual([]);
  first.take();
  expect(isAwaited(path)).toBe(true);
  second.take();
  expect(first.ahead().length + second.ahead().length).toBe(1);
  first.leave();
  second.leave();
  expect(isAwaited(path)).toBe(false);
});

test("QUEUE-2: a process that began to wait in this very millisecond is awaited", () => {
  const path = fresh();
  left(path, monotonicMs());
  expect(isAwaited(path)).toBe(true);
});

test.each([
  ["longer", FORTY_DAYS],
  ["shorter", -monotonicMs()],
])(
  "QUEUE: a file of a boot that lasted %s than this one is gone once the lock was taken",
  async (_, ms) => {
    const path = join(fresh(), "store");
    const store = await openDir(path);
    const name = left(path, monotonicMs() + ms);
    await store.apply([begin("a")]);
    expect(existsSync(join(path, name))).toBe(false);
    expect(readdirSync(path).filter((file) => file.startsWith("lock-wanted"))).toEqual([]);
    await store.close();
  },
);
