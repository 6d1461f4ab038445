export function compete(options: {
  /** A store to compete in; a new SQLite file by default. */
  readonly address?: string;
  readonly processes: number;
  /** Messages each process appends to each of its sessions. */
  readonly count: number;
  readonly seed: number;
  /** Each on sessions of its own. */
  readonly own?: boolean;
  readonly leaseMs?: number;
  readonly waitMs?: number;
  readonly stallMs?: number;
  /** Negative control: each process writes one message again. */
  readonly doubleWrite?: boolean;
}): Promise<{
  readonly seed: number;
  readonly wrong: readonly string[];
  readonly lost: { readonly LEASE_HELD: number; readonly STALE_LEASE: number };
}>;
