/**
 * Damages a store bit by bit and length by length, and counts what was found, what did no harm, and
 * what was WRONG (D3).
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "../../../dist/index.js";
import { start, startPuppet } from "../../support/children/child.mjs";
import { idsOf, makeStore } from "./flip-store.mjs";

const HANG_MS = 10_000;
/** Memory, where there is some: every damage writes a quarter of a megabyte. */
const FAST = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/**
 * Runs the jobs in `workers` processes. `store` names the sound files by suffix, the ids to ask
 * for, and how to judge.
 */
export async function damageAll({ store, jobs, workers = 2, onProgress }) {
  const directory = mkdtempSync(join(FAST, "holdfast-flips-"));
  const result = { jobs: jobs.length, harmless: 0, found: 0, wrong: [] };
  const queue = jobs.toReversed();
  let done = 0;

  async function run(worker) {
    let child;
    const ready = async () => {
      child = start(new URL("./flip-child.mjs", import.meta.url));
      child.tell({ path: join(directory, `${worker}.db`), ...store });
      await child.heard((line) => line.ready);
    };
    await ready();
    for (let job = queue.pop(); job !== undefined; job = queue.pop()) {
      const from = child.lines.length;
      child.tell(job);
      let said;
      try {
        said = await child.heard((line) => line.job !== undefined, { from, withinMs: HANG_MS });
      } catch {
        said = {
          job,
          verdict: "wrong",
          wrong: [
            child.ended
              ? `the process ended: ${child.ended.signal ?? child.ended.code}`
              : "it hangs",
          ],
        };
        await child.end();
        await ready();
      }
      if (said.verdict === "wrong") result.wrong.push(said);
      else result[said.verdict] += 1;
      onProgress?.(++done, result);
    }
    await child.end();
  }
  try {
    await Promise.all(Array.from({ length: workers }, (_, worker) => run(worker)));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  return result;
}

/** Bits spread evenly over a file, beginning at a place that the seed gives, or all of them. */
export function spread(suffix, bytes, count, rng) {
  const bits = bytes * 8;
  if (count >= bits) return Array.from({ length: bits }, (_, bit) => ({ suffix, bit }));
  const step = bits / count;
  return Array.from({ length: count }, (_, n) => ({
    suffix,
    bit: Math.min(bits - 1, Math.floor(n * step + rng.next() * step)),
  }));
}

/**
 * The bits that say how the rest is to be read: page headers, pointers to cells, and of every row
 * its sizes and the types of its columns. They are few beside the texts, and what they do when they
 * change is the most surprising.
 */
export function frameBits(path, count, rng) {
  const file = readFileSync(path);
  const pageBytes = file.readUInt16BE(16);
  const bytes = [];
  for (let start = 0; start < file.length; start += pageBytes) {
    const head = start + (start === 0 ? 100 : 0);
    const kind = file[head];
    if (![2, 5, 10, 13].includes(kind)) continue;
    const inner = kind === 2 || kind === 5;
    const cells = file.readUInt16BE(head + 3);
    const pointers = head + (inner ? 12 : 8);
    for (let at = head; at < pointers + 2 * cells; at++) bytes.push(at);
    for (let i = 0; i < cells; i++) {
      const cell = start + file.readUInt16BE(pointers + 2 * i);
      let at = cell + (inner ? 4 : 0);
      // Its size, the number of a row of a table, and the header: its own size, and a type for each
      // column.
      if (kind !== 5) at = varint(file, at).next;
      if (kind === 5 || kind === 13) at = varint(file, at).next;
      if (kind !== 5) at += varint(file, at).value;
      for (let byte = cell; byte < at; byte++) bytes.push(byte);
    }
  }
  return spread("", bytes.length, count, rng).map(({ suffix, bit }) => ({
    suffix,
    bit: bytes[bit >> 3] * 8 + (bit & 7),
  }));
}

function varint(file, at) {
  let value = 0;
  for (let i = at; ; i++) {
    value = value * 128 + (file[i] & 127);
    if (file[i] < 128) return { value, next: i + 1 };
  }
}

/** Says of a bit of the main file which tree and which part of its page it lies in. */
export function cartographer(path) {
  const Database = createRequire(import.meta.url)("better-sqlite3");
  const db = new Database(path, { readonly: true });
  const pageBytes = db.pragma("page_size", { simple: true });
  const pages = new Map(
    db
      .prepare("SELECT pageno, name, pagetype FROM dbstat")
      .all()
      .map(({ pageno, name, pagetype }) => [pageno, `${name} ${pagetype}`]),
  );
  db.close();
  const file = readFileSync(path);
  return ({ suffix, bit, length }) => {
    if (length !== undefined) return `${suffix || "main"} cut short`;
    if (suffix !== "") return suffix;
    const at = bit >> 3;
    if (at < 100) return `file header byte ${at}`;
    const page = Math.floor(at / pageBytes) + 1;
    const name = pages.get(page) ?? "free page";
    if (!/leaf|internal/.test(name)) return name;
    const start = (page - 1) * pageBytes;
    const head = start + (page === 1 ? 100 : 0);
    const headBytes = (file[head] & 8) === 0 ? 12 : 8;
    const cells = file.readUInt16BE(head + 3);
    const content = start + (file.readUInt16BE(head + 5) || 65536);
    if (at < head + headBytes) return `${name}: header byte ${at - head}`;
    if (at < head + headBytes + 2 * cells) return `${name}: cell pointers`;
    if (at < content) return `${name}: unused space`;
    return `${name}: cells`;
  };
}

/** How often each class of place and symptom occurred. */
export function classes(wrong, where) {
  const counts = new Map();
  for (const { job, wrong: symptoms } of wrong) {
    const symptom = symptoms[0]
      .replace(/ [0-9a-hj-km-np-tv-z]{16}-\d+/g, "")
      .replace(/:.*untrue value.*/, ": an untrue value")
      .slice(0, 140);
    const name = `${where(job)} → ${symptom}`;
    counts.set(name, [...(counts.get(name) ?? []), job]);
  }
  return [...counts]
    .sort(([, a], [, b]) => b.length - a.length)
    .map(
      ([name, jobs]) =>
        `${String(jobs.length).padStart(6)}  ${name}  (e.g. ${JSON.stringify(jobs[0])})`,
    );
}

/** Keeps sound files where the workers can read them. */
function keep(directory, name, files) {
  return Object.fromEntries(
    Object.entries(files).map(([suffix, bytes]) => {
      writeFileSync(join(directory, `${name}${suffix}`), bytes);
      return [suffix, join(directory, `${name}${suffix}`)];
    }),
  );
}

export async function soundStore(directory) {
  const path = join(directory, "sound.db");
  await makeStore(path);
  const ids = await idsOf(path);
  const files = { "": readFileSync(path), "-anchors": readFileSync(`${path}-anchors`) };
  return { path, files, store: { files: keep(directory, "kept.db", files), ids, rule: {} } };
}

export async function killedStore(directory) {
  const path = join(directory, "killed.db");
  const save = async (hold, id) => {
    const session = await hold.session(id);
    for (let n = 0; n < 5; n++) {
      session.append({ role: "user", content: `${id} ${n}` });
      await session.checkpoint();
    }
    await session.close();
  };
  const first = await open(path);
  await save(first, "old");
  await first.close();
  const child = startPuppet();
  await child.ask({ do: "open", path });
  // Another process has it open, so this close writes its anchors and leaves the log as it is.
  const second = await open(path);
  await save(second, "old");
  await save(second, "anchored");
  await second.close();
  await child.ask({ do: "session", session: "loose" });
  await child.ask({ do: "save", session: "loose", text: "loose", times: 5 });
  await child.end();
  const files = {
    "": readFileSync(path),
    "-wal": readFileSync(`${path}-wal`),
    "-anchors": readFileSync(`${path}-anchors`),
  };
  const kept = keep(directory, "kept-killed.db", files);
  const ids = await idsOf(path);
  const anchored = ["old", "anchored"];
  const hold = await open(path);
  const checkpoints = [];
  for (const id of anchored)
    for (const { id: at } of (await hold.checkpoints.list(id, { limit: 100 })).items)
      checkpoints.push(at);
  await hold.close();
  return { path, files, store: { files: kept, ids, rule: { tailOf: { anchored, checkpoints } } } };
}
