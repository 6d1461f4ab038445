/**
 * Following a session: what its journal says, from a cursor on, and then what is added to it, from
 * any process.
 */
import { jsonIn } from "../../core/journal/blob-body.js";
import { type Checkpoint, checkpointOf } from "../../core/journal/checkpoint.js";
import { viewOfRecord } from "../../core/journal/message-view.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import type { Message } from "../../core/messages/message.js";
import type { SessionStatus } from "../../core/sessions/status.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import {
  type BranchId,
  type CheckpointId,
  MAX_SEQ,
  type Place,
  parsePlace,
  placeId,
  type SessionId,
  sessionId,
} from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { isoTime } from "../../core/values/time.js";
import { type Past, sharedUpTo } from "../../engine/journal/past.js";
import { RecordOwners } from "../../engine/journal/record-owners.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { growingRows, type Walked } from "../../engine/journal/walk.js";
import type { Watcher } from "../../engine/journal/watchers.js";
import { requireSession } from "../../engine/lifecycle/require-session.js";
import { headOf } from "../../engine/records/rows.js";
import { linked } from "../../engine/util/abort-signals.js";
import { flag, invalid, options, signalOf } from "../../engine/util/validate.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { oneBranch } from "../../store/port/queries.js";
import { CallTeller, type SessionToolEvent } from "./tell-call.js";

/**
 * One thing that happened in a session: what a record of its journal says.
 * If you go on after an event's cursor, you miss none. If you apply them in order, you have the
 * session's messages and state.
 */
export type SessionEvent = Told & {
  readonly cursor: string;
  /** When it was saved; absent where the session went to another branch. */
  readonly at?: string;
};

type Told =
  | { readonly type: "message"; readonly message: Message }
  /** Messages were taken out of the transcript, and one was perhaps put in their place. */
  | {
      readonly type: "splice";
      readonly start: number;
      readonly removed: number;
      readonly message?: Message;
    }
  | { readonly type: "state"; readonly key: string; readonly value: Json }
  | { readonly type: "unset"; readonly key: string }
  /** Items of the list under a key were taken out, and others put in their place. */
  | {
      readonly type: "list";
      readonly key: string;
      readonly start: number;
      readonly removed: number;
      readonly items: readonly Json[];
    }
  | { readonly type: "status"; readonly status: SessionStatus; readonly reason?: string }
  | { readonly type: "checkpoint"; readonly checkpoint: Checkpoint }
  | { readonly type: "turn"; readonly turnId: string }
  | SessionToolEvent
  /**
   * The session went to another branch: what this follower saw after `to` is no longer its past.
   */
  | { readonly type: "rewind"; readonly to: CheckpointId };

export interface EventOptions {
  /** A cursor. Without one, the whole past comes first. */
  readonly after?: string;
  readonly signal?: AbortSignal;
  /** False: ends with what there is by now. */
  readonly live?: boolean;
}

/**
 * How many saves are read at once: few at first, then more. A follower whose reader is slow keeps
 * that many in memory.
 */
const FIRST_ROWS = 4;
const ROWS = 32;

/**
 * Follows a session. A follower that is under way when the store is closed comes to its end; one
 * that begins later throws CLOSED.
 */
export async function* follow(
  ctx: StoreContext,
  id: unknown,
  given: EventOptions | undefined,
  closing: AbortSignal,
): AsyncGenerator<SessionEvent> {
  ctx.usable();
  try {
    yield* followed(ctx, id, given, closing);
  } catch (error) {
    if (!closing.aborted || !(error instanceof HoldfastError) || error.code !== "CLOSED")
      throw error;
  }
}

