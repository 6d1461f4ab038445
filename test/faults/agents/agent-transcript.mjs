/**
 * Whether a session's transcript is the script's, word for word, and whether what the model was
 * told of each call is what happened.
 */
import { isDeepStrictEqual } from "node:util";
import { acts } from "./agent-script.mjs";

/**
 * Answers what is wrong, in words. `effects`: the session's calls as its journal has them;
 * `answered`: what is wrong with one answer. A turn that was `cut` ends where the next begins.
 */
export function transcriptFaults({ id, turns, messages, effects, answered }) {
  const wrong = [];
  let at = 0;
  let answers = 0;
  const next = (role) => {
    const message = messages[at++];
    if (message?.role !== role)
      wrong.push(
        `${id}: message ${at} should be of the ${role} and is ${JSON.stringify(message)?.slice(0, 200)}`,
      );
    return message;
  };
  for (const { input, replies, cut } of turns) {
    if (next("user")?.content !== input) wrong.push(`${id}: message ${at} is another input`);
    for (const calls of [...replies, []]) {
      if (cut && messages[at]?.role !== "assistant") break;
      const reply = next("assistant");
      if (wrong.length > 0) return wrong;
      if (calls.length === 0) {
        if (reply.content !== `${answers} answers`)
          wrong.push(
            `${id}: message ${at} should say ${answers} answers and says ${reply.content}`,
          );
        continue;
      }
      const asked = reply.content.map(({ callId, name, input }) => ({
        callId,
        name,
        input,
      }));
      if (!isDeepStrictEqual(asked, calls))
        wrong.push(`${id}: message ${at} asks for ${JSON.stringify(asked)}`);
      for (const [index, call] of calls.entries()) {
        const parts = next("tool")?.content ?? [];
        const own = effects.find((effect) => isDeepStrictEqual(effect.call, [reply.seq, index]));
        if (parts.length !== 1 || parts[0].callId !== call.callId)
          wrong.push(`${id}: message ${at} does not answer ${call.callId}`);
        else
          wrong.push(
            ...answered({ call, own, told: parts[0] }).map(
              (what) => `${call.name} ${call.callId} of ${id} ${what}`,
            ),
          );
        answers += 1;
      }
    }
  }
  if (at !== messages.length) wrong.push(`${id} has ${messages.length} messages instead of ${at}`);
  return wrong;
}

/**
 * Whether a call is answered with what happened. `declared`: the tools, and how they may be called.
 */
export function answerFaults({
  call,
  own,
  effects,
  told: { outcome, output },
  state,
  ledger,
  declared,
}) {
  if (!acts(declared[call.name]))
    return ledger.under(own.key).some(({ receipt }) => receipt === output.receipt)
      ? []
      : ["never said that"];
  // Without an intent of its own it was answered from another of the same name.
  const from = own ? [own] : effects.filter(({ named }) => named === `refund:${call.input.order}`);
  if (from.length === 0) return ["has neither an intent nor another to share"];
  const wrong = from.every(({ done }) => done !== undefined) ? [] : ["is answered and not over"];
  const receipts = from.flatMap(({ key }) => ledger.actUnder(key)?.receipt ?? []);
  if (outcome !== "ok") {
    if (own !== undefined && receipts.length > 0)
      wrong.push(`happened, and the model is told: ${JSON.stringify(output)}`);
    return wrong;
  }
  const receipt = call.name === "charge" ? output.replace("charged ", "") : output.receipt;
  if (!receipts.includes(receipt))
    wrong.push(
      `is answered with ${receipt}, and what happened is ${receipts.join(", ") || "nothing"}`,
    );
  if (call.input.pad && call.name !== "charge" && output.pad?.length !== call.input.pad)
    wrong.push("has lost its pad");
  // What a tool sets is kept together with its own answer; others who knew the answer have set
  // nothing.
  if (own !== undefined && own.done?.by === undefined && state[call.callId] !== receipt)
    wrong.push(`should have set ${receipt} and set ${state[call.callId]}`);
  return wrong;
}
