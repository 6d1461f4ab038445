/**
 * Pruning, deleting and gc of very many checkpoints, and what a writer on the same store feels of
 * it: its p99 meanwhile against its p99 in the pauses between, in one run. Once with the writer in
 * a process of its own, once in the same one.
 */
import { spawn } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { open } from "../../dist/index.js";
import { fill, now, quantile, step } from "../measure.mjs";

/** How long it works, and then lets the writer alone. */
const TURN_MS = 400;

export async function gc({ directory, checkpoints, sessions }) {
  const apart = await run(join(directory, "gc-apart.db"), {
    checkpoints,
    sessions,
    writer: writerApart,
  });
  const here = await run(join(directory, "gc-here.db"), {
    checkpoints,
    sessions,
    writer: writerHere,
  });
  const of = `of ${checkpoints.toLocaleString("en")} checkpoints`;
  return [
    { name: `gc ${of}: p99 of a writer in another process`, ...apart.p99, floor: 5 },
    { name: `gc ${of}: p99 of a writer in the same process`, ...here.p99, floor: 5 },
    // Of half of the sessions nothing is left; the transcripts of the others are all still there.
    { name: `gc ${of}: disk afterwards / before`, ...apart.disk, floor: 0.55 },
  ];
}

async function run(path, { checkpoints, sessions, writer }) {
  const hold = await open(path);
  for (let i = 0; i < sessions; i++) {
    const session = await hold.session(`s-${i}`);
    await fill(session, checkpoints / sessions);
    await session.close();
  }
  const before = diskOf(path);
  const writing = await writer(hold, path);
  const busy = [];
  await sleep(2 * TURN_MS);
  const began = now();
  await collect(hold, sessions, busy);
  const tookMs = (now() - began) / 1000;
  const samples = await writing.stop();
  // What the writer has written meanwhile is no part of what was to become smaller.
  await hold.sessions.delete("writer");
  await hold.gc();
  const after = diskOf(path);
  await hold.close();
  const isBusy = ({ start, end }) => busy.some(([from, to]) => start < to && end > from);
  const during = samples.filter(isBusy).map(({ start, end }) => end - start);
  const between = samples.filter((sample) => !isBusy(sample)).map(({ start, end }) => end - start);
  const shown = (values) =>
    [0.5, 0.99, 0.999].map((q) => quantile(values, q).toFixed(0)).join(", ");
  return {
    p99: {
      value: quantile(during, 0.99) / quantile(between, 0.99),
      note: `p50, p99, p99.9: ${shown(during)} / ${shown(between)} µs; ${during.length} and ${between.length} saves; ${(tookMs / 1000).toFixed(1)} s with as much pause`,
    },
    disk: {
      value: after / before,
      note: `${(after / 1e6).toFixed(1)} / ${(before / 1e6).toFixed(1)} MB`,
    },
  };
}

/**
 * Half of the sessions are pruned, the others deleted, and what they held is freed; in turns of
 * work and rest, which are noted.
 */
async function collect(hold, sessions, busy) {
  for (let i = 0; i < sessions; i++) {
    const id = `s-${i}`;
    for (let done = false; !done; ) {
      done = await turn(busy, async (signal) => {
        if (i % 2 === 0) await hold.checkpoints.prune(id, { keep: 10, signal });
        else await hold.sessions.delete(id);
      });
    }
  }
  while (!(await turn(busy, async (signal) => void (await hold.gc({ signal })))));
}

/** Whether it came to its end within its turn. Short ones are a turn together. */
async function turn(busy, work) {
  const from = now();
  try {
    await work(AbortSignal.timeout(TURN_MS));
    return true;
  } catch (error) {
    if (error.name !== "TimeoutError") throw error;
    return false;
  } finally {
    const to = now();
    busy.push([from, to]);
    await sleep((to - from) / 1000);
  }
}

const diskOf = (path) =>
  [path, `${path}-wal`].reduce(
    (sum, file) => sum + (existsSync(file) ? statSync(file).size : 0),
    0,
  );

async function writerHere(hold) {
  const stopping = new AbortController();
  const writing = writeUntil(await hold.session("writer"), () => stopping.signal.aborted);
  return {
    stop: () => {
      stopping.abort();
      return writing;
    },
  };
}

async function writerApart(_hold, path) {
  const child = spawn(process.execPath, [fileURLToPath(import.meta.url), path], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text) => (said += text));
  while (!said.startsWith("ready\n")) await sleep(10);
  return {
    stop: async () => {
      child.stdin.end();
      await new Promise((resolve) => child.once("close", resolve));
      return JSON.parse(said.slice("ready\n".length));
    },
  };
}

/** Saves of two messages of 1 KB, a millisecond after each other. */
async function writeUntil(session, isOver) {
  const samples = [];
  while (!isOver()) {
    const messages = step();
    const start = now();
    session.append(...messages);
    await session.checkpoint();
    samples.push({ start, end: now() });
    await sleep(1);
  }
  await session.close();
  return samples;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const hold = await open(process.argv[2]);
  const session = await hold.session("writer");
  let over = false;
  process.stdin.resume().once("end", () => {
    over = true;
  });
  for (let i = 0; i < 300; i++) {
    session.append(...step());
    await session.checkpoint();
  }
  console.log("ready");
  const samples = await writeUntil(session, () => over);
  console.log(JSON.stringify(samples));
  await hold.close();
}