async function* followed(
  ctx: StoreContext,
  id: unknown,
  given: EventOptions | undefined,
  closing: AbortSignal,
): AsyncGenerator<SessionEvent> {
  const {
    after,
    signal: asked,
    live: goesOn,
  } = options(given, "events", ["after", "signal", "live"]);
  const isLive = flag(goesOn, "live") ?? true;
  const own = signalOf(asked);
  const session = sessionId(id);
  const head = headOf(await requireSession(ctx, session));
  const current = ctx.journal.past(head.branch);
  let { branch } = head;
  let past = current;
  const place = after === undefined ? undefined : await cursorOf(ctx, session, after, past);
  // A cursor on a branch the session has left is followed from there: what was rewound is told.
  if (place !== undefined && (await past.branchAt(place.seq)) !== place.branch) {
    branch = place.branch;
    past = ctx.journal.past(branch);
  }
  const { signal, unlink } = linked(closing, own);
  const watcher = ctx.watchers.follow(session);
  try {
    // Where an anchor knows that the end of the branch was lost, that is said.
    const tail = await ctx.journal.tail(branch);
    // A reader that does not wait for more is told what there is now, however others go on.
    const end = branch === head.branch ? tail : await ctx.journal.tail(head.branch);
    const until = isLive ? undefined : await lastOf(end?.save, current);
    yield* live(ctx, session, { branch, past, seen: place?.seq ?? 0, until }, watcher, signal);
  } finally {
    unlink();
    watcher.leave();
  }
}

interface Followed {
  readonly branch: BranchId;
  readonly past: Past;
  readonly seen: number;
  /** The last record that is told of; undefined: there is none. */
  readonly until: number | undefined;
}

async function* live(
  ctx: StoreContext,
  session: SessionId,
  from: Followed,
  watcher: Watcher,
  signal: AbortSignal,
): AsyncGenerator<SessionEvent> {
  let { branch, past, seen } = from;
  const calls = new CallTeller(ctx);
  while (!signal.aborted) {
    watcher.looks();
    const present = await ctx.reads.share(`present ${session}`, () =>
      ctx.store.session(session, "end"),
    );
    if (present.row === undefined) return;
    const head = headOf(present.row);
    if (head.branch !== branch) {
      const followed = branch;
      const now = ctx.journal.past(head.branch);
      const shared = await sharedUpTo(past, now).catch(async (error: unknown) => {
        // The branch that was followed is gone with its session, and so is what they shared.
        if ((await ctx.store.branches(oneBranch(followed)))[0] === undefined) return 0;
        throw error;
      });
      past = now;
      branch = head.branch;
      // Where an anchor knows that its end was lost, that is said, and not taken for the end.
      await ctx.journal.tail(branch);
      if (shared < seen) {
        seen = shared;
        const on = await past.branchAt(seen);
        // Nothing in common: what was followed was deleted, and this is another of the same name.
        if (on === undefined) return;
        yield { type: "rewind", to: placeId(on, seen), cursor: placeId(on, seen) };
      }
    }
    const last = await lastOf(present.end, past);
    let any = false;
    try {
      for await (const event of last > seen ? news(ctx, session, past, seen, calls) : []) {
        await yieldToEventLoop();
        any = true;
        seen = (parsePlace(event.cursor) as Place).seq;
        if (from.until !== undefined && seen > from.until) return;
        yield event;
        if (signal.aborted) return;
      }
    } catch (error) {
      // What is missing may have been deleted with its session, a moment ago.
      if ((await ctx.store.session(session)).row === undefined) return;
      throw error;
    }
    if (from.until !== undefined && (!any || seen >= from.until)) return;
    if (!any) await watcher.wait(signal);
  }
}

/** The last record of a branch. A branch without a save ends where it begins. */
async function lastOf(end: Pick<Save, "seq"> | undefined, past: Past): Promise<number> {
  return end?.seq ?? ((await past.downTo(MAX_SEQ))[0]?.from ?? 1) - 1;
}

async function* news(
  ctx: StoreContext,
  session: SessionId,
  past: Past,
  after: number,
  calls: CallTeller,
): AsyncGenerator<SessionEvent> {
  const recordOwners = new RecordOwners(ctx.store);
  const rows = growingRows(FIRST_ROWS, ROWS);
  const walk = { from: after + 1, items: true, state: true, rows, shared: ctx.reads };
  const segments = (await past.downTo(after + 1)).toReversed();
  const owners = new Map(segments.map(({ branch, session: owner }) => [branch, owner]));
  for await (const page of ctx.journal.saves.walk(segments, walk))
    for (const walked of page) {
      const { branch, seq, mark } = walked.save;
      const owner =
        owners.get(branch) ??
        (mark === null ? undefined : await recordOwners.of(branch, seq)) ??
        session;
      yield* eventsOf(ctx, owner as SessionId, past, walked, after + 1, calls);
    }
}

