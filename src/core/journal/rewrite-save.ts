/** Put other texts in the place of a save's sections (JOURNAL-6). */
import { digest } from "../values/digest.js";
import type { Save } from "./save.js";
import { inChain } from "./save-digest.js";
import { type Note, noteOf, readNote } from "./save-note.js";
import { section } from "./save-section.js";

/** Other texts for sections of a save that are there; those that are not given stay as they are. */
export interface Rewrite {
  readonly items?: readonly string[];
  readonly state?: readonly string[];
  readonly mark?: string;
  /**
   * Gives a fresh random salt at every call: with the old one what was there could be guessed back.
   */
  readonly salt: () => string;
}

/**
 * The save with other texts in the place of some of its sections (JOURNAL-6). Records keep their numbers:
 * there are as many as before.
 */
export function rewrite(save: Save, { items, state, mark, salt }: Rewrite): Save {
  if (
    (items?.length ?? save.nItems) !== save.nItems ||
    (state?.length ?? save.nState) !== save.nState
  )
    throw new TypeError("a section is rewritten record for record");
  const texts = {
    ...(items && { items: section(items, salt) }),
    ...(state && { state: section(state, salt) }),
  };
  const known = readNote(save);
  const note: Note = {
    ...known,
    ...(texts.items && { items: digest(texts.items) }),
    ...(texts.state && { state: digest(texts.state) }),
    ...(mark !== undefined && {
      mark: known?.mark ?? inChain(save.mark as string),
      marked: digest(mark),
    }),
  };
  return { ...save, ...texts, ...(mark !== undefined && { mark }), note: noteOf(save, note) };
}
