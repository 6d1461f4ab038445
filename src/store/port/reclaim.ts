/** How room is taken back: what replaces saves, and what was freed. */
import type { Save } from "../../core/journal/save.js";
import type { Blob } from "../../core/messages/message.js";
import type { Digest } from "../../core/values/digest.js";

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
 * What whoever plans to take something from a line knew of: the newest line that begins on it, and
 * the newest document that pins it.
 */
export interface KnownNeeds {
  readonly line: number;
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