/** `owner`: the session that the checkpoint of the save belongs to. */
async function* eventsOf(
  ctx: StoreContext,
  owner: SessionId,
  past: Past,
  { save, digest, items, state }: Walked,
  from: number,
  calls: CallTeller,
): AsyncGenerator<SessionEvent> {
  if (digest === undefined) return;
  calls.saveBegins();
  for (const [i, record] of [...items, ...state].entries()) {
    // Where one of the sections was dropped, the other's numbers still count from its own place.
    const seq = firstSeq(save) + (i < items.length ? i : save.nItems + i - items.length);
    if (seq < from) continue;
    const { effect, blob } = record;
    const body = await bodyOf(ctx, blob);
    const told =
      effect === undefined
        ? tell(record, body, seq, save)
        : await calls.tell(past, effect, valueIn(record.body, blob, body));
    if (told === undefined) continue;
    if ("message" in told && told.message !== undefined) calls.saw(told.message);
    yield { ...told, cursor: placeId(save.branch, seq), at: isoTime(save.at) };
  }
  const parent =
    save.mark === null || save.prior === 0 ? undefined : await past.branchAt(save.prior);
  const checkpoint = checkpointOf(save, digest, owner, () => parent ?? save.branch);
  if (checkpoint)
    yield { type: "checkpoint", checkpoint, cursor: checkpoint.id, at: isoTime(save.at) };
}

/** What a record says; a base says nothing new. */
function tell(
  record: JournalRecord,
  body: string | undefined,
  seq: number,
  save: Save,
): Told | undefined {
  const { status, reason, splice, set, unset, list, turn, blob } = record;
  const value = (inline: Json | undefined) => valueIn(inline, blob, body);
  if (status !== undefined)
    return {
      type: "status",
      status: status as SessionStatus,
      ...(reason === undefined ? undefined : { reason }),
    };
  if (set !== undefined) return { type: "state", key: set, value: value(record.value) as Json };
  if (unset !== undefined) return { type: "unset", key: unset };
  if (turn !== undefined) return { type: "turn", turnId: turn.id };
  if (list !== undefined && splice !== undefined) {
    return {
      type: "list",
      key: list,
      start: splice[0],
      removed: splice[1],
      items: value(record.items) as readonly Json[],
    };
  }
  const message =
    record.append === undefined && record.item === undefined
      ? undefined
      : viewOfRecord(record, body, seq, save);
  if (splice !== undefined)
    return { type: "splice", start: splice[0], removed: splice[1], ...(message && { message }) };
  return message && { type: "message", message };
}

const valueIn = (inline: Json | undefined, blob: Digest | undefined, body: string | undefined) =>
  body === undefined ? inline : jsonIn(body, blob as Digest);

async function bodyOf(ctx: StoreContext, blob: string | undefined): Promise<string | undefined> {
  return blob === undefined
    ? undefined
    : Buffer.from(await ctx.journal.blob(blob)).toString("utf8");
}

/** The place a cursor names: a record that is there, on a branch of this session or in its past. */
async function cursorOf(
  ctx: StoreContext,
  session: SessionId,
  after: unknown,
  past: Past,
): Promise<Place> {
  const place = typeof after === "string" ? parsePlace(after) : undefined;
  const branch = place && (await ctx.journal.branch(place.branch));
  const isOurs =
    place !== undefined &&
    (branch?.session === session || (await past.branchAt(place.seq)) === place.branch);
  const save = isOurs ? await ctx.journal.saves.holding(place.branch, place.seq) : undefined;
  if (isOurs && (save === undefined || firstSeq(save) > place.seq)) {
    await ctx.journal.checkAbsent(place);
    await ctx.journal.tail(place.branch);
  }
  if (place === undefined || save === undefined || firstSeq(save) > place.seq)
    throw invalid("after", "it is not the cursor of an event of this session");
  return place;
}
