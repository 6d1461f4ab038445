/**
 * A session as it was at one of its checkpoints, for an export. What came after is left out, but
 * for one thing: the outcomes of calls that were open there and have ended since. They go along as
 * inbox messages, so that the imported session does not make those calls again.
 */
import { acts, type Effect } from "../../core/effects/effect.js";
import type { Message } from "../../core/messages/message.js";
import { titleOf } from "../../core/messages/truncate.js";
import {
  type InboxText,
  MAX_INBOX_CHARS,
  MAX_INBOX_MESSAGES,
  type SessionText,
} from "../../core/transfer/export-format.js";
import { type Place, placeId } from "../../core/values/ids.js";
import { AbandonedCalls } from "../../engine/calls/abandoned-calls.js";
import { answerOf } from "../../engine/calls/bodies.js";
import { decisionId, lateId } from "../../engine/calls/decisions.js";
import { historyOf } from "../../engine/journal/history.js";
import type { Standpoint } from "../../engine/journal/journal.js";
import type { Past } from "../../engine/journal/past.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import {
  type HeadDoc,
  headRow,
  type InboxDoc,
  inboxText,
  labelOf,
  type Settlement,
} from "../../engine/records/rows.js";
import { notFound } from "../../engine/util/not-found.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow } from "../../store/port/rows.js";

/** What goes out of a session: its row, and each of its branches up to a record. */
export interface Moment {
  readonly session: Omit<SessionText, "branches">;
  readonly branches: readonly { readonly row: BranchRow; readonly to: number }[];
}

const MESSAGES = 20;

export async function momentAt(ctx: StoreContext, place: Place): Promise<Moment> {
  const { journal, loader, store } = ctx;
  const found = await journal.checkpointAt(place);
  const row = (await store.branches(oneBranch(place.branch)))[0];
  const present = found && (await journal.present(found.checkpoint.sessionId));
  if (found === undefined || row === undefined || present === undefined)
    throw notFound(placeId(place.branch, place.seq));
  const { checkpoint } = found;
  labelOf(present.row);
  const {
    generation: _generation,
    due: _due,
    reason: _reason,
    title,
    forkPoint,
    ...rest
  } = present.head;
  const head: HeadDoc = {
    ...rest,
    branch: place.branch,
    status: checkpoint.status,
    ...(checkpoint.reason !== undefined && { reason: checkpoint.reason }),
    // The first words may have come after the checkpoint.
    ...(title !== undefined && (await hasWords(ctx, found.past, place.seq)) && { title }),
    // On a branch that it has inherited, it stands before the place at which it began.
    ...(forkPoint !== undefined && row.session === rest.id && { forkPoint }),
  };
  const goneOn = hasGoneOn(present, place);
  const inboxMessages = goneOn
    ? await endedSince(ctx, row, place.seq, (await loader.inFlight(found)).open)
    : [];
  const session = {
    session: rest.id,
    on: place.branch,
    head: headRow(head).text,
    label: present.row.label.text,
    ...(goneOn && { goneOn: true as const }),
    ...(inboxMessages.length > 0 && { inboxMessages }),
  };
  return { session, branches: [{ row, to: place.seq }] };
}

const hasGoneOn = ({ head, tail }: Standpoint, { branch, seq }: Place): boolean =>
  head.branch !== branch || tail?.save.seq !== seq;

/**
 * Whether a message that a title is made from stands on a past, up to a record. It is looked for
 * page by page: no session is held in memory.
 */
async function hasWords(ctx: StoreContext, past: Past, seq: number): Promise<boolean> {
  for (let upTo = seq; ; ) {
    const { items, next } = await historyOf(ctx, past, upTo, MESSAGES);
    if (items.some((message) => titleOf(message) !== undefined)) return true;
    if (next === undefined) return false;
    upTo = (items.at(-1) as Message).seq - 1;
  }
}

/** The outcomes of calls that are open at a place, as the branch tells them behind it. */
async function endedSince(
  ctx: StoreContext,
  row: BranchRow,
  seq: number,
  open: readonly Effect[],
): Promise<readonly InboxText[]> {
  const acting = open.filter(acts);
  if (acting.length === 0) return [];
  const later = await (await AbandonedCalls.beyond(ctx, [row], new Map([[row.id, seq]]))).all();
  const inboxMessages: InboxText[] = [];
  for (const before of acting) {
    // Outcomes beyond these, and longer ones, stay behind: their calls are in doubt then.
    if (inboxMessages.length >= MAX_INBOX_MESSAGES) break;
    const ended = later.find(({ id, phase }) => id === before.id && phase === "done");
    const inboxMessage = ended && (await inboxMessageOf(ctx, before, ended));
    if (inboxMessage !== undefined && inboxMessage.text.length <= MAX_INBOX_CHARS)
      inboxMessages.push(inboxMessage);
  }
  return inboxMessages;
}

async function inboxMessageOf(
  ctx: StoreContext,
  before: Effect,
  ended: Effect,
): Promise<InboxText | undefined> {
  const answer = await answerOf(ctx, ended);
  // Pruned.
  if (answer === undefined) return undefined;
  const as: Settlement =
    ended.outcome === "ok"
      ? { output: answer }
      : { error: String(answer), ...(ended.happened && { happened: true }) };
  const { id, phase, asked = 0 } = before;
  const attempt = ended.attempt?.no ?? 1;
  if (phase === "waiting")
    return {
      id: decisionId(id, asked, 0),
      text: inboxText({ kind: "settle", effectId: id, asked, as }),
    };
  return phase === "ready"
    ? undefined
    : {
        id: lateId(id, attempt),
        text: inboxText({ kind: "late", effectId: id, attempt, as } satisfies InboxDoc),
      };
}
