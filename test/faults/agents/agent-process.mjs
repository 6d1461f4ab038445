/**
 * What the children of the campaigns have in common: they are told what to do, open the store, and
 * run sessions until nothing is left.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { baseTuning } from "../../../dist/core/journal/session-state.js";
import { leaseOf } from "../../../dist/engine/records/rows.js";
import { Holdfast } from "../../../dist/holdfast.js";
import { openStore } from "../../../dist/open.js";
import { thisMachine } from "../../../dist/store/machine.js";
import { hear, say } from "../../support/children/said.mjs";
import { random } from "../../support/random.mjs";
import { Ledger } from "./agent-ledger.mjs";
import { fail, Points } from "./agent-points.mjs";
import { Tools } from "./agent-tools.mjs";

/** Waits for its orders. `declared`: the tools, and how they may be called. */
export function begin(declared) {
  say({ ready: true });
  // Bases come every few saves, as they do in long histories.
  baseTuning.slackBytes = 500;
  process.on("unhandledRejection", fail);
  const order = hear();
  const rng = random(order.seed * 13 + order.run);
  const points = new Points(order.stopAt);
  const tools = new Tools({ ...order, ledger: new Ledger(order.ledger), points, rng, declared });
  return { order, points, tools };
}

/** Opens the store, with the points around its commits. `broken`: what becomes of it first. */
export async function opened(child, broken = (store) => store) {
  const { address, leaseMs = 30_000 } = child.order;
  child.store = child.points.around(broken(await openStore(address)));
  return new Holdfast(child.store, thisMachine(), { now: Date.now }, leaseMs);
}

/** Until nothing is held here. */
async function letGo(store) {
  for (const until = performance.now() + 10_000; performance.now() < until; await sleep(5)) {
    const rows = await store.sessions({ limit: 1_000 });
    if (!rows.some((row) => leaseOf(row).owner?.pid === process.pid)) return;
  }
}

/**
 * Runs all sessions as far as they go, says how far that was, and begins again when it is told to.
 */
export async function rounds({ store, order: { sessions, ...order } }, hold, goOn) {
  const round = async (told) => {
    const left = [...sessions];
    const ends = [];
    const lane = async () => {
      for (let id = left.shift(); id !== undefined; id = left.shift())
        ends.push({ session: id, ...(await goOn(id, told)) });
    };
    await Promise.all([lane(), lane(), lane()]);
    // Waiting for orders stops everything: what a superseded holder tells the next one may be on
    // its way, and an aide of a call that was cut notes what became of its own.
    if (ends.some(({ status }) => status === "stopped")) await sleep(100);
    await letGo(store);
    return ends;
  };
  try {
    for (let told = order; !told.end; told = hear()) say({ idle: await round(told) });
    await hold.close();
    say({ closed: true });
    process.exit(0);
  } catch (error) {
    fail(error);
  }
}
