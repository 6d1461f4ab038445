/**
 * Kills an agent around its calls, at named points and at random instants, starts it again until all is done, and holds what it did against a
 * ledger of what happened.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openStore } from "../../dist/open.js";
import { Holdfast } from "../../dist/runtime/holdfast.js";
import { thisMachine } from "../../dist/store/machine.js";
import { Ledger } from "./agent-ledger.mjs";
import { sessionIds } from "./agent-script.mjs";
import { World } from "./agent-world.mjs";
import { start } from "./child.mjs";
import { sqliteFile } from "./kill-campaign.mjs";
import { random } from "./random.mjs";

/** Where a child stands still to be killed, and how often in a round. The last is no point: it is killed wherever it happens to be. */
const POINTS = {
  "before-intent": 2,
  "after-intent": 3,
  "inside-tool-before-act": 3,
  "inside-tool-after-act": 4,
  "after-tool": 4,
  "after-outcome": 3,
  "before-begun": 1,
  "after-begun": 1,
  "inside-check": 1,
  "before-doubt": 1,
  "after-doubt": 1,
  anywhere: 8,
};

/** Draws points in rounds, so that none is left out for long. */
function points(rng) {
  let left = [];
  return () => {
    if (left.length === 0) left = Object.entries(POINTS).flatMap(([point, times]) => Array.from({ length: times }, () => point));
    return left.splice(rng.whole(0, left.length - 1), 1)[0];
  };
}

const STRATEGIES = [undefined, "never", "after-model", "before-step"];
const SESSIONS = 5;
/** A store that is not done after so many children never will be. */
const MOST_RUNS = 400;

/**
 * `kills` kills, over as many stores as it takes: each is worked on by one child after another until all its sessions are done. Answers how it
 * went; stops at the first kill after which something is wrong. `broken` names a child that must be caught.
 */
export async function agentCampaign({ kills, seed, place = sqliteFile, broken, onProgress }) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-agents-"));
  const rng = random(seed);
  const began = performance.now();
  const counts = { acknowledged: 0, calls: 0, acts: 0, deduped: 0, checked: 0, settled: 0 };
  const result = { seed, kills: 0, stores: 0, runs: 0, points: {}, ...counts, ms: 0, wrong: [] };
  // The next child starts while this one works: it waits, loaded, for its orders.
  const campaign = { kills, broken, rng, nextPoint: points(rng), next: start("agent-child.mjs"), result, onProgress };
  try {
    while (result.kills < kills && result.wrong.length === 0) {
      const n = result.stores++;
      await oneStore(campaign, { ...place(directory, n), path: join(directory, `${n}.ledger`), seed: (seed + n * 7919) % 2 ** 31 });
    }
  } finally {
    await campaign.next.end();
    rmSync(directory, { recursive: true, force: true });
  }
  result.ms = performance.now() - began;
  return result;
}

async function oneStore(campaign, { address, settleMs = 0, path, seed }) {
  const { kills, broken, rng, nextPoint, result, onProgress } = campaign;
  const ledger = new Ledger(path);
  const sessions = sessionIds(SESSIONS);
  const world = new World({ ledger, seed, sessions });
  const before = { ...result };
  try {
    for (let run = 0, end; end !== "done" && result.wrong.length === 0; run++) {
      if (run === MOST_RUNS) world.wrong.push(`it is not done after ${run} children`);
      const child = campaign.next;
      campaign.next = start("agent-child.mjs");
      await child.heard((line) => line.ready);
      const point = result.kills < kills ? nextPoint() : undefined;
      const stopAt = point === undefined || point === "anywhere" ? {} : { stopAt: { point, nth: rng.whole(1, 4) } };
      child.tell({ address, ledger: path, seed, run, sessions, checkpoint: STRATEGIES[seed % STRATEGIES.length], broken, ...stopAt });
      const instant = point === "anywhere" ? sleep(rng.between(0, 70), "now") : undefined;
      end = await outlive(child, { instant, address, world, run, rng }).catch((error) => {
        world.wrong.push(error.message);
      });
      const isKilled = end === "stands" || end === "now";
      await child.end();
      if (isKilled && child.ended.signal !== "SIGKILL") world.wrong.push(`the child ended by itself: ${child.stderr}`);
      // What had reached a server when the child died may be done a moment later.
      if (settleMs > 0) await sleep(settleMs);
      world.hear(child.lines);
      await visit(address, async (store, hold) => {
        await world.look(store, run);
        if (end === "done" && world.wrong.length === 0) await world.finish(hold, store);
      });
      result.runs += 1;
      if (isKilled) {
        result.kills += 1;
        result.points[point] = (result.points[point] ?? 0) + 1;
      }
      for (const [count, value] of Object.entries(world.counts)) result[count] = before[count] + value;
      for (const what of world.wrong)
        result.wrong.push(`kill ${result.kills} at ${point}, store ${result.stores - 1}, seed ${result.seed}: ${what}`);
      onProgress?.(result);
    }
  } finally {
    ledger.close();
  }
}

/** Until the child stands at its point, its instant has come, or all is done. What it cannot go on with is settled meanwhile, by a person. */
async function outlive(child, { instant, address, world, run, rng }) {
  for (let from = 0; ; from = child.lines.length) {
    const said = child.heard((line) => line.at ?? line.idle ?? line.fault, { from });
    // Whoever is killed first says nothing more.
    said.catch(() => {});
    const line = await (instant === undefined ? said : Promise.race([said, instant]));
    if (line === "now") return "now";
    if (line.at !== undefined) return "stands";
    if (line.fault !== undefined) return "failed";
    world.hear(child.lines);
    let isDone = false;
    await visit(address, async (store) => {
      await world.look(store, run);
      isDone = await world.settleAll(store, line.idle, rng);
    });
    if (world.wrong.length > 0) return "failed";
    child.tell(isDone ? { end: true } : { go: true });
    if (!isDone) continue;
    await child.closed;
    return child.lines.at(-1).closed ? "done" : "failed";
  }
}

async function visit(address, work) {
  const store = await openStore(address);
  const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
  try {
    await work(store, hold);
  } finally {
    await hold.close();
  }
}
