/** Let go of a lease, so that others need not wait until it has run out. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Lease, releaseLease } from "../../core/sessions/lease.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Store } from "../../store/port.js";
import { leaseRow } from "../records/rows.js";

const TRIES = 3;

/** Throws where that cannot be said to the store. */
export async function putBackLease(store: Store, session: SessionId, held: Lease): Promise<void> {
  const { epoch } = held;
  const lease = leaseRow(session, releaseLease(held));
  for (let tries = 1; ; tries++) {
    try {
      await store.apply([{ session, when: { epoch }, lease }]);
      return;
    } catch (error) {
      if (tries === TRIES || !(error instanceof HoldfastError && error.retryable)) throw error;
    }
    await sleep(50 * tries);
  }
}
