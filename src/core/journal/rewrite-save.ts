/** Put other texts in the place of a save's sections, and tell which were rewritten (J6). */
import { type Digest, digest } from "../values/digest.js";
import type { Save } from "./save.js";
import { CHECK_CHARS, inChain } from "./save-digest.js";
import { isGap, type Note, noteOf, readNote } from "./save-note.js";
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
 * The save with other texts in the place of some of its sections (J6). Records keep their numbers:
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
  const before = [texts.items && known?.items, texts.state && known?.state, mark && known?.marked];
  const was = [
    ...(known?.was ?? []),
    ...before.flatMap((one) => (one ? [one.slice(0, CHECK_CHARS)] : [])),
  ];
  const note: Note = {
    ...known,
    ...(was.length > 0 && { was }),
    ...(texts.items && { items: digest(texts.items) }),
    ...(texts.state && { state: digest(texts.state) }),
    ...(mark !== undefined && {
      mark: known?.mark ?? inChain(save.mark as string),
      marked: digest(mark),
    }),
  };
  return { ...save, ...texts, ...(mark !== undefined && { mark }), note: noteOf(save, note) };
}

/** The sections of a save that were rewritten: the beginnings of their digests. */
export interface RewrittenSections {
  readonly items?: string;
  readonly state?: string;
  readonly mark?: string;
}

/** Undefined where none was rewritten. */
export function rewrittenSections(save: Save): RewrittenSections | undefined {
  const { items, state, marked, gap } = (save.note === null ? undefined : readNote(save)) ?? {};
  if (gap !== undefined || (items ?? state ?? marked) === undefined) return undefined;
  const begin = (digest: Digest): string => digest.slice(0, CHECK_CHARS);
  return {
    ...(items !== undefined && { items: begin(items) }),
    ...(state !== undefined && { state: begin(state) }),
    ...(marked !== undefined && { mark: begin(marked) }),
  };
}

/**
 * Whether a save has a section that is neither what was put in its place nor made from that: it may
 * hold what was removed.
 */
export function isUnredacted(save: Save, redacted: RewrittenSections): boolean {
  if (isGap(save)) return false;
  const now = rewrittenSections(save);
  const was = (save.note === null ? undefined : readNote(save)?.was) ?? [];
  return (["items", "state", "mark"] as const).some((section) => {
    const known = redacted[section];
    return (
      known !== undefined &&
      save[section] !== null &&
      now?.[section] !== known &&
      !was.includes(known)
    );
  });
}
