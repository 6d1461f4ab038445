/**
 * D3: no wrong value is ever returned. One changed bit, a file cut short, a log that lost its end:
 * true answers, or a typed error.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fresh } from "../../support/places.js";
import { random, SEED } from "../../support/random.mjs";
import {
  cartographer,
  classes,
  type Damage,
  damageAll,
  frameBits,
  killedStore,
  soundStore,
  spread,
} from "./flip-campaign.mjs";
import { askAll, judge, place } from "./flip-store.mjs";

const FLIPS =
  process.env["HOLDFAST_FLIPS"] === "all"
    ? Number.MAX_SAFE_INTEGER
    : Number(process.env["HOLDFAST_FLIPS"] ?? 1_000);
const rng = random(SEED);

const cuts = (suffix: string, bytes: number, count: number): Damage[] =>
  Array.from({ length: count }, () => ({ suffix, length: rng.whole(0, bytes - 1) }));

test(`D3: ${FLIPS} flipped bits over the whole file`, {
  timeout: FLIPS > 10_000 ? 24 * 3_600_000 : 120_000,
}, async () => {
  const { store, files, path } = await soundStore(fresh());
  const result = await damageAll({ store, jobs: spread("", files[""]?.length ?? 0, FLIPS, rng) });
  expect(
    classes(result.wrong, cartographer(path)),
    `${result.harmless} harmless, ${result.found} found`,
  ).toEqual([]);
  expect(result.found).toBeGreaterThan(result.jobs / 20);
});

test("D3: flipped bits that say how the rest is to be read", { timeout: 120_000 }, async () => {
  const { store, path } = await soundStore(fresh());
  const result = await damageAll({ store, jobs: frameBits(path, FLIPS, rng) });
  expect(classes(result.wrong, cartographer(path))).toEqual([]);
  expect(result.found).toBeGreaterThan(result.jobs * 0.9);
});

test("D3: the file cut short at many lengths", async () => {
  const { store, files, path } = await soundStore(fresh());
  const bytes = files[""]?.length ?? 0;
  const pages = Array.from({ length: bytes / 8192 }, (_, page) => page * 8192);
  const lengths = pages.flatMap((at) => [at - 1, at, at + 1]).filter((at) => at >= 0);
  const jobs = [...lengths.map((length) => ({ suffix: "", length })), ...cuts("", bytes, 100)];
  const result = await damageAll({ store, jobs });
  expect(classes(result.wrong, cartographer(path))).toEqual([]);
  expect(result.harmless).toBe(0);
});

test("D3: damaged anchors never make a sound store answer untruly", async () => {
  const { store, files, path } = await soundStore(fresh());
  const bytes = files["-anchors"]?.length ?? 0;
  const result = await damageAll({
    store,
    jobs: [...spread("-anchors", bytes, 300, rng), ...cuts("-anchors", bytes, 50)],
  });
  expect(classes(result.wrong, cartographer(path))).toEqual([]);
});

test("D3: a damaged log gives older answers, never untrue ones, and a loss that an anchor knew of is reported", async () => {
  const { store, files, path } = await killedStore(fresh());
  const bytes = files["-wal"]?.length ?? 0;
  const result = await damageAll({
    store,
    jobs: [...spread("-wal", bytes, 600, rng), ...cuts("-wal", bytes, 200)],
  });
  expect(classes(result.wrong, cartographer(path))).toEqual([]);
  // The log was in use: damage near its beginning takes what was witnessed.
  expect(result.found).toBeGreaterThan(100);
});

test("negative control: a row that is gone without a trace of damage is judged wrong", async () => {
  const { store, files, path } = await soundStore(fresh());
  const truth = await askAll(path, store.ids);
  const copy = join(fresh(), "copy.db");
  place(copy, files);
  const Database = createRequire(import.meta.url)("better-sqlite3");
  const db = new Database(copy);
  db.prepare("DELETE FROM session WHERE id = 'c'").run();
  db.close();
  expect(judge(truth, await askAll(copy, store.ids))).toMatchObject({ verdict: "wrong" });
  place(copy, files);
  expect(judge(truth, await askAll(copy, store.ids))).toMatchObject({ verdict: "harmless" });
});

test("negative control: a log that lost what an anchor knew of is judged wrong where the anchors are gone too", async () => {
  const { store, files, path } = await killedStore(fresh());
  place(path, files);
  const truth = await askAll(path, store.ids);
  const { "-wal": log = new Uint8Array(), "-anchors": _anchors, ...rest } = files;
  place(path, { ...rest, "-wal": log.subarray(0, 40_000) });
  expect(judge(truth, await askAll(path, store.ids), store.rule)).toMatchObject({
    verdict: "wrong",
  });
  place(path, { ...files, "-wal": log.subarray(0, 40_000) });
  expect(judge(truth, await askAll(path, store.ids), store.rule)).toMatchObject({
    verdict: "found",
  });
  expect(readFileSync(path).length).toBeGreaterThan(0);
});
