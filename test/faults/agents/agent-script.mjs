/**
 * What the agents of a campaign are told, what their model answers, and how the world behaves at
 * each call: all from a seed, so that the process that is killed and the one that checks it know
 * the same. A reply depends on nothing but how many replies came before it.
 */
import { random } from "../../support/random.mjs";

/**
 * How each tool is declared. What it does at its n-th call is said in its input; nothing said
 * is: it acts.
 */
export const TOOLS = {
  lookup: { mode: "repeatable" },
  refund: { mode: "keyed", key: ({ order }) => `refund:${order}` },
  charge: { mode: "keyed", retry: { attempts: 3, backoffMs: 1 } },
  reserve: { mode: "keyed", checked: true, retry: { attempts: 2, backoffMs: 1 } },
  email: { mode: "once", checked: true, retry: { attempts: 2, backoffMs: 1 } },
  post: { mode: "once" },
};

export const acts = ({ mode }) => mode !== "repeatable";

const WEIGHTS = { lookup: 22, refund: 18, charge: 24, reserve: 12, email: 14, post: 10 };

/**
 * refuse: the tool throws NotDone, and nothing has happened. drop: it acts, and then its socket
 * dies. hang: it acts, and never answers. A call that was refused after one that was dropped is the
 * trap: that nothing happened the second time says nothing of the first.
 */
const COURSES = {
  plain: { weight: 60, of: undefined },
  dropped: { weight: 12, of: ["drop"] },
  refused: { weight: 10, of: ["refuse"] },
  given_up: { weight: 5, of: ["refuse", "refuse", "refuse", "refuse"] },
  silent: { weight: 5, of: ["drop", "drop", "drop", "drop"] },
  dropped_then_refused: { weight: 8, of: ["drop", "refuse", "refuse"] },
};
const IN_FLIGHT_WEIGHTS = Object.fromEntries(
  Object.entries(COURSES).map(([name, { weight }]) => [name, weight]),
);

/** Past the size from which bodies are kept as blobs. */
const BIG = 9_000;

export const sessionIds = (count) => Array.from({ length: count }, (_, i) => `s${i}`);

export function scriptOf(seed, session) {
  const rng = random(seed * 97 + Number(session.slice(1)) * 31 + 7);
  // A few orders for all refunds, so that the model asks for the same one again, also in the same
  // breath.
  const orders = Array.from({ length: 3 }, (_, i) => ({
    order: `${session}-${i}`,
    ...inFlightOf(rng),
  }));
  let replies = 0;
  const turns = Array.from({ length: rng.whole(1, 2) }, (_turn, t) => ({
    input: `${session}: turn ${t}`,
    replies: Array.from({ length: rng.whole(1, 4) }, () => {
      const reply = replies++;
      if (rng.next() < 0.15) return twice(`${session}-${reply}`, reply);
      return Array.from({ length: rng.whole(1, 4) }, (_call, i) =>
        callOf(rng, `${reply}.${i}`, orders),
      );
    }),
  }));
  return turns;
}

/** A model that stutters: one call is answered by the other. */
const twice = (order, reply) =>
  [0, 1].map((i) => ({ callId: `${reply}.${i}`, name: "refund", input: { order } }));

function callOf(rng, id, orders) {
  const name = rng.weighted(WEIGHTS);
  if (name === "refund") return { callId: id, name, input: rng.pick(orders) };
  // The id makes an input unlike any other: an agent that asks for the same again and again is
  // stopped.
  if (name === "lookup") return { callId: id, name, input: { id } };
  return {
    callId: id,
    name,
    input: { id, ...inFlightOf(rng), ...(rng.next() < 0.06 && { pad: BIG }) },
  };
}

function inFlightOf(rng) {
  const { of } = COURSES[rng.weighted(IN_FLIGHT_WEIGHTS)];
  return of === undefined ? {} : { inFlight: of };
}

/**
 * Every reply of a session, in order: those that ask for calls, and at the end of each turn one
 * that does not.
 */
const repliesOf = (turns) => turns.flatMap(({ replies }) => [...replies, []]);

/**
 * The model. Its last words in a turn say how many answers of tools it has seen, so that one too
 * few or too many is seen.
 */
export function replyTo(turns, messages) {
  const count = (role) => messages.filter((message) => message.role === role).length;
  const calls = repliesOf(turns)[count("assistant")];
  if (calls === undefined) throw new Error("the model was asked once too often");
  return calls.length > 0
    ? { content: "", toolCalls: calls }
    : { content: `${count("tool")} answers` };
}
