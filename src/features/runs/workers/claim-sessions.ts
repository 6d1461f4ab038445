/**
 * Which sessions a worker may take up. It claims those that are due, leaves those alone for a while
 * that could not go on, and counts how often a session ended its process without getting anywhere
 * (WORKER-2).
 */
import { grantLease, type Lease, releaseLease } from "../../../core/sessions/lease.js";
import type { SessionId } from "../../../core/values/ids.js";
import type { StoreContext } from "../../../engine/journal/store-context.js";
import { headOf, headRow, leaseOf, leaseRow } from "../../../engine/records/rows.js";
import type { HeldSession } from "../../../engine/session/held-session.js";
import { requireCapability } from "../../../store/capabilities.js";
import type { StoreClaims } from "../../../store/port/claims.js";
import type { SessionRow } from "../../../store/port/rows.js";

/** A session that could not even be opened so often is not tried any more. */
const HOPELESS = 3;
const MAX_RESTING = 10_000;

export class SessionClaims {
  readonly #ctx: StoreContext;
  readonly #claims: StoreClaims;
  readonly #leaseMs: number;
  readonly #attempts: number;
  /**
   * Sessions that could not go on when they were last looked at. What waits in their inbox would
   * have them taken up without end.
   */
  readonly #resting = new Map<
    SessionId,
    { readonly epoch: number; readonly until: number; readonly evenIfDue: boolean }
  >();

  /** `attempts`: how often a session may end its process at the same place. */
  constructor(
    ctx: StoreContext,
    { leaseMs, attempts }: { readonly leaseMs: number; readonly attempts: number },
  ) {
    this.#ctx = ctx;
    this.#claims = requireCapability(ctx.store, "claims", "hold.worker");
    this.#leaseMs = leaseMs;
    this.#attempts = attempts;
  }

  /** Finds and leases one session of an agent that is due, and that this worker is not at. */
  async claim(
    agent: string,
    isRunning: (id: SessionId) => boolean,
  ): Promise<readonly SessionRow[]> {
    await this.#ctx.learnGeneration();
    const due = { agent, dueBy: Math.max(0, this.#ctx.wallMs()), limit: 1 };
    return this.#claims.claim(due, (row, now) => {
      // The calls it is going to make begin by this clock, and nothing else of a claim asks for it.
      this.#ctx.heard(now);
      return isRunning(row.id as SessionId) ? undefined : this.#grant(row, now);
    });
  }

  #grant(row: SessionRow, now: number) {
    let before: Lease;
    try {
      before = leaseOf(row);
      headOf(row);
    } catch {
      // Damaged: nothing that could be run, and the others are not held up by it.
      return undefined;
    }
    if (this.#isResting(row, before) || (before.owner === null && this.isHopeless(before)))
      return undefined;
    const { machine, store, generation } = this.#ctx;
    const grant = grantLease(before, {
      owner: machine.self,
      now,
      leaseMs: this.#leaseMs,
      generation,
      dead: (owner) => machine.isDead(owner, store.traits.oneMachine),
    });
    if ("heldBy" in grant) return undefined;
    // A holder that let go has not died of it.
    const attempts = before.owner === null ? 1 : (before.attempts ?? 0) + 1;
    const seen = before.seen === undefined ? undefined : { seen: before.seen };
    return leaseRow(row.id as SessionId, { ...grant.granted, attempts, ...seen });
  }

  // ---- leaving alone

  /** Leaves a session alone for a while; `evenIfDue`: even if it is due before that. */
  rest(id: SessionId, { epoch }: Lease, ms: number, { evenIfDue = false } = {}): void {
    this.#resting.set(id, { epoch, until: performance.now() + ms, evenIfDue });
    const [oldest] = this.#resting.keys();
    if (this.#resting.size > MAX_RESTING && oldest !== undefined) this.#resting.delete(oldest);
  }

  /**
   * A caller that decides something about a session opens it for that, and it does not rest any
   * longer.
   */
  #isResting({ id, head: { due } }: SessionRow, { epoch }: Lease): boolean {
    const rest = this.#resting.get(id as SessionId);
    if (rest === undefined) return false;
    const isDue = !rest.evenIfDue && due !== null && due <= this.#ctx.wallMs();
    if (rest.epoch === epoch && performance.now() < rest.until && !isDue) return true;
    this.#resting.delete(id as SessionId);
    return false;
  }

  // ---- setting aside

  /**
   * Why a session that has been taken up is to be halted: it ended its process too often since it
   * last got anywhere (WORKER-2).
   */
  async whyHalt(held: HeldSession): Promise<string | undefined> {
    const { attempts = 1, seen } = held.lease;
    if (seen !== held.progress) {
      // Most sessions are taken up once, and need no note of it.
      if (attempts > 1) await held.noteAttempts(1);
      return undefined;
    }
    if (attempts <= this.#attempts) return undefined;
    return `Its process ended ${attempts - 1} times at this place, without getting any further. It was set aside; resume it once the cause is found.`;
  }

  /** Whether opening it ends the process. */
  isHopeless({ attempts = 0 }: Lease): boolean {
    return attempts > this.#attempts + HOPELESS;
  }

  /**
   * Leaves a hopeless session alone, even if something waits for it: it stays as it is until a
   * person opens it by hand.
   */
  async setAside(row: SessionRow, lease: Lease): Promise<void> {
    const { due: _due, ...head } = headOf(row);
    const { attempts = 0 } = lease;
    const released = leaseRow(row.id as SessionId, { ...releaseLease(lease), attempts });
    await this.#ctx.store.apply([
      { session: row.id, when: { epoch: lease.epoch }, head: headRow(head), lease: released },
    ]);
  }
}
