/** How room is taken back: what replaces saves, and what was freed. */
import type { Save } from "../../core/journal/save.js";
import type { Blob } from "../../core/messages/message.js";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId } from "../../core/values/ids.js";

/**
 * A save that stands in for others, and those as they were read: the same sections there and gone,
 * under the same note.
 */
export interface Replacement {
  readonly save: Save;
  readonly refs: readonly Digest[];
  readonly was: readonly Save[];
  /** Bodies that it refers to and that may not be there yet. */
  readonly blobs?: readonly Blob[];
}

/**
 * What the caller that plans to take something from a branch knew of: the newest branch that begins
 * on it, and the newest document that pins it.
 */
export interface KnownNeeds {
  readonly branch: number;
  readonly doc: number;
}

export interface Freed {
  readonly count: number;
  readonly bytes: number;
}

/** `next`: where to go on; absent where all was looked at. */
export interface Swept extends Freed {
  readonly next?: Digest;
}

/** What may still be found in the store's files of what is not in the store any more, in words. */
export interface Scrubbed {
  readonly left: readonly string[];
}

export interface StoreReclaim {
  /**
   * Puts saves in the place of others with the same records. Refused whole (false) if what is there
   * is not what was read, or if a branch was begun on this one, or a place on it pinned, of which
   * the plan did not know.
   */
  replace(
    branch: BranchId,
    replacements: readonly Replacement[],
    known: KnownNeeds,
  ): Promise<boolean>;
  /**
   * Removes the saves of an ownerless branch behind `after`, at most `limit`, newest first; with
   * `after` -1 the branch too, once it is empty. Never what a branch that begins on this one needs,
   * or what is pinned, also if `after` says less: a fork may have come in between. Answers how many
   * went, and what they held; `dryRun` only answers. A store that takes `inBulk` may take fewer
   * than there are, but not none.
   */
  cut(branch: BranchId, after: number, limit: number, dryRun: boolean): Promise<Freed>;
  /**
   * Looks at blobs, at most `limit`, and removes those that no save refers to. `after` is where an
   * earlier call ended, by its `next`: the order is the store's own, and stays.
   */
  sweep(limit: number, dryRun: boolean, after?: Digest): Promise<Swept>;
  /**
   * Gives room back to the file system where that can be done without stopping writers: so many
   * parts of it at most, of the kind that the store has. To one of several tenants that share a
   * file, the bytes are told as 0. Answers how many it were, and their bytes; fewer than `limit`:
   * there are no more.
   */
  compact(limit: number): Promise<Freed>;
  /**
   * Leaves nothing in the store's files of what was replaced, removed or taken in before, as far as
   * that is in its hands: neither in free space nor in logs, indexes and files set aside. `holds`
   * says of a text whether it must go; what no longer counts and holds none stays.
   */
  scrub(holds: (text: string) => boolean): Promise<Scrubbed>;
}
