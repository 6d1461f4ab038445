/**
 * Lease decisions. One holder per session; the epoch alone fences.
 *
 * LEASE-1  the epoch never falls and rises with every grant, so a superseded holder can be told
 *          from the present one for ever.
 * LEASE-2  a lease is granted when it is free, has run out, or its owner is proven dead; never
 *          before. One that seems to last longer than any can is of a time before the clock began
 *          anew. One that came with a copy of the store holds the original, and not this.
 * LEASE-3  running out alone takes nothing from a holder: until another is granted the lease, its
 *          epoch still stands.
 *
 * Times are those of the store's own clock, never of the wall.
 */

/**
 * Who holds a lease, so that another process on the machine can tell whether the owner still lives.
 */
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
  /**
   * How often workers were granted it since the session last got anywhere, and where it was then.
   */
  readonly attempts?: number;
  readonly seen?: string;
  /** Of whom it was granted to: no other grant has it. */
  readonly token?: string;
  /**
   * The generation of the store that it was granted in; absent in the first. In another it means
   * nothing (LEASE-2).
   */
  readonly generation?: string;
}

export const freeLease: Lease = { epoch: 0, owner: null, until: 0 };

export type Grant =
  | { readonly granted: Lease }
  | { readonly heldBy: Owner; readonly remainingMs: number };

export interface LeaseRequest {
  readonly owner: Owner;
  readonly now: number;
  readonly leaseMs: number;
  /** Which generation of the store it is granted in; the first has no name. */
  readonly generation?: string;
  /** Whether the present owner is proven dead. */
  readonly dead: (owner: Owner) => boolean;
}

export const MAX_LEASE_MS = 24 * 60 * 60 * 1_000;

export function grantLease(
  lease: Lease,
  { owner, now, leaseMs, generation = "", dead }: LeaseRequest,
): Grant {
  const remainingMs = lease.until - now;
  const isOurs = (lease.generation ?? "") === generation;
  const lasts = isOurs && lease.owner !== null && remainingMs > 0 && remainingMs <= MAX_LEASE_MS;
  if (lasts && !dead(lease.owner)) return { heldBy: lease.owner, remainingMs };
  return {
    granted: {
      epoch: lease.epoch + 1,
      owner,
      until: now + leaseMs,
      ...(generation !== "" && { generation }),
    },
  };
}

export const renewLease = (lease: Lease, now: number, leaseMs: number): Lease => ({
  ...lease,
  until: Math.max(lease.until, now + leaseMs),
});

/**
 * Letting go keeps the epoch: a write still on its way from this holder stays valid, one of the
 * next holder fences it.
 */
export const releaseLease = (lease: Lease): Lease => ({
  epoch: lease.epoch,
  owner: null,
  until: 0,
});

export const describeOwner = (owner: Owner): string => `process ${owner.pid}`;
