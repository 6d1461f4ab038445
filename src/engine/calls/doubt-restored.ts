/**
 * Sessions that came with a copy: of a store that was restored from a backup, or brought in from
 * another one. The original may have gone on with them. Calls that are open here may have been made
 * there, and others besides, of which nobody here can know.
 *
 * DOUBT-1  what was under way in the copy is in doubt once it is opened, and nothing of it goes on
 *          before somebody has said that it may. That is one save, made once, whoever opens it and
 *          is killed meanwhile.
 * DOUBT-2  what was completed or cancelled opens as it is, and so does a turn that is begun here.
 *          What failed or was halted opens as it is, too, but whoever goes on with it, or acts by
 *          hand, is asked first. A turn that waited in the inbox is begun, and then in doubt.
 * DOUBT-3  calls that were begun and may not be made twice are in doubt themselves. Those under a
 *          key that keeps are not: in either store they are made under the same one.
 */
import { randomUUID } from "node:crypto";
import { acts, type Effect, isUnknownInCopy, valueDigest } from "../../core/effects/effect.js";
import { isUnderWay } from "../../core/sessions/status.js";
import { encode, type JsonObject } from "../../core/values/json.js";
import { TURN_MESSAGES } from "../../store/port/inbox.js";
import type { StoreContext } from "../journal/store-context.js";
import { keyOf } from "../records/append-messages.js";
import type { HeldSession } from "../session/held-session.js";
import { restate } from "../session/settle-calls.js";
import type { WorkingCopy } from "../session/working-copy.js";

/**
 * What stands in the head of a session that came from another store: no generation of any has this
 * name.
 */
export const IMPORTED = "(imported)";
const RESTORED = "(restored)";

/** DOUBT-1: called by whoever opens a session, before anything else is done with it. */
export async function leaveToSomebody(held: HeldSession): Promise<void> {
  const { fold, isOfBefore } = held.work;
  // One that is being cancelled does not go on; and where nothing was ever saved, nothing is under
  // way.
  if (
    isOfBefore &&
    isUnderWay(fold.status) &&
    !fold.isCancelling &&
    fold.seq > 0 &&
    !isOnlyKept(held.work)
  )
    await doubt(held);
}

/**
 * Brought in, with neither a turn nor a call that is open: a transcript that somebody keeps by
 * hand. It is asked about once it acts.
 */
const isOnlyKept = ({ head, fold: { inFlight } }: WorkingCopy): boolean =>
  head.generation === IMPORTED && inFlight.turn === undefined && !inFlight.open.some(acts);

/**
 * DOUBT-2: for whoever is about to go on with the last turn, or to act by hand. Answers what it waits
 * for, if it does.
 */
export async function standstillOf(
  held: HeldSession,
  to: "go on" | "act",
): Promise<Effect | undefined> {
  const { isOfBefore, fold } = held.work;
  const isNew = to === "act" && (fold.status === "completed" || fold.status === "cancelled");
  if (isOfBefore && fold.seq > 0 && !isNew) await doubt(held);
  return fold.inFlight.standstill;
}

async function doubt(held: HeldSession): Promise<void> {
  const { work } = held;
  const { status, reason } = work.fold;
  const isImported = work.head.generation === IMPORTED;
  if (!isUnderWay(status) || work.fold.isCancelling) work.event("work");
  for (const effect of work.fold.inFlight.open)
    if (isUnknownInCopy(effect))
      work.inFlight({
        effect: { id: effect.id, is: "doubt", ...(effect.phase === "begun" && { inside: true }) },
      });
  stop(work, isImported ? IMPORTED : RESTORED, {
    says: isImported
      ? "This session was brought in from another store, and may go on there. Look there, and where its calls act, before it goes on here."
      : "The store was put back from a copy, and the original may have gone on with this session. Look where its calls act before it goes on here.",
    was: status,
    ...(reason !== undefined && { reason }),
  });
  work.joins();
  restate(work);
  await held.commit();
}

/** DOUBT-2: stages that a turn, which is begun with the same save, waited when the copy was made. */
export function doubtTurn(work: WorkingCopy, turn: string): void {
  stop(work, RESTORED, {
    says: "This turn waited when the store was copied, and the original may have run it since. Look there, and where its calls act, before it goes on here.",
    turn,
  });
  restate(work);
}

/**
 * Not a call of any tool, and so nothing that a model or a loop sees; but listed, and settled, like
 * one.
 */
function stop(work: WorkingCopy, name: string, input: JsonObject): void {
  if (work.fold.inFlight.standstill !== undefined) return;
  const id = work.newEffectId();
  work.inFlight(
    {
      effect: {
        id,
        is: "intent",
        name,
        mode: "once",
        key: randomUUID(),
        inputDigest: valueDigest(input),
        whole: true,
      },
    },
    encode(input, "input"),
  );
  work.inFlight({ effect: { id, is: "doubt" } });
}

/**
 * The id that the inbox message of a turn is posted under: it says in which generation of the store
 * that was.
 */
export async function turnMessageId(ctx: StoreContext, turn: string): Promise<string> {
  return `${inboxDocOf(await ctx.learnGeneration())}${keyOf(turn)}`;
}

/** Whether the inbox message of a turn was there when the store was copied. */
export const isMessageOfBefore = ({ generation }: StoreContext, id: string): boolean =>
  !id.startsWith(inboxDocOf(generation));

const inboxDocOf = (generation: string): string =>
  generation === "" ? TURN_MESSAGES : `${TURN_MESSAGES}${generation}:`;
