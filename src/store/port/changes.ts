/** What one `apply` changes of sessions, under which conditions, and its answer. */
import type { Save } from "../../core/journal/save.js";
import type { Blob } from "../../core/messages/message.js";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId } from "../../core/values/ids.js";
import type { Head, Label, LeaseRow, NewBranch } from "./rows.js";

/** A save and the blobs its records refer to. */
export interface NewSave {
  readonly save: Save;
  readonly refs: readonly Digest[];
  readonly blobs: readonly Blob[];
}

/** A change to one session. */
export interface Change {
  readonly session: string;
  readonly when: {
    /**
     * There is no such session. `head`, `label` and `lease` must then be given, unless only
     * branches are brought in.
     */
    readonly absent?: true;
    /**
     * With `absent`: the epoch that a deleted session of this id has left, or 0. Another refuses
     * with `epoch`.
     */
    readonly buried?: number;
    readonly epoch?: number;
    readonly until?: number;
    readonly version?: number;
  };
  /**
   * Begins a branch. Its fork point, if it has one, must be a save that still has its checkpoint,
   * or that is pinned.
   */
  readonly branch?: NewBranch;
  /**
   * With `absent`: begins a branch without an owner, and makes no session, so that a
   * whole journal can be brought in before anybody sees it. One that is there already, and the
   * same, stays as it is. Its fork point must be a save, be it without its checkpoint.
   */
  readonly loose?: NewBranch;
  /** Branches without an owner become this session's. */
  readonly claims?: readonly BranchId[];
  /**
   * Appended in order. Each must follow the last record of its branch; a branch with no save ends
   * at its fork point.
   */
  readonly saves?: readonly NewSave[];
  readonly head?: Head;
  readonly label?: Label;
  readonly lease?: LeaseRow;
  /** Inbox entries that this change takes in. Of what they said only a digest is kept. */
  readonly drained?: readonly string[];
  /** Other texts for inbox entries that wait; those that do not are passed over. */
  readonly reworded?: readonly { readonly id: string; readonly text: string }[];
  /**
   * Forgets also the digests of what was taken in. From then on the id of such an entry is known,
   * with any text that is posted under it.
   */
  readonly forgets?: true;
  /**
   * Ends the session: its row goes, its branches have no owner, its epoch is kept so that it never
   * falls.
   */
  readonly remove?: true;
}

/**
 * `branch`: the branch to bring in is there and is another, or a branch to claim is not there or
 * has an owner. `fork point`: what a branch begins at, or a document pins, is not there.
 */
export type Refusal =
  | "exists"
  | "absent"
  | "epoch"
  | "until"
  | "version"
  | "tail"
  | "forkPoint"
  | "branch";

/** `change` counts on from the changes to the documents. */
export type Applied =
  | { readonly ok: true }
  | { readonly ok: false; readonly change: number; readonly why: Refusal };
