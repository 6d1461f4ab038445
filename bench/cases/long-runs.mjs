/**
 * What does not grow with the length of a run: the cost of a save, disk for each message, and a
 * fork.
 */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { bareTable, fileBytes, fill, median, now, step } from "../measure.mjs";

/** Forks that are made before any is measured. */
const WARM = 200;

export async function longRuns({ directory, rounds, steps }) {
  const runs = [];
  for (const length of steps) {
    const path = join(directory, `run-${length}.db`);
    const hold = await open(path);
    const session = await hold.session("bench");
    const raw = await fill(session, length);
    runs.push({ length, path, raw, hold, session, saves: [] });
  }
  // In turns, so that the machine's moods fall on all of them alike.
  for (let i = 0; i < rounds; i++) {
    for (const run of runs) {
      const messages = step();
      run.raw += Buffer.byteLength(JSON.stringify(messages)) - 3;
      const start = now();
      run.session.append(...messages);
      await run.session.checkpoint();
      run.saves.push(now() - start);
    }
  }
  const [first, ...later] = runs;
  const results = later.map(({ length, saves }) => ({
    name: `save at step ${length} / at step ${first.length}`,
    value: median(saves) / median(first.saves),
    floor: 1.1,
    aim: 1.0,
    note: `${median(saves).toFixed(0)} / ${median(first.saves).toFixed(0)} µs`,
  }));

  results.push(await forks(runs.at(-1), directory, Math.min(rounds, 1000)));
  for (const { hold } of runs) await hold.close();
  for (const { length, path, raw } of runs.filter(({ length }) => length >= 1000)) {
    if (length === 10_000) continue;
    results.push({
      name: `disk / raw JSON at ${length} steps`,
      value: fileBytes(path) / raw,
      floor: 1.4,
      aim: 1.3,
      note: `${(fileBytes(path) / 1e6).toFixed(1)} / ${(raw / 1e6).toFixed(1)} MB`,
    });
  }
  return results;
}

/** A fork of the longest run and its first save, against a bare insert. */
async function forks({ session, length }, directory, rounds) {
  const bare = bareTable(join(directory, "bare-fork.db"));
  const ours = [];
  const theirs = [];
  for (let i = -WARM; i < rounds; i++) {
    const messages = step();
    const raw = JSON.stringify(messages);
    let start = now();
    bare.insert(raw);
    const bareUs = now() - start;
    start = now();
    const fork = await session.fork(session.head.id, { id: `fork-${i}` });
    fork.append(...messages);
    await fork.checkpoint();
    const forkUs = now() - start;
    await fork.close();
    if (i < 0) continue;
    theirs.push(bareUs);
    ours.push(forkUs);
  }
  bare.close();
  return {
    name: `fork and first save at ${length} steps / bare insert`,
    value: median(ours) / median(theirs),
    floor: 3,
    aim: 2.2,
    note: `${median(ours).toFixed(0)} / ${median(theirs).toFixed(0)} µs`,
  };
}
