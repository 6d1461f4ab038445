/**
 * A save: what one append adds to a branch, sealed into the branch's chain.
 *
 * A save holds numbered records as text, one to a row of text, in three sections by how long they
 * live:
 *   items   the transcript's records and status changes: live long, and are read in ranges
 *   state   sets of state keys, list changes, and bases: each is soon replaced by the next
 *   mark    the checkpoint, read alone by lists
 * Sections are sealed apart, so that each can be read, verified and dropped without the others.
 *
 * JOURNAL-1  records are numbered without gaps along a branch and its fork points: a fork goes on
 *            from the number it began at.
 * JOURNAL-2  a save's digest covers its branch, number, time, pointers, sections and the digest
 *            before it.
 * JOURNAL-3  every section carries a random salt: its digest says nothing about a text that was
 *            removed. Only a checkpoint that says nothing but numbers needs none: it stands in the
 *            chain as it is.
 * JOURNAL-4  a section that was dropped leaves its digest; the chain still verifies.
 * JOURNAL-5  a range that was dropped whole leaves one gap, with the digests before and after it.
 * JOURNAL-6  a section that was rewritten is verified against the digest in its save's note, under
 *            a salt of its own; the chain keeps the digest of what was there.
 */
import type { Digest } from "../values/digest.js";
import { HoldfastError } from "../values/errors.js";
import type { BranchId } from "../values/ids.js";

/** The records of one commit, as a store keeps them. */
export interface Save {
  readonly branch: BranchId;
  /** The number of its last record; the first is `firstSeq(save)`. */
  readonly seq: number;
  readonly at: number;
  readonly nItems: number;
  readonly nState: number;
  readonly nMark: number;
  /** How many of its items are messages. */
  readonly nMessages: number;
  /**
   * The newest checkpoint before this save, along the branch and its fork points; 0 where there is
   * none.
   */
  readonly prior: number;
  /** The save that holds the newest base at or before this one; 0 where there is none. */
  readonly base: number;
  readonly prev: Digest;
  /**
   * The beginning of its digest, enough to see damage. The whole is computed when it is opened, and
   * stands in the save that follows.
   */
  readonly check: string;
  /** Digests of the sections, so that each can be verified, and dropped, without the others. */
  readonly itemsDigest: Digest | null;
  readonly stateDigest: Digest | null;
  readonly items: string | null;
  readonly state: string | null;
  readonly mark: string | null;
  /** Only where something was dropped or rewritten: what, and a digest over the saying. */
  readonly note: string | null;
}

/** The number of the first record of a save. */
export const firstSeq = (save: Pick<Save, "seq" | "nItems" | "nState" | "nMark">): number =>
  save.seq - save.nItems - save.nState - save.nMark + 1;

/**
 * Tell whether two saves are the same, with the same sections there and gone.
 * The texts of a section follow from its save's digest, or from its note.
 */
export const isSame = (a: Save, b: Save): boolean =>
  a.seq === b.seq &&
  a.check === b.check &&
  a.note === b.note &&
  (a.items === null) === (b.items === null) &&
  (a.state === null) === (b.state === null) &&
  (a.mark === null) === (b.mark === null);

export const isEmpty = (save: Save): boolean =>
  save.items === null && save.state === null && save.mark === null;

export function corrupt(save: Save, what: string): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The save at ${save.branch}-${save.seq} ${what}. Run verify to see what else is damaged; other sessions are not touched.`,
    { branch: save.branch, seq: save.seq },
  );
}
