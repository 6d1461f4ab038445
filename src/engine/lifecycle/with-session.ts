/**
 * Holding a session for just one act, from outside a run. Where another holds it, that is refused
 * (LEASE_HELD) after `waitMs`.
 */
import type { StoreContext } from "../journal/store-context.js";
import type { HeldSession } from "../session/held-session.js";
import type { KeyOptions } from "../util/validate.js";
import { signalOf } from "../util/validate.js";
import { openHeld } from "./open-session.js";
import { checkWaitMs } from "./session-options.js";

export interface OutsideOptions extends KeyOptions {
  /** How long to wait for another holder to let go. */
  readonly waitMs?: number;
  /** Stops waiting. What has begun is brought to its end. */
  readonly signal?: AbortSignal;
}

interface Waiting {
  readonly waitMs: number | undefined;
  readonly signal: AbortSignal | undefined;
}

export const waitOf = (waitMs: unknown, signal: unknown): Waiting => ({
  waitMs: checkWaitMs(waitMs),
  signal: signalOf(signal),
});

/** Holds a session for just one act. */
export async function withSession<R>(
  ctx: StoreContext,
  session: string,
  { waitMs, signal }: Waiting,
  act: (held: HeldSession) => Promise<R>,
): Promise<R> {
  const held = await openHeld(ctx, session, waitMs === undefined ? undefined : { waitMs }, {
    make: false,
    signal,
  });
  try {
    const done = await act(held);
    // The act is done. If the lease cannot be released, it runs out.
    await held.close({ discard: true }).catch(() => {});
    return done;
  } catch (error) {
    await held.close({ discard: true }).catch(() => {});
    throw error;
  }
}
