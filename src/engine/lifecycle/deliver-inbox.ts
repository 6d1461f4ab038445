/** What reaches a session from outside: cancels, signals, and the sessions that its calls run. */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { requireCapability } from "../../store/capabilities.js";
import type { SessionRow } from "../../store/port/rows.js";
import { changesInFlight, readInbox } from "../journal/read-inbox.js";
import type { StoreContext } from "../journal/store-context.js";
import { headOf } from "../records/rows.js";
import { openHeld } from "./open-session.js";

export async function cancelSession(
  ctx: StoreContext,
  id: SessionId,
  reason: string,
  turn?: string,
): Promise<void> {
  requireCapability(ctx.store, "inbox", "hold.sessions.cancel");
  await ctx.post(id, { kind: "cancel", reason, ...(turn !== undefined && { turn }) });
  await takeIn(ctx, id);
  for (const child of await childrenOf(ctx, id)) await cancelSession(ctx, child, reason);
}

/**
 * For how long an inbox message's sender waits until it is taken in. It is there, whoever takes it
 * in, and when.
 */
const PATIENCE_MS = 500;

/** Where nobody holds a session, what was posted to it is taken in here. */
export async function takeIn(ctx: StoreContext, id: SessionId): Promise<void> {
  const taking = open(ctx, id);
  // Where another process writes the store, its lock is not waited for.
  taking.catch(() => {});
  await Promise.race([taking, sleep(PATIENCE_MS, undefined, { ref: false })]);
}

/**
 * Between a holder's last look at its inbox and its letting go, somebody may have posted, found the
 * session held, and left. Whoever lets go looks once more. Turns may wait: they are for who runs
 * the agent. So may messages from outside that the holder has `left` there: where they could not be
 * taken in, opening the session again and again would not help them.
 */
export async function takeInWhatIsLeft(
  ctx: StoreContext,
  id: SessionId,
  left?: ReadonlySet<string>,
): Promise<void> {
  try {
    const inboxMessages = await readInbox(ctx, id);
    const isNews = inboxMessages.some(
      (inboxMessage) =>
        changesInFlight(inboxMessage) ||
        (inboxMessage.doc.kind === "append" && left?.has(inboxMessage.id) !== true),
    );
    if (isNews) await takeIn(ctx, id);
  } catch {
    // The session may be gone, or the store away: the inbox message, if there is one, is still
    // there.
  }
}

async function open(ctx: StoreContext, id: SessionId): Promise<void> {
  try {
    const held = await openHeld(ctx, id, undefined, { make: false });
    await held.close({ discard: true });
  } catch (error) {
    // Held by another, or in a store that is busy or away: whoever holds it, or opens it next,
    // takes the inbox message in.
    if (!(error instanceof HoldfastError) || !error.retryable) throw error;
  }
}

/** One whose head is damaged may be deleted like others; what it had is not known. */
function mayHaveChildren(row: SessionRow): boolean {
  try {
    return headOf(row).children === true;
  } catch {
    return false;
  }
}

/** The sessions that calls of this one run, and that are still its own. */
export async function childrenOf(ctx: StoreContext, id: SessionId): Promise<readonly SessionId[]> {
  const row = (await ctx.store.session(id)).row;
  if (row === undefined || !mayHaveChildren(row)) return [];
  const found = new Set<SessionId>();
  for (const { id: branch } of await ctx.store.branches({ kind: "session", session: id })) {
    const doc = (await ctx.journal.branch(branch))?.doc;
    if (doc === undefined) continue;
    const inFlight = await ctx.loader.inFlightAt({
      branch: doc,
      tail: await ctx.journal.tail(branch),
    });
    for (const child of inFlight.children) {
      const made = (await ctx.store.session(child)).row;
      if (made !== undefined && headOf(made).parent === id) found.add(child as SessionId);
    }
  }
  return [...found];
}
