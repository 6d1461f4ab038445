/** Decide about a call that waits or is in doubt: approve, deny or settle it. It needs no lease. */
import type { Effect } from "../../core/effects/effect.js";
import { checkText, MAX_REASON } from "../../core/journal/checkpoint.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, type SessionId } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import { inboxOf, requireCapability } from "../../store/capabilities.js";
import {
  type Decision,
  type DecisionMessage,
  decisionId,
  decisionIn,
  inWords,
  isSame,
  isStillAsked,
  lateDecision,
  lateId,
  standing,
} from "../calls/decisions.js";
import type { StoreContext } from "../journal/store-context.js";
import { inboxDocOf, type Settlement } from "../records/rows.js";
import { invalid, options } from "../util/validate.js";
import { cancelSession, takeIn } from "./deliver-inbox.js";
import { type DecidableCall, findCall, requireCall } from "./find-call.js";

interface DecidedBy {
  /** Who decided. Kept in the journal. */
  readonly by?: string;
}

/** What a person says with an approval. */
export interface ApproveOptions extends DecidedBy {
  /** Another input than the model gave. */
  readonly input?: Json;
  readonly note?: string;
}

/** What a person says with a denial. */
export interface DenyOptions extends DecidedBy {
  /** Why not: the model is told. */
  readonly reason: string;
}

/** What became of a call: its output, its error, or that it did not happen and is made again. */
export type SettleOptions = Settlement & DecidedBy;

export async function approveCall(
  ctx: StoreContext,
  id: string,
  o: ApproveOptions | undefined,
): Promise<void> {
  requireCapability(ctx.store, "inbox", "hold.effects.approve");
  const { by, input, note } = options(o, "effects.approve", ["by", "input", "note"]);
  const call = await requireCall(
    ctx,
    id,
    ["waiting"],
    (effect) => effect.waits?.for === "approval" || effect.waits?.for === "repeat",
  );
  await decide(ctx, call, {
    kind: "approve",
    ...about(call),
    ...who(by),
    ...(note !== undefined && { note: checkText(note, "note", MAX_REASON) }),
    ...(input !== undefined && { input: redactedInput(ctx, input, call.effect.name) }),
  });
}

function redactedInput({ redactor }: StoreContext, input: Json, name: string): Json {
  const { value } = encode(input, "input");
  return redactor?.json(value, { in: "tool-input", name }) ?? value;
}

export async function denyCall(ctx: StoreContext, id: string, o: DenyOptions): Promise<void> {
  requireCapability(ctx.store, "inbox", "hold.effects.deny");
  const { by, reason } = options(o, "effects.deny", ["by", "reason"]);
  const why = checkText(reason, "reason", MAX_REASON);
  const call = await requireCall(ctx, id, ["waiting"]);
  await decide(ctx, call, { kind: "deny", ...about(call), ...who(by), reason: why });
  await leaveChild(ctx, call.effect, why);
}

export async function settleCall(ctx: StoreContext, id: string, o: SettleOptions): Promise<void> {
  requireCapability(ctx.store, "inbox", "hold.effects.settle");
  const given = options(
    o as { output?: Json; error?: string; retry?: true; by?: string },
    "effects.settle",
    ["output", "error", "retry", "by"],
  );
  const said = (["output", "error", "retry"] as const).filter((name) => given[name] !== undefined);
  if (said.length !== 1)
    throw invalid("effects.settle", "say one of output, error and retry: true");
  const as: Settlement =
    given.output !== undefined
      ? { output: encode(given.output, "output").value }
      : given.error !== undefined
        ? { error: checkText(given.error, "error", MAX_REASON) }
        : { retry: true };
  if ("retry" in as && given.retry !== true) throw invalid("retry", "it must be true");
  const call = await requireCall(ctx, id, ["waiting", "doubt"]);
  await decide(ctx, call, { kind: "settle", ...about(call), ...who(given.by), as });
  if (!("retry" in as)) await leaveChild(ctx, call.effect, "The call that ran it was settled.");
}

