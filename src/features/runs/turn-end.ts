/** Waiting for the end of a turn that somebody else runs. Needs no lease. */
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type SessionId, sessionId } from "../../core/values/ids.js";
import { pendingOf } from "../../engine/calls/pending.js";
import type { Standpoint } from "../../engine/journal/journal.js";
import { changesInFlight, readInbox } from "../../engine/journal/read-inbox.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { BESIDE } from "../../engine/records/append-messages.js";
import { headOf, leaseOf } from "../../engine/records/rows.js";
import { noSession } from "../../engine/util/not-found.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { lastReply } from "./outcome.js";
import { endedAs, forgotten, pastTurn } from "./past-turns.js";

const POLL_MS = 500;

export async function endOfTurn(
  ctx: StoreContext,
  definition: Definition,
  id: string,
  turnId: string,
  signal: AbortSignal | undefined,
  timeoutMs: number | undefined,
): Promise<RunResult> {
  const session = sessionId(id);
  const deadline =
    timeoutMs === undefined ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  const abort = signal ?? new AbortController().signal;
  const watcher = ctx.watchers.follow(session);
  try {
    for (;;) {
      abort.throwIfAborted();
      watcher.looks();
      const end = await lookAtTurn(ctx, definition, session, turnId);
      if (end !== undefined) return end;
      const left = deadline - performance.now();
      if (left <= 0)
        throw new HoldfastError(
          "BUSY",
          `The turn ${quote(turnId)} of session ${quote(id)} has not ended in ${timeoutMs} ms. It goes on; ask again.`,
          {
            sessionId: id,
          },
        );
      await watcher.wait(abort, Math.min(POLL_MS, left));
    }
  } finally {
    watcher.leave();
  }
}

/** How a turn ended, or that it waits; undefined while it is under way or has not begun. */
export async function lookAtTurn(
  ctx: StoreContext,
  definition: Definition,
  session: SessionId,
  turnId: string,
): Promise<RunResult | undefined> {
  const present = await ctx.journal.present(session);
  if (present === undefined) throw noSession(session);
  const inFlight = await ctx.loader.inFlightAt(present);
  const { status, reason } = headOf(present.row);
  const about = { sessionId: session, turnId, usage: {} };
  if (inFlight.turn?.id === turnId) {
    if (status === "in-progress") return undefined;
    if (status !== "waiting" && status !== "in-doubt") {
      const ended = await ctx.loader.tail(present, { sized: false });
      const { fold } = ended;
      const message = lastReply(fold);
      const full = { ...about, usage: fold.usage, ...(message !== undefined && { message }) };
      return endedAs(definition, full, status, reason, fold.output);
    }
    // Cancelled just now: its call may say by itself what became of it.
    if (reason !== undefined && (await isStirring(ctx, present.row))) return undefined;
    // Something may be ready to go on: then somebody takes it up.
    const open = inFlight.open.filter(({ phase }) => phase === "waiting" || phase === "doubt");
    if (
      reason === undefined &&
      inFlight.standstill === undefined &&
      (open.length < inFlight.open.length || open.length === 0)
    )
      return undefined;
    const past = ctx.journal.pastOf(present);
    const pending = await Promise.all(open.map((effect) => pendingOf(ctx, session, past, effect)));
    return { ...about, status, pending };
  }
  // While its inbox message is there it has not begun. This comes first: whoever waits looks often,
  // and the past may be long.
  const inboxMessages = await readInbox(ctx, session, BESIDE);
  if (inboxMessages.some(({ doc }) => doc.kind === "turn" && doc.turn === turnId)) return undefined;
  const past = await pastTurn(ctx, present.head.branch, turnId);
  if (past?.isOver && past.end !== undefined)
    return endedAs(definition, about, past.end.status ?? "", past.end.reason, past.end.output);
  // Between two looks it may have been begun, or have ended.
  if (past?.isOver === false || (await hasMoved(ctx, session, present))) return undefined;
  if (past === undefined && inFlight.hadTurn(turnId)) throw forgotten(session, turnId);
  // Taken back before it could begin, or given up for another.
  return { ...about, status: "stopped", reason: "cancelled" };
}

/** Whether somebody holds it, or something was said to it that is not taken in yet. */
async function isStirring(ctx: StoreContext, row: SessionRow): Promise<boolean> {
  const { owner, until } = leaseOf(row);
  const isHeld =
    owner !== null &&
    (await ctx.now()) < until &&
    !ctx.machine.isDead(owner, ctx.store.traits.oneMachine);
  return isHeld || (await readInbox(ctx, row.id as SessionId)).some(changesInFlight);
}

async function hasMoved(
  ctx: StoreContext,
  session: SessionId,
  { head, tail }: Standpoint,
): Promise<boolean> {
  const now = await ctx.journal.present(session);
  return (
    now === undefined || now.head.branch !== head.branch || now.tail?.save.seq !== tail?.save.seq
  );
}
