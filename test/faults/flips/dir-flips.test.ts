/**
 * D3 for a directory: whichever bit of whichever file changes, answers are true, or typed errors,
 * and verify says what is damaged.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { random, SEED } from "../../support/random.mjs";
import { damagedCopy, type FileDamage, filesIn, idsOf, makeSmall } from "./dir-flips.mjs";
import { askAll, judge } from "./flip-store.mjs";

const FLIPS =
  process.env["HOLDFAST_FLIPS"] === "all"
    ? Number.MAX_SAFE_INTEGER
    : Number(process.env["HOLDFAST_FLIPS"] ?? 400);
const rng = random(SEED);
/** Memory, where there is some: syncs cost nothing there. */
const FAST = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

async function damageAll(jobsOf: (path: string, files: readonly string[]) => FileDamage[]) {
  const directory = mkdtempSync(join(FAST, "holdfast-dir-flips-"));
  try {
    const sound = join(directory, "sound");
    const copy = join(directory, "copy");
    await makeSmall(sound);
    const ids = await idsOf(sound);
    const truth = await askAll(`dir:${sound}`, ids);
    const result = { harmless: 0, found: 0, wrong: [] as string[] };
    for (const job of jobsOf(sound, filesIn(sound))) {
      damagedCopy(sound, copy, job);
      const { verdict, wrong } = judge(truth, await askAll(`dir:${copy}`, ids));
      if (verdict === "wrong") result.wrong.push(`${JSON.stringify(job)}: ${wrong[0]}`);
      else result[verdict] += 1;
    }
    return result;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

const isJournal = (file: string): boolean => file.endsWith(".jsonl") && file.startsWith("sessions");
const isSession = (file: string): boolean => file.endsWith("session.json");
/** Who writes is no answer to anybody. */
const isOther = (file: string): boolean =>
  !isJournal(file) && !isSession(file) && !file.startsWith("lock-") && !file.startsWith(".");

function bitsOf(path: string, files: readonly string[], count: number): FileDamage[] {
  const bits = files.map((file) => ({ file, bits: statSync(join(path, file)).size * 8 }));
  const total = bits.reduce((sum, each) => sum + each.bits, 0);
  const step = Math.max(1, total / count);
  const jobs: FileDamage[] = [];
  for (let at = rng.next() * (step - 1); at < total; at += step) {
    let bit = Math.floor(at);
    for (const each of bits) {
      if (bit < each.bits) {
        jobs.push({ file: each.file, bit });
        break;
      }
      bit -= each.bits;
    }
  }
  return jobs;
}

const timeout = FLIPS > 10_000 ? 24 * 3_600_000 : 300_000;

test("D3: flipped bits of journals", { timeout }, async () => {
  const result = await damageAll((path, files) => bitsOf(path, files.filter(isJournal), FLIPS));
  expect(result.wrong.slice(0, 10)).toEqual([]);
  // Of a journal only its first row may change without a trace: what it says stands in session.json
  // too.
  expect(result.found).toBeGreaterThan(result.harmless);
  console.info(`journals: ${result.found} found, ${result.harmless} harmless`);
});

test("D3: flipped bits of session.json", { timeout }, async () => {
  const result = await damageAll((path, files) => bitsOf(path, files.filter(isSession), FLIPS));
  expect(result.wrong.slice(0, 10)).toEqual([]);
  expect(result.harmless).toBe(0);
  console.info(`session.json: ${result.found} found, ${result.harmless} harmless`);
});

test("D3: flipped bits of the log of changes, the anchors and holdfast.json", {
  timeout,
}, async () => {
  const result = await damageAll((path, files) => bitsOf(path, files.filter(isOther), FLIPS / 2));
  expect(result.wrong.slice(0, 10)).toEqual([]);
  console.info(`others: ${result.found} found, ${result.harmless} harmless`);
});

test("D3: every file cut short at every length", { timeout }, async () => {
  const result = await damageAll((path, files) => {
    const jobs = files
      .filter((file) => isJournal(file) || isSession(file))
      .flatMap((file) =>
        Array.from({ length: readFileSync(join(path, file)).length }, (_, length) => ({
          file,
          length,
        })),
      );
    const step = Math.max(1, Math.floor(jobs.length / FLIPS));
    return jobs.filter((_, i) => i % step === 0);
  });
  expect(result.wrong.slice(0, 10)).toEqual([]);
  expect(result.harmless).toBe(0);
  console.info(`cut short: ${result.found} found`);
});

test("negative control: a value that is another without a trace is judged wrong", async () => {
  const directory = mkdtempSync(join(FAST, "holdfast-dir-flips-"));
  await makeSmall(join(directory, "one"));
  await makeSmall(join(directory, "two"));
  const ids = await idsOf(join(directory, "one"));
  const truth = await askAll(`dir:${join(directory, "one")}`, ids);
  expect(judge(truth, await askAll(`dir:${join(directory, "two")}`, ids))).toMatchObject({
    verdict: "wrong",
  });
  expect(judge(truth, await askAll(`dir:${join(directory, "one")}`, ids))).toMatchObject({
    verdict: "harmless",
  });
  rmSync(directory, { recursive: true, force: true });
});