/**
 * A call that is over runs its child no more. The child is cancelled, so that its own calls are not
 * asked about.
 */
async function leaveChild(ctx: StoreContext, { id, waits }: Effect, reason: string): Promise<void> {
  if (waits?.for !== "child") return;
  const now = (await findCall(ctx, id))?.effect;
  // Woken in the meantime, it goes on with its child.
  if (now !== undefined && now.phase !== "done") return;
  await cancelSession(ctx, waits.session as SessionId, reason).catch((error: unknown) => {
    if (!(error instanceof HoldfastError) || error.code !== "NOT_FOUND") throw error;
  });
}

/**
 * Post a decision, and find out whether it stands. The first inbox message about this time that the
 * call waits, or is in doubt, stands; another one that says the same resolves too, and one that
 * says something else is a CONFLICT. If another process holds the session, its next look takes the
 * inbox message in.
 */
async function decide(
  ctx: StoreContext,
  { session, effect, stands: before }: DecidableCall,
  doc: DecisionMessage,
): Promise<void> {
  const said = decisionIn((ctx.redactor?.inboxMessages(doc) as DecisionMessage | undefined) ?? doc);
  if (before !== undefined && isSame(before, said, effect)) return;
  if (before !== undefined) throw alreadyDecided(effect, session, before);
  for (let again = 0; ; again++) {
    const id = decisionId(effect.id, doc.asked, again);
    const isOurs = (await ctx.tryPost(session, doc, { id })) !== "conflict";
    await takeIn(ctx, session);
    const inInbox = await decisionInInbox(ctx, session, effect, id);
    const found = inInbox === undefined ? await standing(ctx, effect.id, doc.asked) : undefined;
    if (found?.isThisTime && isOurs) return;
    const stands = inInbox ?? found?.decision;
    if (stands !== undefined && isSame(stands, said, effect)) return;
    // The inbox message was taken in while the session was on another branch, and decided nothing:
    // it is posted anew.
    const isOpen =
      !inInbox &&
      !found?.isThisTime &&
      isStillAsked((await findCall(ctx, effect.id))?.effect, doc.asked);
    if (!isOpen) throw alreadyDecided(effect, session, stands);
  }
}

/**
 * The decision that will stand once the inbox message of this id is taken in; undefined if it does
 * not wait any more.
 */
async function decisionInInbox(
  { store }: StoreContext,
  session: SessionId,
  { id: effect, attempt }: Effect,
  id: string,
): Promise<Decision | undefined> {
  const ids = [id, lateId(effect, attempt?.no ?? 1)];
  const inboxMessages = (await inboxOf(store).list(session, { ids })).map((inboxMessage) => ({
    ...inboxMessage,
    doc: inboxDocOf(inboxMessage.text, session),
  }));
  if (!inboxMessages.some((inboxMessage) => inboxMessage.id === id)) return undefined;
  // What the call itself has answered counts if it came first.
  const [first] = inboxMessages.filter(({ doc }) => doc.kind !== "late" || "output" in doc.as);
  return first?.doc.kind === "late"
    ? lateDecision(first.doc.as)
    : decisionIn(first?.doc as DecisionMessage);
}

/** Which call it is about, and which time that waits or is in doubt. */
const about = ({ effect: { id, asked = 0 } }: DecidableCall) => ({ effectId: id, asked });

const who = (by: unknown): { readonly by?: string } =>
  by === undefined ? {} : { by: checkName(by, "by") };

function alreadyDecided(
  { id, name }: Effect,
  session: SessionId,
  stands: Decision | undefined,
): HoldfastError {
  const says =
    stands === undefined
      ? "no longer waits for this: it has gone on"
      : `was already ${inWords(stands)}`;
  return new HoldfastError(
    "CONFLICT",
    `The call ${quote(id)} of ${quote(name)} ${says}. This decision does not count.`,
    {
      sessionId: session,
      effectId: id,
      ...(stands !== undefined && { decision: stands.is }),
      ...(stands?.by !== undefined && { decidedBy: stands.by }),
    },
  );
}
