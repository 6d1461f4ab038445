/**
 * Runs an agent over sessions until it is killed, or nothing is left to do. What the store has acknowledged is said at once. At one
 * point of those it is told it says so, and stands still.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { baseTuning } from "../../dist/core/fold.js";
import { agent } from "../../dist/index.js";
import { openStore } from "../../dist/open.js";
import { Holdfast } from "../../dist/runtime/holdfast.js";
import { thisMachine } from "../../dist/store/machine.js";
import { forgetful, stripped } from "./agent-broken.mjs";
import { Ledger } from "./agent-ledger.mjs";
import { fail, Points } from "./agent-points.mjs";
import { replyTo, scriptOf, TOOLS } from "./agent-script.mjs";
import { Tools } from "./agent-tools.mjs";
import { random } from "./random.mjs";
import { hear, say } from "./said.mjs";

say({ ready: true });
// Bases come every few saves, as they do in long histories.
baseTuning.slackBytes = 500;

const order = hear();
const { address, run, seed, sessions, stopAt, broken, leaseMs = 30_000, timeoutMs, checkpoint } = order;
const rng = random(seed * 13 + run);
const ledger = new Ledger(order.ledger);
const scripts = new Map(sessions.map((id) => [id, order.scripts?.[id] ?? scriptOf(seed, id)]));

const points = new Points(stopAt);
process.on("unhandledRejection", fail);

const BREAKS = {
  "forgets-intents": (store) => forgetful(store, "intent"),
  "forgets-outcomes": (store) => forgetful(store, "done"),
  "strips-outcomes": stripped,
};

// ---- tools

const world = new Tools({ ledger, points, rng, run, declared: TOOLS, broken });
const tools = Object.fromEntries(
  Object.entries(TOOLS).map(([name, { checked, ...declared }]) => [
    name,
    {
      retry: { attempts: name === "refund" ? 3 : 1, backoffMs: 1 },
      ...declared,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(checked && { check: (request) => world.check(request) }),
      ...(name === "charge" && { toModel: ({ receipt }) => `charged ${receipt}` }),
      run: (args, context) => world.act(name, args, context),
    },
  ]),
);

// ---- runs

const sound = await openStore(address);
const store = points.around(BREAKS[broken]?.(sound) ?? sound);
const hold = new Holdfast(store, thisMachine(), { now: Date.now }, leaseMs);
const bound = hold.agent(
  agent({
    name: "clerk",
    tools,
    ...(checkpoint !== undefined && { checkpoint }),
    async model({ messages }) {
      await world.aMoment();
      return replyTo(scripts.get(messages[0].content.split(":")[0]), messages);
    },
  }),
);
say({ opened: process.pid });

/** The turn that a session is at goes on, then come those that it has not begun. */
async function goOn(id) {
  const turns = scripts.get(id);
  const begun = await bound.resume(id).catch((error) => {
    if (error.code === "NOT_FOUND" || error.code === "BAD_STATUS") return undefined;
    throw error;
  });
  let result = begun;
  for (let turn = begun === undefined ? 0 : Number(begun.turnId) + 1; turn < turns.length; turn++) {
    if (result !== undefined && result.status !== "completed") break;
    result = await bound.run(id, turns[turn].input, { key: String(turn) });
  }
  const { status, pending = [], error, reason } = result;
  return { session: id, status, error, reason, pending: pending.map(({ effectId, status: is }) => ({ effectId, is })) };
}

async function round() {
  const left = [...sessions];
  const ends = [];
  const lane = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) ends.push(await goOn(id));
  };
  await Promise.all([lane(), lane(), lane()]);
  // What a superseded holder tells the next one is on its way, and waiting for orders stops everything.
  if (ends.some(({ status }) => status === "stopped")) await sleep(100);
  return ends;
}

try {
  for (;;) {
    say({ idle: await round() });
    if (hear().end) break;
  }
  await hold.close();
  say({ closed: true });
  process.exit(0);
} catch (error) {
  fail(error);
}
