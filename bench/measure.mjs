/**
 * Small tools for measuring: times in microseconds, medians, and text that looks like what agents
 * say.
 */
import { hash } from "node:crypto";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDriver } from "../dist/store/sql/sqlite/driver/driver.js";

export const now = () => Number(process.hrtime.bigint()) / 1000;

export function quantile(values, q) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))];
}

export const median = (values) => quantile(values, 0.5);

/** A directory beside the sources' disk (not a memory file system), removed at the end. */
export function scratch() {
  const directory = mkdtempSync(join(process.env.BENCH_DIR ?? tmpdir(), "holdfast-bench-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const WORDS =
  "the agent looked up order forty-two and found that it arrived broken, so a refund of 18.50 was asked for; the tool answered with status pending and an id, which must be checked again before the customer is told anything about it. kelp holds to rock by a holdfast that takes no food from it".split(
    " ",
  );

let seed = 42;
const random = () => {
  seed = (seed * 1664525 + 1013904223) % 2 ** 32;
  return seed / 2 ** 32;
};

/**
 * Prose of about so many characters: lengths vary by a fifth to either side, as real messages do.
 */
export function prose(about) {
  const length = Math.round(about * (0.8 + random() * 0.4));
  let text = "";
  while (text.length < length) text += `${WORDS[Math.floor(random() * WORDS.length)]} `;
  // Flat, as text that came over a wire is.
  return Buffer.from(text.slice(0, length)).toString();
}

/** The two messages of one step, about 1 KB each. */
export const step = (about = 1000) => [
  { role: "user", content: prose(about) },
  { role: "assistant", content: prose(about) },
];

/**
 * A table with one row in it per insert, in a file of its own, with the pragmas of a store: what
 * the disk allows.
 */
export function bareTable(path) {
  const db = openDriver(path);
  db.exec(
    "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16000; PRAGMA busy_timeout = 20",
  );
  db.exec("CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT NOT NULL)");
  const insert = db.prepare("INSERT INTO bare (body) VALUES (?)");
  return { insert: (body) => insert.run(body), close: () => db.close() };
}

/**
 * Many steps, quickly: checkpoints that are not waited for one by one share their commits. Answers
 * the bytes of the raw JSON.
 */
export async function fill(session, steps, about) {
  let raw = 0;
  for (let done = 0; done < steps; ) {
    const group = [];
    for (let i = 0; i < 200 && done < steps; i++, done++) {
      const messages = step(about);
      raw += Buffer.byteLength(JSON.stringify(messages)) - 3;
      session.append(...messages);
      group.push(session.checkpoint());
    }
    await Promise.all(group);
  }
  return raw;
}

/**
 * Saves through the public surface against what the bare thing does with the same bytes, in turns.
 * The first ones, `warm`, are not counted: files grow, and the engine compiles what it sees often.
 * `form` makes of the JSON text what `bare` takes.
 */
export async function timeSaves(session, bare, { rounds, warm, form = (text) => text }) {
  // Made before anything is measured: what is thrown away in making them is nobody's cost.
  const steps = Array.from({ length: rounds + warm }, () => {
    const messages = step();
    return { messages, raw: form(JSON.stringify(messages)) };
  });
  const ours = [];
  const theirs = [];
  let rawBytes = 0;
  for (const [i, { messages, raw }] of steps.entries()) {
    rawBytes += Buffer.byteLength(raw) - 3;
    let start = now();
    const waits = bare(raw);
    if (waits instanceof Promise) await waits;
    const bareUs = now() - start;
    start = now();
    session.append(...messages);
    await session.checkpoint();
    const saveUs = now() - start;
    if (i < warm) continue;
    theirs.push(bareUs);
    ours.push(saveUs);
  }
  const at = (part) => ({
    value: quantile(ours, part) / quantile(theirs, part),
    note: `${quantile(ours, part).toFixed(0)} / ${quantile(theirs, part).toFixed(0)} µs`,
  });
  return { p50: at(0.5), p99: at(0.99), rawBytes };
}

/**
 * A checkpoint of 1,000 messages, loaded and verified, against JSON.parse plus SHA-256 of the same
 * bytes, in turns.
 */
export async function timeLoads(hold, rounds) {
  const session = await hold.session("a thousand messages");
  await fill(session, 500);
  const { id } = session.head;
  await session.close();
  const { messages } = await hold.checkpoints.state(id);
  if (messages.length !== 1000) throw new Error(`expected 1000 messages, got ${messages.length}`);
  const bytes = Buffer.from(
    JSON.stringify(messages.map(({ role, content }) => ({ role, content }))),
  );
  const ours = [];
  const theirs = [];
  for (let i = 0; i < rounds + 20; i++) {
    let start = now();
    hash("sha256", bytes, "hex");
    JSON.parse(bytes.toString("utf8"));
    const bareUs = now() - start;
    start = now();
    await hold.checkpoints.state(id);
    const loadUs = now() - start;
    if (i >= 20) {
      theirs.push(bareUs);
      ours.push(loadUs);
    }
  }
  return {
    value: median(ours) / median(theirs),
    note: `${(median(ours) / 1000).toFixed(2)} / ${(median(theirs) / 1000).toFixed(2)} ms`,
  };
}

export const fileBytes = (path) => statSync(path).size;
