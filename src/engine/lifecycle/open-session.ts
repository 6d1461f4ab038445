/** Open a session: take or make it, read its state, and hold it. */
import { freeLease, type Lease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import type { EffectPolicy } from "../calls/repeats.js";
import { leaveToSomebody } from "../calls/restored.js";
import type { Ground } from "../journal/ground.js";
import { labelOf, leaseRow } from "../records/rows.js";
import { Holding, type Opening } from "../session/holding.js";
import type { Standing } from "../session/workspace.js";
import { breatheNowAndThen } from "../util/breathe.js";
import { noSession } from "../util/not-found.js";
import { take } from "./acquire-lease.js";
import { madeLease } from "./create-session.js";
import { makeFork } from "./fork-session.js";
import { Session } from "./session.js";
import { type SessionOptions, wanted } from "./session-options.js";

/** Opens a session, making it where there is none. */
export async function openSession<S extends object = Record<string, Json>>(
  ground: Ground,
  id: unknown,
  given: SessionOptions | undefined,
  o?: HoldingOptions,
): Promise<Session<S>> {
  return sessionOf<S>(ground, await openHolding(ground, id, given, o));
}

interface HoldingOptions {
  /** Whether a session that is not there is made. */
  readonly make?: boolean;
  /** The session whose call makes it. */
  readonly parent?: SessionId;
  readonly signal?: AbortSignal | undefined;
}

export async function openHolding(
  ground: Ground,
  id: unknown,
  given: SessionOptions | undefined,
  { make: makes = true, parent, signal }: HoldingOptions = {},
): Promise<Holding> {
  const want = { ...wanted(ground, id, given), parent };
  const deadline = performance.now() + want.waitMs;
  for (;;) {
    signal?.throwIfAborted();
    await breatheNowAndThen();
    const row = (await ground.store.session(want.id)).row;
    if (row === undefined && !makes) throw noSession(want.id);
    const lease =
      row === undefined ? await madeLease(ground, want) : await take(ground, row, want, deadline);
    if (lease === undefined) continue;
    return enter(ground, want.id, lease, want.leaseMs);
  }
}

/** With the lease in hand: reads the session's state. If that fails, the lease is let go again. */
export async function enter(
  ground: Ground,
  id: SessionId,
  lease: Lease,
  leaseMs: number,
): Promise<Holding> {
  let held: Holding | undefined;
  try {
    const present = await ground.journal.present(id);
    if (present === undefined)
      throw new HoldfastError(
        "STALE_LEASE",
        `Session ${quote(id)} was deleted while it was being opened.`,
        { sessionId: id },
      );
    const { row, head, line, tail } = present;
    const past = ground.journal.pastOf(present);
    const { fold, end } = await ground.loader.tail(present, { sized: true }, past);
    const opening = {
      head,
      label: labelOf(row),
      lease,
      leaseMs,
      fold,
      end,
      past,
      latest: await ground.journal.latest(tail, line, id, past),
    };
    held = new Holding(ground, opening);
    await held.inbox.takeMail({ ends: false });
    await leaveToSomebody(held);
    return held;
  } catch (error) {
    if (held !== undefined) ground.keeper.remove(held);
    await ground.store
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
  ground: Ground,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  here: Omit<Standing, "head"> | undefined,
): Promise<Session> {
  const { head, label, lease, latest } = await makeFork(ground, at, id, effects, {
    leaseMs: ground.leaseMs,
    known: here?.latest,
  });
  if (here === undefined)
    return sessionOf(ground, await enter(ground, head.id, lease, ground.leaseMs));
  // All of it is in hand: nobody else can have touched what was made this instant.
  const own = { line: head.line, from: at.seq + 1, to: MAX_SEQ, session: head.id };
  here.fold.leaveLine();
  const opening: Opening = {
    ...here,
    head,
    label,
    lease,
    leaseMs: ground.leaseMs,
    past: here.past.followedBy(own),
    latest,
  };
  return sessionOf(ground, new Holding(ground, opening));
}

const sessionOf = <S extends object>(ground: Ground, held: Holding): Session<S> =>
  new Session<S>(held, (at, forkId, effects, from) =>
    forkAndOpen(ground, at, forkId, effects, from),
  );
