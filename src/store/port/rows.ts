/**
 * Rows as a store keeps them. Their texts are sealed by the engine and carry their own digest. A
 * store uses the columns beside them to look things up.
 */
import type { Save } from "../../core/journal/save.js";
import type { BranchId, Place } from "../../core/values/ids.js";

/** Written by the holder, with the epoch as the condition. */
export interface Head {
  readonly status: string;
  readonly agent: string | null;
  /** The branch it is on. */
  readonly branch: BranchId;
  /**
   * The wall time (ms) from which a worker may take the session up; null where there is nothing to
   * do. Only a hint to find it by.
   */
  readonly due: number | null;
  readonly text: string;
}

/** What people change from outside: title, tags, archived, metadata. Compared by version. */
export interface Label {
  readonly version: number;
  readonly archived: boolean;
  readonly tags: readonly string[];
  readonly text: string;
}

export interface LeaseRow {
  readonly epoch: number;
  readonly until: number;
  readonly text: string;
}

export interface SessionRow {
  readonly no: number;
  readonly id: string;
  readonly head: Head;
  readonly label: Label;
  readonly lease: LeaseRow;
}

export interface NewBranch {
  readonly id: BranchId;
  readonly forkPoint: Place | null;
  readonly text: string;
}

export interface BranchRow extends NewBranch {
  readonly no: number;
  /** False once its session was deleted: then only forks need it. */
  readonly owned: boolean;
  /**
   * The session it belongs to; null where it is not owned, or where damage has taken its owner's
   * row.
   */
  readonly session: string | null;
}

/** What is known of a session. `branch` and `end` come where they were asked for. */
export interface SessionFound extends Partial<Omit<Present, "row">> {
  /** Undefined where there is no such session. */
  readonly row: SessionRow | undefined;
  /** Where there is none: the epoch that a deleted session of this id has left, or 0. */
  readonly buried: number;
}

/**
 * Where a session stands. `branch` is undefined where damage has taken it, `end` where the branch
 * has no save yet.
 */
export interface Present {
  readonly row: SessionRow;
  readonly branch: BranchRow | undefined;
  /** The branch's last save, without items and state. */
  readonly end: Save | undefined;
}
