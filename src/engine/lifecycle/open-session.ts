/** Open a session: take or make it, read its state, and hold it. */
import { freeLease, type Lease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { leaveToSomebody } from "../calls/doubt-restored.js";
import type { EffectPolicy } from "../calls/repeats.js";
import type { StoreContext } from "../journal/store-context.js";
import { labelOf, leaseRow } from "../records/rows.js";
import { HeldSession, type Opening } from "../session/held-session.js";
import type { Standing } from "../session/working-copy.js";
import { noSession } from "../util/not-found.js";
import { yieldNowAndThen } from "../util/yield-to-event-loop.js";
import { take } from "./acquire-lease.js";
import { madeLease } from "./create-session.js";
import { makeFork } from "./fork-session.js";
import { Session } from "./session.js";
import { type SessionOptions, wanted } from "./session-options.js";

/** Opens a session, making it where there is none. */
export async function openSession<S extends object = Record<string, Json>>(
  ctx: StoreContext,
  id: unknown,
  given: SessionOptions | undefined,
  o?: HoldingOptions,
): Promise<Session<S>> {
  return sessionOf<S>(ctx, await openHeld(ctx, id, given, o));
}

interface HoldingOptions {
  /** Whether a session that is not there is made. */
  readonly make?: boolean;
  /** The session whose call makes it. */
  readonly parent?: SessionId;
  readonly signal?: AbortSignal | undefined;
}

export async function openHeld(
  ctx: StoreContext,
  id: unknown,
  given: SessionOptions | undefined,
  { make: makes = true, parent, signal }: HoldingOptions = {},
): Promise<HeldSession> {
  const want = { ...wanted(ctx, id, given), parent };
  const deadline = performance.now() + want.waitMs;
  for (;;) {
    signal?.throwIfAborted();
    await yieldNowAndThen();
    const row = (await ctx.store.session(want.id)).row;
    if (row === undefined && !makes) throw noSession(want.id);
    const lease =
      row === undefined ? await madeLease(ctx, want) : await take(ctx, row, want, deadline);
    if (lease === undefined) continue;
    return enter(ctx, want.id, lease, want.leaseMs);
  }
}

/** With the lease in hand: reads the session's state. If that fails, the lease is let go again. */
export async function enter(
  ctx: StoreContext,
  id: SessionId,
  lease: Lease,
  leaseMs: number,
): Promise<HeldSession> {
  let held: HeldSession | undefined;
  try {
    const present = await ctx.journal.present(id);
    if (present === undefined)
      throw new HoldfastError(
        "STALE_LEASE",
        `Session ${quote(id)} was deleted while it was being opened.`,
        { sessionId: id },
      );
    const { row, head, branch, tail } = present;
    const past = ctx.journal.pastOf(present);
    const { fold, end } = await ctx.loader.tail(present, { sized: true }, past);
    const opening = {
      head,
      label: labelOf(row),
      lease,
      leaseMs,
      fold,
      end,
      past,
      latest: await ctx.journal.latest(tail, branch, id, past),
    };
    held = new HeldSession(ctx, opening);
    await held.inbox.takeInbox({ ends: false });
    await leaveToSomebody(held);
    return held;
  } catch (error) {
    if (held !== undefined) ctx.keeper.remove(held);
    await ctx.store
      .apply([
        {
          session: id,
          when: { epoch: lease.epoch },
          lease: leaseRow(id, { ...freeLease, epoch: lease.epoch }),
        },
      ])
      .catch(() => {});
    throw error;
  }
}

async function forkAndOpen(
  ctx: StoreContext,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  here: Omit<Standing, "head"> | undefined,
): Promise<Session> {
  const { head, label, lease, latest } = await makeFork(ctx, at, id, effects, {
    leaseMs: ctx.leaseMs,
    known: here?.latest,
  });
  if (here === undefined) return sessionOf(ctx, await enter(ctx, head.id, lease, ctx.leaseMs));
  // All of it is in hand: nobody else can have touched what was made this instant.
  const own = { branch: head.branch, from: at.seq + 1, to: MAX_SEQ, session: head.id };
  here.fold.leaveBranch();
  const opening: Opening = {
    ...here,
    head,
    label,
    lease,
    leaseMs: ctx.leaseMs,
    past: here.past.followedBy(own),
    latest,
  };
  return sessionOf(ctx, new HeldSession(ctx, opening));
}

const sessionOf = <S extends object>(ctx: StoreContext, held: HeldSession): Session<S> =>
  new Session<S>(held, (at, forkId, effects, from) => forkAndOpen(ctx, at, forkId, effects, from));
