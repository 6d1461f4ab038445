/**
 * Lease decisions. One holder per session; the epoch alone fences.
 *
 * L1  the epoch never falls and rises with every grant, so a superseded holder can be told from the present one for ever.
 * L2  a lease is granted when it is free, has run out, or its owner is proven dead; never before.
 * L3  running out alone takes nothing from a holder: until another is granted the lease, its epoch still stands.
 *
 * Times are those of the store's own clock, never of the wall.
 */

/** Who holds a lease, so that another process on the machine can tell whether the owner still lives. */
export interface Owner {
  /** The boot of the machine, and the pid namespace: pids mean something only inside both. */
  readonly boot: string;
  readonly space: string;
  readonly pid: number;
  /** When that process began, in the machine's own units: pids are used again. */
  readonly started: string;
  readonly nonce: string;
}

export interface Lease {
  readonly epoch: number;
  readonly owner: Owner | null;
  readonly until: number;
}

export const freeLease: Lease = { epoch: 0, owner: null, until: 0 };

export type Grant = { readonly granted: Lease } | { readonly heldBy: Owner; readonly remainingMs: number };

export interface LeaseRequest {
  readonly owner: Owner;
  readonly now: number;
  readonly leaseMs: number;
  /** Whether the present owner is proven dead. */
  readonly dead: (owner: Owner) => boolean;
}

export function grantLease(lease: Lease, { owner, now, leaseMs, dead }: LeaseRequest): Grant {
  if (lease.owner !== null && now < lease.until && !dead(lease.owner)) return { heldBy: lease.owner, remainingMs: lease.until - now };
  return { granted: { epoch: lease.epoch + 1, owner, until: now + leaseMs } };
}

export const renewLease = (lease: Lease, now: number, leaseMs: number): Lease => ({
  ...lease,
  until: Math.max(lease.until, now + leaseMs),
});

/** Letting go keeps the epoch: a write still on its way from this holder stays valid, one of the next holder fences it. */
export const releaseLease = (lease: Lease): Lease => ({ epoch: lease.epoch, owner: null, until: 0 });

export const describeOwner = (owner: Owner): string => `process ${owner.pid}`;
