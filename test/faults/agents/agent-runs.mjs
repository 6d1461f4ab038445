/**
 * Kills one child after another over a store, at named points and at random instants, until all is
 * done there, and looks each time at what they have left.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Holdfast } from "../../../dist/holdfast.js";
import { openStore } from "../../../dist/open.js";
import { thisMachine } from "../../../dist/store/machine.js";
import { start } from "../../support/children/child.mjs";
import { random } from "../../support/random.mjs";
import { sqliteFile } from "../kills/kill-campaign.mjs";
import { Ledger } from "./agent-ledger.mjs";

/**
 * Draws points in rounds, so that none is left out for long. A point that no child reached is put
 * back.
 */
class Draws {
  #points;
  #rng;
  #left = [];

  constructor(points, rng) {
    this.#points = points;
    this.#rng = rng;
  }

  next() {
    if (this.#left.length === 0)
      this.#left = Object.entries(this.#points).flatMap(([point, times]) =>
        Array.from({ length: times }, () => point),
      );
    return this.#left.splice(this.#rng.whole(0, this.#left.length - 1), 1)[0];
  }

  putBack(point) {
    this.#left.push(point);
  }
}

/** A store that is not done after so many children never will be. */
const MOST_RUNS = 400;

/**
 * `kills` kills, over as many stores as it takes. Answers how it went; stops at the first kill
 * after which something is wrong. `program` names the child and its points, and makes the world
 * that judges it. `broken` names what must be caught. Two points are none: `anywhere` kills it
 * wherever it happens to be, `idle` once it can do no more.
 */
export async function killRuns(program, { kills, seed, place = sqliteFile, broken, onProgress }) {
  return overStores({ kills, seed, place, program }, async (result, at, rng, spare) => {
    await oneStore({ kills, broken, rng, program, spare, result, onProgress }, at);
  });
}

/**
 * One store and a given script. Children are killed when they reach the points of `at` for the
 * first time, one point after the other; the next child works to the end. Nothing depends on time:
 * a fault shows in every run, or in none.
 */
export async function stage(program, { at, script, broken, place = sqliteFile }) {
  return overStores(
    { kills: at.length, seed: 1, place, program, plan: [...at] },
    async (result, where, rng, spare) => {
      await oneStore({ kills: at.length, broken, rng, program, spare, result, script }, where);
    },
  );
}

/**
 * Stores and their ledgers, one after the other, until there were enough kills or something is
 * wrong. `plan`: where to kill, in this order.
 */
export async function overStores({ kills, seed, place, program, plan }, work) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-agents-"));
  const rng = random(seed);
  // A generator of its own: how the children get on does not change where the next one is killed.
  const when = random(seed + 1);
  const began = performance.now();
  const result = {
    seed,
    kills: 0,
    stores: 0,
    runs: 0,
    points: {},
    ...program.counts,
    ms: 0,
    wrong: [],
  };
  // The next child starts while this one works: it waits, loaded, for its orders.
  let next = start(program.child);
  const spare = async () => {
    const child = next;
    next = start(program.child);
    await child.heard((line) => line.ready);
    return child;
  };
  const draws = new Draws(program.points, when);
  /** Where the next child is to be killed. */
  spare.point = () => {
    const point = plan === undefined ? draws.next() : plan.shift();
    if (point === "anywhere") return { point, afterMs: when.between(0, 70) };
    if (point === "idle") return { point };
    return { point, stopAt: { point, nth: plan === undefined ? when.whole(1, program.nth) : 1 } };
  };
  spare.putBack = (point) => {
    if (plan === undefined) draws.putBack(point);
  };
  try {
    do {
      const n = result.stores++;
      const path = join(directory, `${n}.ledger`);
      const ledger = new Ledger(path);
      try {
        await work(
          result,
          { ...place(directory, n), path, ledger, seed: (seed + n * 7919) % 2 ** 31 },
          rng,
          spare,
        );
      } finally {
        ledger.close();
      }
    } while (result.kills < kills && result.wrong.length === 0);
  } finally {
    await next.end();
    rmSync(directory, { recursive: true, force: true });
  }
  result.ms = performance.now() - began;
  return result;
}

async function oneStore(
  { kills, broken, rng, program, spare, result, script, onProgress },
  { address, settleMs = 0, path, ledger, seed },
) {
  const world = program.world({ ledger, seed, address, rng, broken, script });
  const before = { ...result };
  for (let run = 0, end; end !== "done" && result.wrong.length === 0; run++) {
    if (run === MOST_RUNS) world.wrong.push(`it is not done after ${run} children`);
    const child = await spare();
    const { point, afterMs, stopAt } = result.kills < kills ? spare.point() : {};
    child.tell({
      address,
      ledger: path,
      seed,
      run,
      broken,
      ...world.orders(),
      ...(stopAt && { stopAt }),
    });
    const moment = afterMs === undefined ? undefined : sleep(afterMs, "now");
    const outside = world.meanwhile?.(address);
    end = await outlive(child, { moment, point, address, world }).catch((error) => {
      world.wrong.push(error.message);
    });
    const isKilled = end === "stands" || end === "now";
    await child.end();
    await outside;
    if (isKilled && child.ended.signal !== "SIGKILL")
      world.wrong.push(`the child ended by itself: ${child.stderr}`);
    // What had reached a server when the child died may be done a moment later.
    if (settleMs > 0) await sleep(settleMs);
    world.hear(child.lines);
    await visit(address, async (there) => {
      await world.look(there.store);
      if (end === "done" && world.wrong.length === 0) await world.finish(there);
      else await world.between?.(there);
    });
    if (isKilled) {
      result.kills += 1;
      result.points[point] = (result.points[point] ?? 0) + 1;
    } else if (point !== undefined) spare.putBack(point);
    tally(result, before, world, point);
    onProgress?.(result);
  }
}

/** Adds what a world has counted and found. */
export function tally(result, before, world, where) {
  result.runs += 1;
  for (const [count, value] of Object.entries(world.counts)) result[count] = before[count] + value;
  for (const what of world.wrong)
    result.wrong.push(
      `kill ${result.kills} at ${where}, store ${result.stores - 1}, seed ${result.seed}: ${what}`,
    );
}

/**
 * Until the child stands at its point, its moment has come, or all is done. What it cannot go on
 * with is seen to meanwhile, by a person.
 */
async function outlive(child, { moment, point, address, world }) {
  for (let from = 0; ; from = child.lines.length) {
    const said = child.heard((line) => line.at ?? line.idle ?? line.fault, { from });
    // Whoever is killed first says nothing more.
    said.catch(() => {});
    const line = await (moment === undefined ? said : Promise.race([said, moment]));
    if (line === "now") return "now";
    if (line.at !== undefined) return "stands";
    if (line.fault !== undefined) return "failed";
    world.hear(child.lines);
    let isDone = false;
    await visit(address, async (there) => {
      await world.look(there.store);
      isDone = await world.idle(there, line.idle);
    });
    if (world.wrong.length > 0) return "failed";
    if (point === "idle" && !isDone) return "now";
    child.tell(isDone ? { end: true } : { go: true, ...world.orders() });
    if (!isDone) continue;
    await child.closed;
    return child.lines.at(-1).closed ? "done" : "failed";
  }
}

/** Opens the store for a moment, beside whoever works there. */
export async function visit(address, work) {
  const store = await openStore(address);
  const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
  try {
    await work({ store, hold });
  } finally {
    await hold.close();
  }
}
