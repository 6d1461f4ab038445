/**
 * Runs an agent over sessions until it is killed, or nothing is left to do. What the store has acknowledged is said at once, and numbered
 * together with the lines of the ledger, so that what came first is known. At one point of those it is told it says so, and stands still.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { baseTuning } from "../../dist/core/fold.js";
import { agent, NotDone } from "../../dist/index.js";
import { openStore } from "../../dist/open.js";
import { Holdfast } from "../../dist/runtime/holdfast.js";
import { thisMachine } from "../../dist/store/machine.js";
import { forgetful, stripped, wrapped } from "./agent-broken.mjs";
import { Ledger } from "./agent-ledger.mjs";
import { replyTo, scriptOf, TOOLS } from "./agent-script.mjs";
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

let count = 0;
const next = () => ++count;
process.on("unhandledRejection", fail);

function fail(error) {
  say({ fault: `${error.code ?? error.name}: ${error.message}\n${error.stack}` });
  process.exit(1);
}

// ---- points

const reached = new Map();

/** Stands still where it was told to, and nothing of this process moves, until it is killed or told to go on. */
function at(point) {
  const nth = (reached.get(point) ?? 0) + 1;
  reached.set(point, nth);
  if (stopAt?.point !== point || stopAt.nth !== nth) return;
  say({ at: point });
  while (!hear().go);
}

const POINTS = {
  intent: ["before-intent", "after-intent"],
  begun: ["before-begun", "after-begun"],
  done: ["after-tool", "after-outcome"],
  doubt: ["before-doubt", "after-doubt"],
};
const carried = (changes) =>
  Object.keys(POINTS).filter((is) => changes.some(({ saves = [] }) => saves.some(({ save }) => save.state?.includes(`"is":"${is}"`))));

/** The store, with the points around its commits. */
function watched(store) {
  return wrapped(store, {
    async apply(changes) {
      const what = carried(changes);
      for (const is of what) at(POINTS[is][0]);
      const applied = await store.apply(changes);
      const saves = changes.flatMap(({ session, saves = [] }) =>
        saves.map(({ save: { line, seq, check } }) => ({ session, line, seq, check })),
      );
      if (applied.ok && saves.length > 0) say({ saved: saves, n: next() });
      if (applied.ok) for (const is of what) at(POINTS[is][1]);
      return applied;
    },
  });
}

const BREAKS = {
  "forgets-intents": (store) => forgetful(store, "intent"),
  "forgets-outcomes": (store) => forgetful(store, "done"),
  "strips-outcomes": stripped,
};

// ---- tools

const aMoment = () => (rng.next() < 0.5 ? undefined : sleep(rng.between(0, 3)));

async function call(name, args, { key, callId, session, set }) {
  await aMoment();
  at("inside-tool-before-act");
  const before = ledger.under(key);
  const how = args.course?.[before.length] ?? "act";
  const line = { tool: name, key, args, session: session.id, callId, pid: process.pid, run };
  if (how === "refuse") {
    ledger.write({ ...line, n: next(), did: "nothing" });
    throw new NotDone("refused");
  }
  const known = TOOLS[name].mode === "keyed" ? before.find(({ did }) => did === "acted") : undefined;
  const receipt = known?.receipt ?? randomUUID();
  ledger.write({ ...line, n: next(), did: known === undefined ? "acted" : "deduped", receipt });
  at("inside-tool-after-act");
  await aMoment();
  // The broken tool takes every failure for one before the act.
  if (how === "drop") throw broken === "errors-as-outcomes" ? new NotDone("socket hang up") : new Error("socket hang up");
  set(callId, receipt);
  return { receipt, ...(args.pad && { pad: "p".repeat(args.pad) }) };
}

/** Looks whether it happened. The broken one always says that it did not. */
async function check(name, { key, args, holder }) {
  await aMoment();
  at("inside-check");
  const act = ledger.actUnder(key);
  if (broken === "check-says-retry") return { retry: true };
  if (act !== undefined) return { result: { receipt: act.receipt, ...(args.pad && { pad: "p".repeat(args.pad) }) } };
  return holder === "dead" ? { retry: true } : undefined;
}

const tools = Object.fromEntries(
  Object.entries(TOOLS).map(([name, { checked, ...declared }]) => [
    name,
    {
      retry: { attempts: name === "refund" ? 3 : 1, backoffMs: 1 },
      ...declared,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(checked && { check: (request) => check(name, request) }),
      ...(name === "charge" && { toModel: ({ receipt }) => `charged ${receipt}` }),
      run: (args, context) => call(name, args, context),
    },
  ]),
);

// ---- runs

const sound = await openStore(address);
const store = watched(BREAKS[broken]?.(sound) ?? sound);
const hold = new Holdfast(store, thisMachine(), { now: Date.now }, leaseMs);
const bound = hold.agent(
  agent({
    name: "clerk",
    tools,
    ...(checkpoint !== undefined && { checkpoint }),
    async model({ messages }) {
      await aMoment();
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
