/**
 * Journals of more than 2 and more than 4 GiB. Their files have holes, which take up no room and
 * read as zeros.
 */
import {
  appendFileSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import type { Save } from "../../../src/core/journal/save.js";
import { sessionPath } from "../../../src/store/dir/files/names.js";
import { saveText } from "../../../src/store/dir/journal/save-rows.js";
import { openDir } from "../../../src/store/dir/open.js";
import type { NewSave } from "../../../src/store/port/changes.js";
import { all, seqs } from "../../../src/testing/contract/case.js";
import { Fixture } from "../../../src/testing/contract/fixture.js";
import { isThorough } from "../../support/runs.js";
import { scratch } from "../../support/stores.js";

const GIB = 2 ** 30;
const root = scratch();
let count = 0;

/** A store with a session "a" of three saves, and another one. */
async function made(): Promise<{ path: string; journal: string; f: Fixture; other: Fixture }> {
  const path = join(root, `store-${++count}`);
  const [f, other] = [new Fixture("a"), new Fixture("other")];
  const store = await openDir(path);
  await store.apply([f.begin(), other.begin()]);
  for (let i = 0; i < 3; i++) await store.apply([f.save({ items: 1, state: 1, mark: true })]);
  await store.apply([other.save({ items: 1, mark: true })]);
  await store.close();
  rmSync(join(path, "anchors"));
  return { path, journal: join(path, sessionPath("a"), `${f.branch}.jsonl`), f, other };
}

/** A seal with other words, and a sum that fits them. */
function sealed(row: string): string {
  const text = row.slice(0, -',"sum":"01234567"}'.length);
  return `${text},"sum":"${crc32(text).toString(16).padStart(8, "0")}"}`;
}

/** Puts the last save of the journal behind a hole that ends at `at`. */
function moveLast(journal: string, at: number): void {
  const bytes = readFileSync(journal);
  const seals = [...bytes.toString("latin1").matchAll(/\{"seal".*\n/g)];
  const start = (seals.at(-2)?.index ?? 0) + (seals.at(-2)?.[0].length ?? 0);
  writeFileSync(journal, bytes.subarray(0, start));
  truncateSync(journal, at);
  appendFileSync(journal, bytes.subarray(start));
}

test("saves behind 4 GiB are read, appended and cut, and those before are found", async () => {
  const { path, journal, f, other } = await made();
  // A save whose items are a hole of 4.5 GiB: its seal says so, and where the one before it ends.
  const wide = f.save({ items: 1, mark: true }).saves?.[0] as NewSave;
  const [items = "", mark, seal = ""] = saveText(wide.save, []).text.split("\n");
  truncateSync(journal, statSync(journal).size + 4.5 * GIB);
  appendFileSync(
    journal,
    `\n${mark}\n${sealed(seal.replace(`"items":[${items.length},`, `"items":[${4.5 * GIB},`))}\n`,
  );
  f.save({ items: 1, mark: true });
  appendFileSync(journal, saveText(f.saves.at(-1) as Save, []).text);
  expect(statSync(journal).size).toBeGreaterThan(2 ** 32);
  const store = await openDir(path);
  expect(await store.apply([f.save({ items: 2, state: 1, mark: true })])).toEqual({ ok: true });
  const numbers = seqs(f.saves);
  expect(seqs(await store.saves(f.branch, { ...all, items: false, state: false }))).toEqual(
    numbers,
  );
  // Each but the wide one is whole, on both sides of it.
  for (const save of f.saves.filter(({ seq }) => seq !== wide.save.seq))
    expect(await store.saves(f.branch, { ...all, from: save.seq, to: save.seq })).toEqual([save]);
  await expect(store.saves(f.branch, all)).rejects.toMatchObject({
    code: "CORRUPT",
    details: { seq: wide.save.seq },
  });
  expect(await store.saves(other.branch, all)).toEqual(other.saves);
  expect(await store.check()).toEqual([]);
  expect((await store.info("counts")).counts?.checkpoints).toBe(numbers.length + 1);
  expect((await store.reclaim.sweep(10, false)).count).toBe(0);
  await store.apply([{ session: "a", when: {}, remove: true }]);
  expect((await store.reclaim.cut(f.branch, -1, 2, false)).count).toBe(2);
  expect(statSync(journal).size).toBeGreaterThan(2 ** 32);
  expect((await store.reclaim.cut(f.branch, -1, 1, false)).count).toBe(1);
  expect(statSync(journal).size).toBeLessThan(10_000);
  await store.close();
});

if (isThorough)
  test("more than 2 GiB of damage in a journal hide neither its other saves nor other sessions", async () => {
    const { path, journal, f, other } = await made();
    moveLast(journal, 2 * GIB + 2 ** 21);
    const store = await openDir(path);
    expect(await store.apply([f.save({ items: 1 })])).toEqual({ ok: true });
    expect(await store.saves(f.branch, all)).toEqual(f.saves);
    expect(await store.saves(other.branch, all)).toEqual(other.saves);
    await store.close();
  });

test("an end of several pieces that is no save is set aside whole, and its zeros between two pieces are seen", async () => {
  const { path, journal, f } = await made();
  const end = statSync(journal).size;
  const stray = Buffer.alloc(2.5 * 2 ** 20, "x");
  appendFileSync(journal, stray);
  let store = await openDir(path);
  expect(await store.check()).toEqual([
    expect.stringContaining(`${stray.length} bytes that are no whole save`),
  ]);
  expect(await store.apply([f.save({ items: 1, text: "y".repeat(2 ** 21) })])).toEqual({
    ok: true,
  });
  await store.close();
  expect(readFileSync(journal.replace(/jsonl$/, "tail-1")).equals(stray)).toBe(true);
  // Pages of the last save that were never written: two zeros, one on each side of a megabyte.
  rmSync(join(path, "anchors"));
  const bytes = readFileSync(journal);
  bytes.fill(0, end + 2 ** 20 - 1, end + 2 ** 20 + 1);
  writeFileSync(journal, bytes);
  store = await openDir(path);
  expect(seqs(await store.saves(f.branch, all))).toEqual(seqs(f.saves.slice(0, 3)));
  await store.close();
});
