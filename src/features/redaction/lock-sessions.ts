/**
 * Sessions that nobody may work on while what they share is changed: whoever held one before has
 * read what is no more, and is fenced.
 */
import { type Lease, releaseLease } from "../../core/sessions/lease.js";
import type { HoldfastError } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Holder } from "../../engine/journal/lease-keeper.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { takeLeaseToFree } from "../../engine/lifecycle/acquire-lease.js";
import { leaseRow } from "../../engine/records/rows.js";

class Taken implements Holder {
  readonly id: SessionId;
  readonly leaseMs: number;
  lease: Lease;
  lost: HoldfastError | undefined;

  constructor(id: SessionId, lease: Lease, leaseMs: number) {
    this.id = id;
    this.lease = lease;
    this.leaseMs = leaseMs;
  }

  superseded(error: HoldfastError): void {
    this.lost ??= error;
  }

  /** Inbox messages wait until it is let go of. */
  takeInboxSoon(): void {}

  async close(): Promise<void> {}
}

export class SessionLocks {
  readonly #ctx: StoreContext;
  readonly #waitMs: number;
  readonly #signal: AbortSignal | undefined;
  readonly #taken = new Map<SessionId, Taken>();

  constructor(ctx: StoreContext, waitMs: number, signal: AbortSignal | undefined) {
    this.#ctx = ctx;
    this.#waitMs = waitMs;
    this.#signal = signal;
  }

  /**
   * Takes those that are not taken yet, in one order, so that two who want the same do not wait for
   * each other. Answers whether there were any.
   */
  async take(sessions: readonly SessionId[]): Promise<boolean> {
    const fresh = sessions.filter((id) => !this.#taken.has(id)).toSorted();
    for (const id of fresh) {
      const lease = await takeLeaseToFree(this.#ctx, id, this.#waitMs, this.#signal);
      const taken = new Taken(id, lease, this.#ctx.leaseMs);
      this.#taken.set(id, taken);
      this.#ctx.keeper.add(taken);
    }
    return fresh.length > 0;
  }

  /** Throws where one of them was lost. */
  check(): void {
    for (const { lost } of this.#taken.values()) if (lost !== undefined) throw lost;
  }

  epoch(id: SessionId): number {
    return (this.#taken.get(id) as Taken).lease.epoch;
  }

  async release(): Promise<void> {
    for (const [id, { lease, lost }] of this.#taken) {
      const taken = this.#taken.get(id) as Taken;
      this.#ctx.keeper.remove(taken);
      if (lost === undefined) {
        const free = leaseRow(id, releaseLease(lease));
        // Where that cannot be said, it runs out by itself.
        await this.#ctx.store
          .apply([{ session: id, when: { epoch: lease.epoch }, lease: free }], [], "frees")
          .catch(() => {});
        await this.#ctx.released(id);
      }
      this.#ctx.watchers.changed(id);
    }
    this.#taken.clear();
  }
}
