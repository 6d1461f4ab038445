/** Which replies may leave the transcript: those whose calls are over. */
import type { StateFold } from "../../core/journal/session-state.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";

/**
 * The numbers of replies in a stretch whose calls are over and have no tool message. A reply with a
 * call that is not over stays: without it nothing could answer the call, and the agent would wait
 * for it for ever.
 */
export function answeredReplies(
  fold: StateFold,
  session: SessionId,
  start: number,
  remove: number,
): readonly number[] {
  const { inFlight } = fold;
  if (inFlight.open.length + inFlight.doneCount === 0) return [];
  const replies: number[] = [];
  for (let i = start; i < start + remove; i++) {
    const seq = fold.messageAt(i)?.seq ?? 0;
    const calls = [...inFlight.ofReply(seq).values()];
    const open = calls.find(({ phase }) => phase !== "done");
    if (open !== undefined)
      throw new HoldfastError(
        "BAD_STATUS",
        `messages[${i}] of session ${quote(session)} asks for a call of ${quote(open.name)} (${open.id}) that is not over: it cannot be removed before. Let it finish, decide about it, or settle it.`,
        { sessionId: session, effectId: open.id },
      );
    if (calls.length > 0) replies.push(seq);
  }
  return replies;
}
