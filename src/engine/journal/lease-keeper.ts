/**
 * Renews the leases this process holds, all in one tick, so that a thousand of them cost one
 * commit.
 *
 * Saves only check the lease; renewing is all that writes it. A renewal that finds another epoch
 * tells the holder it was superseded.
 */
import { type Lease, renewLease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Store } from "../../store/port.js";
import { type InboxDoc, leaseOf, leaseRow } from "../records/rows.js";

export interface Holder {
  readonly id: SessionId;
  lease: Lease;
  readonly leaseMs: number;
  superseded(error: HoldfastError): void;
  /** Looks whether others have posted anything. `posted`: what somebody here just did. */
  takeInboxSoon(posted?: InboxDoc["kind"]): void;
  close(o: { readonly discard: boolean; readonly aborts?: boolean }): Promise<void>;
}

export class LeaseKeeper {
  readonly #store: Store;
  readonly #now: () => Promise<number>;
  readonly #holders = new Set<Holder>();
  #timer: NodeJS.Timeout | undefined;
  #everyMs = Number.POSITIVE_INFINITY;

  constructor(store: Store, now: () => Promise<number>) {
    this.#store = store;
    this.#now = now;
  }

  get holders(): readonly Holder[] {
    return [...this.#holders];
  }

  add(holder: Holder): void {
    this.#holders.add(holder);
    if (holder.leaseMs / 3 < this.#everyMs) this.#start(holder.leaseMs / 3);
    // It was being opened when the store's files went.
    if (this.#store.gone?.aborted) this.endAll(this.#store.gone.reason as HoldfastError);
  }

  /** Tells all holders that they cannot save any more. */
  endAll(error: HoldfastError): void {
    for (const holder of this.holders) holder.superseded(error);
  }

  remove(holder: Holder): void {
    this.#holders.delete(holder);
    if (this.#holders.size === 0) this.stop();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#everyMs = Number.POSITIVE_INFINITY;
  }

  #start(everyMs: number): void {
    clearInterval(this.#timer);
    this.#everyMs = everyMs;
    // Never the reason that a process stays alive.
    this.#timer = setInterval(() => void this.renewAll(), everyMs).unref();
  }

  async renewAll(): Promise<void> {
    await Promise.all([...this.#holders].map((holder) => this.#renew(holder)));
  }

  /** An earlier renewal landed although it seemed to fail: go on from what is stored. */
  async #learn(holder: Holder): Promise<void> {
    const row = (await this.#store.session(holder.id)).row;
    const lease = row && leaseOf(row);
    if (lease?.epoch === holder.lease.epoch && lease.owner !== null && this.#holders.has(holder))
      holder.lease = lease;
  }

  async #renew(holder: Holder): Promise<void> {
    try {
      const { epoch, until } = holder.lease;
      const lease = renewLease(holder.lease, await this.#now(), holder.leaseMs);
      // Conditional on the very lease it renews: one on its way must not bring back a lease that
      // was let go meanwhile.
      const applied = await this.#store.apply([
        { session: holder.id, when: { epoch, until }, lease: leaseRow(holder.id, lease) },
      ]);
      if (!this.#holders.has(holder)) return;
      if (applied.ok) {
        // What was noted on the lease meanwhile goes with the next one.
        holder.lease = { ...holder.lease, until: lease.until };
        holder.takeInboxSoon();
      } else if (applied.why === "until") await this.#learn(holder);
      else holder.superseded(superseded(holder.id));
    } catch {
      // Busy or failing now: the next beat tries again, and the epoch fences whatever happens until
      // then (LEASE-3).
    }
  }
}

export function superseded(sessionId: SessionId): HoldfastError {
  return new HoldfastError(
    "STALE_LEASE",
    `Another holder took over session ${quote(sessionId)}, or it was deleted. Nothing was written. Open the session again to go on.`,
    { sessionId },
  );
}

/** The session is as it should be, and what was to be changed beside it is not. */
export function outdone(sessionId: SessionId): HoldfastError {
  return new HoldfastError(
    "BUSY",
    `Another call has changed what goes with session ${quote(sessionId)} just now. Nothing was written; try again.`,
    {
      sessionId,
    },
  );
}
