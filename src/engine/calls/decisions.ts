/**
 * Which decision about a call stands.
 *
 * A call may wait, or be in doubt, several times, and each time is one decision. All inbox messages
 * that decide it have one id, so the store says who was first, also among processes. The event that
 * a inbox message becomes says which time it decided (`asked`), so that everyone finds it again.
 */

import { branchOfEffect, type Effect, type EffectEvent } from "../../core/effects/effect.js";
import { bodyIn } from "../../core/effects/in-flight.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { type ErrorDetails, quote } from "../../core/values/errors.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import { type Json, sortedText } from "../../core/values/json.js";
import type { StoreContext } from "../journal/store-context.js";
import type { InboxDoc, Settlement } from "../records/rows.js";
import { valueOf } from "./bodies.js";

/** The inbox messages that decide about a call. */
export type DecisionMessage = Extract<InboxDoc, { kind: "approve" | "deny" | "settle" }>;

export interface Decision {
  readonly is: NonNullable<ErrorDetails["decision"]>;
  readonly by?: string | undefined;
  /** Another input, the reason, the output or the error. */
  readonly body?: Json | undefined;
  /** False: no inbox message said it, but the call itself, or its `check`. */
  readonly isSaid: boolean;
}

export const decisionId = (effect: string, asked: number, again: number): string =>
  `decide:${effect}:${asked}${again === 0 ? "" : `:${again}`}`;

/** The id of the inbox message in which an attempt says, too late, what became of it. */
export const lateId = (effect: string, attempt: number): string => `late:${effect}:${attempt}`;

export function decisionIn(doc: DecisionMessage): Decision {
  const { by } = doc;
  if (doc.kind === "approve") return { is: "approved", by, body: doc.input, isSaid: true };
  if (doc.kind === "deny") return { is: "denied", by, body: doc.reason, isSaid: true };
  return { by, ...settled(doc.as), isSaid: true };
}

/** What a call has answered by itself. */
export const lateDecision = (as: Settlement): Decision => ({ ...settled(as), isSaid: false });

function settled(as: Settlement): Pick<Decision, "is" | "body"> {
  if ("output" in as) return { is: "output", body: as.output };
  return "error" in as ? { is: "error", body: as.error } : { is: "retry" };
}

/**
 * Whether a decision says what stands. Who said it does not matter. A session as a whole that may
 * go on has an output, and no retry.
 */
export function isSame(
  stands: Decision,
  said: Decision,
  { whole }: Pick<Effect, "whole">,
): boolean {
  if (whole && said.is === "retry") return stands.is === "retry" || stands.is === "output";
  const text = ({ body }: Decision) => body && sortedText(body);
  return stands.is === said.is && text(stands) === text(said);
}

/** How far back a decision is looked for: it was taken in a moment ago. */
const LOOK_BACK = 500;
const ROWS = 25;

/**
 * The decision that the journal says was made this time; else the last thing that it says was
 * decided about the call.
 */
export async function standing(
  ctx: StoreContext,
  effectId: string,
  asked: number | undefined,
): Promise<{ readonly decision: Decision; readonly isThisTime: boolean } | undefined> {
  let last: JournalRecord | undefined;
  for await (const record of recordsOf(ctx, effectId)) {
    const { effect } = record;
    if (effect === undefined || !isDecisive(effect)) continue;
    if (asked !== undefined && effect.asked === asked)
      return { decision: await decisionOf(ctx, record), isThisTime: true };
    // Times before this one are over.
    if ((effect.asked ?? asked ?? 0) >= (asked ?? 0)) last ??= record;
  }
  return last && { decision: await decisionOf(ctx, last), isThisTime: false };
}

/** What the latest saves say of a call, newest first, back to its intent. */
async function* recordsOf(
  { journal }: StoreContext,
  effectId: string,
): AsyncGenerator<JournalRecord> {
  const [own] = await journal.past(branchOfEffect(effectId) as BranchId).downTo(MAX_SEQ);
  if (own === undefined) return;
  let looked = 0;
  for await (const page of journal.saves.walk([own], {
    newestFirst: true,
    state: true,
    rows: ROWS,
  })) {
    for (const { state } of page)
      for (const record of state.toReversed()) {
        if (record.effect?.id !== effectId) continue;
        yield record;
        if (record.effect.is === "intent") return;
      }
    looked += page.length;
    if (looked >= LOOK_BACK) return;
  }
}

type Decisive = Extract<EffectEvent, { is: "approved" | "retry" | "done" }>;
/** What an attempt says of itself, that it is to be made again, decides nothing. */
const isDecisive = (event: EffectEvent): event is EffectEvent & Decisive =>
  event.is === "done" ||
  ((event.is === "approved" || event.is === "retry") && event.asked !== undefined);

async function decisionOf(ctx: StoreContext, record: JournalRecord): Promise<Decision> {
  const event = record.effect as Decisive;
  const body = bodyIn(record);
  const said = {
    by: event.by,
    body: body && (await valueOf(ctx, body)),
    isSaid: event.asked !== undefined,
  };
  if (event.is !== "done") return { is: event.is, ...said };
  return { is: event.outcome === "ok" ? "output" : event.outcome, ...said };
}

/** A decision in words: "denied by ana: too much". */
export function inWords({ is, by, body, isSaid }: Decision): string {
  const who = by === undefined ? "" : ` by ${quote(by)}`;
  const what =
    body === undefined ? "" : typeof body === "string" ? quote(body) : cut(JSON.stringify(body));
  switch (is) {
    case "approved":
      return `approved${who}${what === "" ? "" : `, with the input ${what}`}`;
    case "denied":
      return `denied${who}: ${what}`;
    case "retry":
      return `settled${who}: it is to be made again`;
    default:
      return `${isSaid ? `settled${who}` : "over"}, with the ${is} ${what === "" ? "in its tool message" : what}`;
  }
}

const cut = (text: string): string => (text.length > 80 ? `${text.slice(0, 77)}…` : text);

/** Whether a call still waits for the decision that was asked for then. */
export const isStillAsked = (effect: Effect | undefined, asked: number): boolean =>
  (effect?.phase === "waiting" || effect?.phase === "doubt") && effect.asked === asked;
