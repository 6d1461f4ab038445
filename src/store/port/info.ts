/** What a store tells about itself: its traits, its counts, and where it is kept. */

/** What a store is, so that tests and callers need not know its name. */
export interface Traits {
  /** What was applied is there after close and open. */
  readonly durable: boolean;
  /** All users of the store are on one machine: an owner from another boot of it is dead. */
  readonly oneMachine: boolean;
  /** Other processes may change the store while it is open. */
  readonly shared: boolean;
  /**
   * To take from a branch is to go over all of it: much at once is better than in many steps.
   * Others can work meanwhile.
   */
  readonly inBulk?: true;
}

export interface Counts {
  readonly agents: number;
  readonly sessions: number;
  readonly checkpoints: number;
  /** Snapshots of agents, damaged ones included. */
  readonly snapshots: number;
  readonly messages: number;
  readonly sizeBytes: number;
}

/** A risk of the place where a store is kept, and what to do about it. */
export interface Concern {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
}

/** What a store is and stands on, for people. */
export interface About {
  /** `memory`, `sqlite`, `dir`, `postgres`, or a word of the store's own. */
  readonly kind: string;
  /** Where it is; an address has no password. */
  readonly place: string;
  /** What keeps it, with its version. */
  readonly engine: string;
  readonly format: number;
  /**
   * What it takes on the disk, with all that stands beside it; of a database server, its tables and
   * indexes. Absent for one of several tenants that share them.
   */
  readonly diskBytes?: number;
  /** How what was acknowledged is kept, in words. */
  readonly synced: string;
  readonly concerns: readonly Concern[];
}

export interface Info {
  readonly about: About;
  /** There where it was asked for. */
  readonly counts?: Counts;
}
