/** Take in what others sent to a session. The holder does it between its steps. */
import type { Effect } from "../../core/effects/effect.js";
import { leavesOpen, mayFollow, openCalls } from "../../core/messages/append-position.js";
import type { MessageInput } from "../../core/messages/message.js";
import { isUnderWay } from "../../core/sessions/status.js";
import { HoldfastError } from "../../core/values/errors.js";
import { encode } from "../../core/values/json.js";
import { type OpenedMessage, turnsTakenBack } from "../journal/read-inbox.js";
import { cancel, finish, isOpen, restate, settle } from "./settle-calls.js";
import type { WorkingCopy } from "./working-copy.js";

interface Takes {
  /** Whether calls of the session may be under way here. */
  readonly isAtWork: boolean;
  /** Whether messages from outside may be appended now, as far as the holder is concerned. */
  readonly appends: boolean;
}

/**
 * Stages what inbox messages change, and what follows from it for the session's status. Answers
 * those that are taken in by that.
 */
export function takeIn(
  work: WorkingCopy,
  inboxMessages: readonly OpenedMessage[],
  takes: Takes,
): readonly OpenedMessage[] {
  const dropped = turnsTakenBack(inboxMessages);
  const taken = inboxMessages.filter(
    (inboxMessage) =>
      stage(work, inboxMessage, takes) ||
      (inboxMessage.doc.kind === "turn" && dropped.has(inboxMessage.doc.turn)),
  );
  if (taken.length > 0) restate(work);
  return taken;
}

/**
 * Answers whether the inbox message is done with. Turns wait until the one before is over, and are
 * begun by whoever runs the agent.
 */
function stage(
  work: WorkingCopy,
  { doc, appended }: OpenedMessage,
  { isAtWork, appends }: Takes,
): boolean {
  const { inFlight } = work.fold;
  switch (doc.kind) {
    case "turn":
    case "append-text":
    case "append-key":
      return false;
    case "append":
      return appends && appended !== undefined && stageAppended(work, appended.messages);
    case "cancel":
      if (doc.turn !== undefined && (doc.turn !== inFlight.turn?.id || !isOpen(work))) return true;
      if (isUnderWay(work.fold.status)) cancel(work, doc.reason ?? "cancelled");
      return true;
    case "approve": {
      const effect = inFlight.get(doc.effectId);
      if (effect?.phase !== "waiting" || effect.asked !== doc.asked) return true;
      work.inFlight(
        { effect: { id: effect.id, is: "approved", ...said(doc), asked: doc.asked } },
        doc.input === undefined ? undefined : encode(doc.input, "input"),
      );
      return true;
    }
    case "deny": {
      const effect = inFlight.get(doc.effectId);
      if (effect?.phase === "waiting" && effect.asked === doc.asked)
        finish(work, effect, { error: doc.reason }, "denied", doc);
      return true;
    }
    case "settle": {
      const effect = inFlight.get(doc.effectId);
      // That it happened stays true; that it did not, and may be made again, was said of one time.
      const counts = "output" in doc.as || effect?.asked === doc.asked;
      if (counts && (effect?.phase === "waiting" || effect?.phase === "doubt"))
        settle(work, effect, doc.as, doc);
      return true;
    }
    case "late": {
      const effect = inFlight.get(doc.effectId);
      if (effect?.phase !== "begun" && effect?.phase !== "doubt") return true;
      // What was done counts whenever it was. That nothing was done counts for the last attempt,
      // and only where none before it is open.
      const isOnly =
        effect.attempt?.no === doc.attempt && (doc.attempt === 1 || effect.mode === "once");
      const happened = "output" in doc.as || ("error" in doc.as && doc.as.happened === true);
      if (happened || isOnly) settle(work, effect, doc.as, { by: "late" });
      return true;
    }
    case "signal": {
      const waiting = inFlight.open.find(
        ({ waits }) => waits?.for === "signal" && waits.name === doc.name,
      );
      const value = encode(doc.value, "signal");
      if (waiting === undefined) work.inFlight({ signal: doc.name }, value);
      else
        work.inFlight(
          { effect: { id: waiting.id, is: "signalled", name: doc.name, ...nthOf(waiting) } },
          value,
        );
      return true;
    }
    case "wake": {
      // The call that runs the child is about to wait for it, perhaps: that would be slept over. It
      // stays until that is known. A call that nobody is at is run again from its beginning, and
      // looks at the child itself: an inbox message that stayed for it would stay for ever.
      const runner = inFlight.get(doc.child.slice(0, doc.child.indexOf("/")));
      if (
        isAtWork &&
        runner !== undefined &&
        (runner.phase === "begun" || runner.phase === "ready")
      )
        return false;
      for (const { id, waits } of inFlight.open)
        if (waits?.for === "child" && waits.session === doc.child)
          work.inFlight({ effect: { id, is: "woken" } });
      return true;
    }
  }
}

/**
 * Whether messages from outside may be looked at: where calls are open, only those that answer them
 * may come, and only by hand.
 */
export const mayAppend = (work: WorkingCopy): boolean =>
  isAnswerable(work) || openCalls(newestFirst(work)).size === 0;

/** No agent is at the session's calls: whoever has asked for them is somewhere else. */
const isAnswerable = (work: WorkingCopy): boolean =>
  !isOpen(work) && work.fold.inFlight.open.length + work.fold.inFlight.doneCount === 0;

/**
 * Whether messages may stand behind what is there. An agent at work would take calls that nobody
 * has answered for its own.
 */
const fits = (work: WorkingCopy, messages: readonly MessageInput[]): boolean => {
  const open = openCalls(newestFirst(work));
  if (open.size > 0 && !(isAnswerable(work) && mayFollow(open, messages))) return false;
  return !isOpen(work) || !leavesOpen(messages);
};

function* newestFirst({ fold }: WorkingCopy): Generator<MessageInput> {
  for (let i = fold.messageCount - 1; i >= 0; i--) yield fold.messageAt(i) as MessageInput;
}

/**
 * Whoever sent them has looked whether they can be stored. Where somebody was first with the same
 * id and other words, they are passed over: an inbox message that cannot be taken in must not keep
 * the session from being opened.
 */
function stageAppended(work: WorkingCopy, messages: readonly MessageInput[]): boolean {
  if (!fits(work, messages)) return false;
  const isFirst = work.isSaved;
  try {
    work.appendFromOutside(messages);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    // Together with what is staged already it may be too much: then it goes with the next save.
    return isFirst || error.code !== "TOO_LARGE";
  }
  return true;
}

const nthOf = ({ waits }: Effect) =>
  waits?.for === "signal" && waits.nth !== undefined ? { nth: waits.nth } : undefined;

const said = ({ by, note }: { readonly by?: string; readonly note?: string }) => ({
  ...(by !== undefined && { by }),
  ...(note !== undefined && { note }),
});
