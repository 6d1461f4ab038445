/** The digest of a save, which chains it to the one before (JOURNAL-2). */
import { type Digest, digest } from "../values/digest.js";
import type { Save } from "./save.js";

export const CHECK_CHARS = 16;

/**
 * What the chain holds of a checkpoint: itself, or, where it is salted, its digest. `markText`
 * writes both forms.
 */
export const inChain = (mark: string): string => (mark.endsWith("}}") ? mark : digest(mark));

export function chain(save: Omit<Save, "check">, mark: string): Digest {
  const {
    branch,
    seq,
    at,
    nItems,
    nState,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    itemsDigest,
    stateDigest,
  } = save;
  return digest(
    `${branch} ${seq} ${at} ${nItems} ${nState} ${nMark} ${nMessages} ${prior} ${base} ${prev} ${itemsDigest ?? ""} ${stateDigest ?? ""} ${mark}`,
  );
}
