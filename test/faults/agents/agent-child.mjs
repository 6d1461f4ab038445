/**
 * Runs an agent over sessions until it is killed, or nothing is left to do. At one point of those
 * it is told it says so, and stands still.
 */
import { say } from "../../support/children/said.mjs";
import { forgetful, stripped } from "./agent-broken.mjs";
import { begin, opened, rounds } from "./agent-process.mjs";
import { replyTo, TOOLS } from "./agent-script.mjs";

const child = begin(TOOLS);
const { order, tools: world } = child;
const { scripts, broken, timeoutMs, checkpoint } = order;

const BREAKS = {
  "forgets-intents": (store) => forgetful(store, "intent"),
  "forgets-outcomes": (store) => forgetful(store, "done"),
  "strips-outcomes": stripped,
};

const tools = Object.fromEntries(
  Object.entries(TOOLS).map(([name, { checked, ...declared }]) => [
    name,
    {
      retry: { attempts: name === "refund" ? 3 : 1, backoffMs: 1 },
      ...declared,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(checked && { check: (request) => world.check(request) }),
      ...(name === "charge" && { toModel: ({ receipt }) => `charged ${receipt}` }),
      run: (input, context) => world.act(name, input, context),
    },
  ]),
);

const hold = await opened(child, BREAKS[broken]);
const bound = hold.agent({
  name: "clerk",
  tools,
  ...(checkpoint !== undefined && { checkpoint }),
  async model({ messages }) {
    await world.aMoment();
    return replyTo(scripts[messages[0].content.split(":")[0]], messages);
  },
});
say({ opened: process.pid });

/** The turn that a session is at goes on, then come those that it has not begun. */
async function goOn(id) {
  const turns = scripts[id];
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
  return {
    status,
    error,
    reason,
    pending: pending.map(({ effectId, status: is }) => ({ effectId, is })),
  };
}

await rounds(child, hold, goOn);
