/**
 * What a desk is told, and what its model answers: calls that a person must approve, calls that
 * wait for signals, calls that run an aide in a session of its own. All from a seed. What a person
 * is to decide about a call, and what a call is to hear, stands in its input.
 */
import { random } from "../../support/random.mjs";

/**
 * How the tools of both are declared. `waits`: for these signals, one after the other. `runs`: the
 * aide first.
 */
export const DESK = {
  wire: { mode: "once", approval: true },
  debit: { mode: "keyed" },
  email: { mode: "once", checked: true },
  ship: { mode: "keyed", waits: ["shipped"] },
  pair: { mode: "keyed", waits: ["part", "part"] },
  listen: { mode: "repeatable", waits: ["news"] },
  delegate: { mode: "keyed", runs: true },
  consult: { mode: "repeatable", runs: true },
};
export const AIDE = { wire: DESK.wire, debit: DESK.debit, post: { mode: "once" } };
export const TOOLS = { ...DESK, ...AIDE };

const DECISIONS = { approve: 5, change: 3, deny: 2 };
const COURSES = { plain: 8, drop: 1, refuse: 1 };

/**
 * The turns of a session, and the signals it is to be given, in their order. Every turn crosses all
 * there is to cross; one that `isCut` asks for something that nobody will ever decide, so that it
 * cannot end before it is cancelled, and another comes after it, unless it `isLast`. `script`: the
 * turns and the signals, in place of those that the seed gives.
 */
export function deskScript(
  seed,
  session,
  { turns = 1, isCut = false, isLast = false, script } = {},
) {
  if (script !== undefined) return script;
  const rng = random(seed * 89 + Number(session.slice(1)) * 37 + 11);
  const signals = [];
  let replies = 0;
  const callOf = (id, name, more) => {
    const { waits = [], runs, approval } = TOOLS[name];
    const hears = waits.map((signal) => {
      const value = `${signal} ${signals.length} of ${session}`;
      signals.push({ name: signal, value });
      return value;
    });
    const inFlight = rng.weighted(COURSES);
    return {
      callId: id,
      name,
      input: {
        id: `${session}/${id}`,
        ...(approval && { amount: rng.whole(1, 900), decision: rng.weighted(DECISIONS) }),
        ...(hears.length > 0 && { hears }),
        ...(runs && { errand: errandOf(`${id}.`) }),
        ...(inFlight !== "plain" && { inFlight: [inFlight] }),
        ...more,
      },
    };
  };
  const reply = (names, more) => {
    const n = replies++;
    return names.map((name, i) => callOf(`${n}.${i}`, name, more));
  };
  const errandOf = (prefix) => {
    const errand = rng.pick([["post"], ["debit", "post"], ["wire"], ["wire", "debit"]]);
    const asked = errand.map((name, i) => callOf(`${prefix}${i}`, name));
    return rng.next() < 0.5 ? [asked] : asked.map((call) => [call]);
  };
  const crossing = () => {
    const steps = [
      [rng.pick(["ship", "pair", "listen"])],
      [rng.pick(["delegate", "delegate", "consult"])],
    ];
    steps.push(
      rng.pick([
        ["wire", "debit", "ship"],
        ["delegate", "ship", "email"],
        ["email", "wire", "listen"],
        ["wire", "wire"],
      ]),
    );
    // Of the first three sessions one is approved, one changed and one denied something, and of one
    // call nobody knows what became.
    const first = [
      { decision: "approve", inFlight: ["drop"] },
      { decision: "change" },
      { decision: "deny" },
    ][Number(session.slice(1))];
    return shuffled([...steps.map((names) => [names]), [["wire"], first]], rng).map(
      ([names, more]) => reply(names, more),
    );
  };
  const said = Array.from({ length: turns }, (_, t) => ({
    input: `${session}: turn ${t}`,
    replies: crossing(),
  }));
  if (!isCut) return { turns: said, signals };
  const last = { input: `${session}: turn ${turns}`, replies: [reply(["debit", "email"])] };
  const [cut] = said;
  // Its number is the last of all, and it comes somewhere before the end.
  const never = reply(["wire"], { decision: "never" });
  cut.replies.splice(rng.whole(1, cut.replies.length), 0, never);
  return { turns: [{ ...cut, cut: true }, ...(isLast ? [] : [last])], signals };
}

function shuffled(list, rng) {
  const left = [...list];
  return list.map(() => left.splice(rng.whole(0, left.length - 1), 1)[0]);
}

/** Which of a turn's replies comes next: the messages of the turn alone say so. */
export function replyIn(replies, messages) {
  const from = messages.findLastIndex(({ role }) => role === "user");
  const calls = replies[messages.slice(from).filter(({ role }) => role === "assistant").length];
  return calls === undefined
    ? { content: `${messages.filter(({ role }) => role === "tool").length} answers` }
    : { content: "", toolCalls: calls };
}

/** What a person approves in place of what was asked for. */
export const changed = (input) => ({ ...input, amount: input.amount + 1_000, asked: input.amount });
