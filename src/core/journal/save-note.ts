/** The note of a save: what was dropped or rewritten of it, and a digest over that. */
import { type Digest, digest, isDigest } from "../values/digest.js";
import { parseStored } from "../values/json.js";
import { fields, isCount, maybe } from "../values/shapes.js";
import { isWordless } from "./checkpoint.js";
import { corrupt, type Save } from "./save.js";

export interface Note {
  /** What the chain holds of a checkpoint that was dropped or rewritten. */
  readonly mark?: string;
  readonly gap?: number;
  /**
   * Where the list of checkpoints goes on: a dropped checkpoint's own prior, shortened past others
   * that went with it.
   */
  readonly prior?: number;
  /** Digests of sections that were rewritten, and of a checkpoint that was, as they are now. */
  readonly items?: Digest;
  readonly state?: Digest;
  readonly marked?: Digest;
}

export function readNote(save: Save): Note | undefined {
  if (save.note === null) return undefined;
  const text = save.note.slice(43);
  if (
    digest(`${save.branch} ${save.seq} ${save.prev} ${save.check} ${text}`) !==
    save.note.slice(0, 43)
  )
    throw corrupt(save, BAD_NOTE);
  const note = parseStored(text, () => corrupt(save, BAD_NOTE)) as Note;
  // A key twice, or a space, would hold text that no reader sees.
  if (!isNote(note) || noteText(note) !== text) throw corrupt(save, BAD_NOTE);
  // No digest covers what a gap says of itself: its note says how much it stands for.
  if (
    note.gap !== undefined &&
    (note.gap !== save.nState || save.nItems !== 0 || save.nMark !== 0 || save.nMessages !== 0)
  )
    throw corrupt(save, "stands for more or less than its note says");
  return note;
}

const BAD_NOTE = "has a damaged note of what was dropped or rewritten";

const isNote = fields<Note>({
  mark: maybe((mark) => isDigest(mark) || (typeof mark === "string" && isWordless(mark))),
  gap: maybe(isCount),
  prior: maybe(isCount),
  items: maybe(isDigest),
  state: maybe(isDigest),
  marked: maybe(isDigest),
});

/** Always in the same order: what says the same is the same text. */
const noteText = ({ mark, gap, prior, items, state, marked }: Note): string =>
  JSON.stringify({ mark, gap, prior, items, state, marked });

export function writeNote(
  save: Pick<Save, "branch" | "seq" | "prev" | "check">,
  note: Note,
): string {
  const text = noteText(note);
  return digest(`${save.branch} ${save.seq} ${save.prev} ${save.check} ${text}`) + text;
}

export function isGap(save: Save): boolean {
  return save.note !== null && readNote(save)?.gap !== undefined;
}

/** The newest checkpoint before this save that a list should look at next. */
export function priorOf(save: Save): number {
  return readNote(save)?.prior ?? save.prior;
}

/** What a note says, or nothing where there is nothing to say. */
export const noteOf = (save: Save, note: Note): string | null =>
  Object.keys(note).length === 0 ? null : writeNote(save, note);
