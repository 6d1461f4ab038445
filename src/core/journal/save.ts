/**
 * A save: what one append adds to a line, sealed into the line's chain.
 *
 * A save holds numbered records as text, one to a row of text, in three sections by how long they live:
 *   items   the transcript's records and status changes: live long, and are read in ranges
 *   state   sets of state keys, list changes, and bases: each is soon replaced by the next
 *   mark    the checkpoint, read alone by lists
 * Sections are sealed apart, so that each can be read, verified and dropped without the others.
 *
 * J1  records are numbered without gaps along a line and its origins: a fork goes on from the number it began at.
 * J2  a save's digest covers its line, number, time, pointers, sections and the digest before it.
 * J3  every section carries a random salt: its digest says nothing about a text that was removed. Only a checkpoint that says
 *     nothing but numbers needs none: it stands in the chain as it is.
 * J4  a section that was dropped leaves its digest; the chain still verifies.
 * J5  a range that was dropped whole leaves one gap, with the digests before and after it.
 * J6  a section that was rewritten is verified against the digest in its save's note, under a salt of its own; the chain keeps the digest
 *     of what was there.
 */
import { type Digest, digest, isDigest } from "../values/digest.js";
import { HoldfastError } from "../values/errors.js";
import type { LineId } from "../values/ids.js";
import { holdsHalf, parseStored } from "../values/json.js";
import { fields, isCount, listOf, maybe } from "../values/shapes.js";
import { isRecord } from "./check-record.js";
import { isWordless } from "./checkpoint.js";
import { type JournalRecord, SALT_CHARS } from "./record.js";

export interface Save {
  readonly line: LineId;
  /** The number of its last record; the first is `firstSeq(save)`. */
  readonly seq: number;
  readonly at: number;
  readonly nItems: number;
  readonly nState: number;
  readonly nMark: number;
  /** How many of its items are messages. */
  readonly nMessages: number;
  /** The newest checkpoint before this save, along the line and its origins; 0 where there is none. */
  readonly prior: number;
  /** The save that holds the newest base at or before this one; 0 where there is none. */
  readonly base: number;
  readonly prev: Digest;
  /** The beginning of its digest, enough to see damage. The whole is computed when it is opened, and stands in the save that follows. */
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

export interface Draft {
  readonly line: LineId;
  /** The number of the record before. */
  readonly after: number;
  readonly at: number;
  readonly prior: number;
  readonly base: number;
  readonly prev: Digest;
  readonly items: readonly string[];
  readonly nMessages: number;
  readonly state: readonly string[];
  readonly mark: string | null;
  /** Gives a fresh random salt at every call. */
  readonly salt: () => string;
}

/** A section is one JSON array. Raw line breaks cannot occur inside JSON text, so it reads as one record to a row. */
const BETWEEN = ",\n";
export const CHECK_CHARS = 16;
const CHECK = /^[A-Za-z0-9_-]{16}$/;

export function seal(draft: Draft): { readonly save: Save; readonly digest: Digest } {
  const { line, after, at, prior, base, prev, nMessages, mark, salt } = draft;
  const nMark = mark === null ? 0 : 1;
  const items = section(draft.items, salt);
  const state = section(draft.state, salt);
  const save = {
    line,
    seq: after + draft.items.length + draft.state.length + nMark,
    at,
    nItems: draft.items.length,
    nState: draft.state.length,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    itemsDigest: items === null ? null : digest(items),
    stateDigest: state === null ? null : digest(state),
    items,
    state,
    mark,
    note: null,
    check: "",
  };
  const sealed = chain(save, mark === null ? "" : inChain(mark));
  save.check = sealed.slice(0, CHECK_CHARS);
  return { save, digest: sealed };
}

/** Records, a row each, and a salt in the last one. Put together piece by piece: the text is made flat once, when it is hashed. */
function section(records: readonly string[], salt: () => string): string | null {
  if (records.length === 0) return null;
  let text = "[";
  for (const record of records) text += record + BETWEEN;
  return `${text}"${salt()}"]`;
}

/** What the chain holds of a checkpoint: itself, or, where it is salted, its digest. `markText` writes both forms. */
const inChain = (mark: string): string => (mark.endsWith("}}") ? mark : digest(mark));

export const firstSeq = (save: Pick<Save, "seq" | "nItems" | "nState" | "nMark">): number =>
  save.seq - save.nItems - save.nState - save.nMark + 1;

function chain(save: Omit<Save, "check">, mark: string): Digest {
  const { line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev, itemsDigest, stateDigest } = save;
  return digest(
    `${line} ${seq} ${at} ${nItems} ${nState} ${nMark} ${nMessages} ${prior} ${base} ${prev} ${itemsDigest ?? ""} ${stateDigest ?? ""} ${mark}`,
  );
}

/** Which sections a reader needs. One that is needed and absent is damage; one that is not needed is stood for by its digest. */
export interface Need {
  readonly items?: boolean;
  readonly state?: boolean;
  readonly mark?: boolean;
}

/** A save that was verified: its digest, and the records of the sections that were needed. */
export interface Opened {
  readonly digest: Digest;
  readonly items: readonly JournalRecord[];
  readonly state: readonly JournalRecord[];
}

const nothing: readonly JournalRecord[] = [];

/** Verifies what was read of a save, and parses the sections that are needed. A gap has nothing to verify and nothing to give. */
export function open(save: Save, need: Need): Opened {
  const note = readNote(save);
  if (note?.gap !== undefined) throw corrupt(save, "was dropped, and is needed");
  if (need.items && save.nItems > 0 && save.items === null) throw corrupt(save, "has lost its items");
  if (need.state && save.nState > 0 && save.state === null) throw corrupt(save, "has lost its state");
  const mark = note?.mark ?? (save.mark === null ? "" : inChain(save.mark));
  if (need.mark && save.nMark > 0 && mark === "") throw corrupt(save, "has lost its checkpoint");
  if (
    (save.items !== null && (note?.items ?? save.itemsDigest) !== digest(save.items)) ||
    (save.state !== null && (note?.state ?? save.stateDigest) !== digest(save.state)) ||
    (save.mark !== null && note?.mark !== undefined && note.marked !== digest(save.mark))
  ) {
    throw corrupt(save, "has a section that does not match its digest");
  }
  const sealed = chain(save, mark);
  if (sealed.slice(0, CHECK_CHARS) !== save.check) throw corrupt(save, "does not match its digest");
  const items = need.items ? parse(save, save.items, save.nItems) : nothing;
  const state = need.state ? parse(save, save.state, save.nState) : nothing;
  return { digest: sealed, items, state };
}

function parse(save: Save, text: string | null, count: number): readonly JournalRecord[] {
  const records = text === null ? [""] : parseStored(text, () => corrupt(save, UNREADABLE));
  // The last one is the salt.
  if (!Array.isArray(records) || typeof records.pop() !== "string") throw corrupt(save, UNREADABLE);
  if (records.length !== count) throw corrupt(save, "miscounts its records");
  if (!records.every((record) => isRecord(record, save.at))) throw corrupt(save, UNREADABLE);
  return records;
}

const UNREADABLE = "holds a record that cannot be";

/** Whether a section is written as `section` writes it: code that measures or rewrites records finds each where it must be. */
export function isPlain(text: string, records: readonly JournalRecord[]): boolean {
  let plain = "[";
  for (const record of records) plain += JSON.stringify(record) + BETWEEN;
  return text.startsWith(plain) && SALT.test(text.slice(plain.length)) && !holdsHalf(text);
}

const SALT = /^"[A-Za-z0-9_-]{16}"\]$/;

/** The bytes of each record's text in a section. */
export function recordBytes(text: string | null): readonly number[] {
  if (text === null) return [];
  const records = recordTexts(text);
  const ascii = Buffer.byteLength(text) === text.length;
  return records.map((record) => (ascii ? record.length : Buffer.byteLength(record)));
}

function corrupt(save: Save, what: string): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The save at ${save.line}-${save.seq} ${what}. Run verify to see what else is damaged; other sessions are not touched.`,
    { line: save.line, seq: save.seq },
  );
}

// ---- dropping and rewriting

interface Note {
  /** What the chain holds of a checkpoint that was dropped or rewritten. */
  readonly mark?: string;
  readonly gap?: number;
  /** Where the list of checkpoints goes on: a dropped checkpoint's own prior, shortened past others that went with it. */
  readonly prior?: number;
  /** Digests of sections that were rewritten, and of a checkpoint that was, as they are now. */
  readonly items?: Digest;
  readonly state?: Digest;
  readonly marked?: Digest;
  /** The beginnings of such digests that were here before: a section that was rewritten again is still known by them. */
  readonly was?: readonly string[];
}

function readNote(save: Save): Note | undefined {
  if (save.note === null) return undefined;
  const text = save.note.slice(43);
  if (digest(`${save.line} ${save.seq} ${save.prev} ${save.check} ${text}`) !== save.note.slice(0, 43)) throw corrupt(save, BAD_NOTE);
  const note = parseStored(text, () => corrupt(save, BAD_NOTE)) as Note;
  // A key twice, or a space, would hold text that no reader sees.
  if (!isNote(note) || noteText(note) !== text) throw corrupt(save, BAD_NOTE);
  // No digest covers what a gap says of itself: its note says how much it stands for.
  if (note.gap !== undefined && (note.gap !== save.nState || save.nItems !== 0 || save.nMark !== 0 || save.nMessages !== 0))
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
  was: maybe(listOf((begin) => typeof begin === "string" && CHECK.test(begin))),
});

/** Always in the same order: what says the same is the same text. */
const noteText = ({ mark, gap, prior, items, state, marked, was }: Note): string =>
  JSON.stringify({ mark, gap, prior, items, state, marked, was });

function writeNote(save: Pick<Save, "line" | "seq" | "prev" | "check">, note: Note): string {
  const text = noteText(note);
  return digest(`${save.line} ${save.seq} ${save.prev} ${save.check} ${text}`) + text;
}

export function isGap(save: Save): boolean {
  return save.note !== null && readNote(save)?.gap !== undefined;
}

/** The newest checkpoint before this save that a list should look at next. */
export function priorOf(save: Save): number {
  return readNote(save)?.prior ?? save.prior;
}

export interface Drop {
  readonly items: boolean;
  readonly state: boolean;
  readonly mark: boolean;
  readonly prior: number;
}

/** The save without some of its sections. */
export function drop(save: Save, what: Drop): Save {
  const { items, state, marked, ...known } = readNote(save) ?? {};
  const kept: Note = {
    ...known,
    ...(items !== undefined && !what.items && { items }),
    ...(state !== undefined && !what.state && { state }),
    ...(marked !== undefined && !what.mark && { marked }),
  };
  const gone = what.mark && save.mark !== null ? { mark: known.mark ?? inChain(save.mark), prior: what.prior } : undefined;
  return {
    ...save,
    items: what.items ? null : save.items,
    state: what.state ? null : save.state,
    mark: what.mark ? null : save.mark,
    note: noteOf(save, { ...kept, ...gone }),
  };
}

/** What a note says, or nothing where there is nothing to say. */
const noteOf = (save: Save, note: Note): string | null => (Object.keys(note).length === 0 ? null : writeNote(save, note));

/** Other texts for sections of a save that are there; those that are not given stay as they are. */
export interface Rewrite {
  readonly items?: readonly string[];
  readonly state?: readonly string[];
  readonly mark?: string;
  /** Gives a fresh random salt at every call: with the old one what was there could be guessed back. */
  readonly salt: () => string;
}

/** The save with other texts in the place of some of its sections (J6). Records keep their numbers: there are as many as before. */
export function rewrite(save: Save, { items, state, mark, salt }: Rewrite): Save {
  if ((items?.length ?? save.nItems) !== save.nItems || (state?.length ?? save.nState) !== save.nState)
    throw new TypeError("a section is rewritten record for record");
  const texts = { ...(items && { items: section(items, salt) }), ...(state && { state: section(state, salt) }) };
  const known = readNote(save);
  const before = [texts.items && known?.items, texts.state && known?.state, mark && known?.marked];
  const was = [...(known?.was ?? []), ...before.flatMap((one) => (one ? [one.slice(0, CHECK_CHARS)] : []))];
  const note: Note = {
    ...known,
    ...(was.length > 0 && { was }),
    ...(texts.items && { items: digest(texts.items) }),
    ...(texts.state && { state: digest(texts.state) }),
    ...(mark !== undefined && { mark: known?.mark ?? inChain(save.mark as string), marked: digest(mark) }),
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

/** Whether a save has a section that is neither what was put in its place nor made from that: it may hold what was removed. */
export function isUnredacted(save: Save, redacted: RewrittenSections): boolean {
  if (isGap(save)) return false;
  const now = rewrittenSections(save);
  const was = (save.note === null ? undefined : readNote(save)?.was) ?? [];
  return (["items", "state", "mark"] as const).some((section) => {
    const known = redacted[section];
    return known !== undefined && save[section] !== null && now?.[section] !== known && !was.includes(known);
  });
}

/** The texts of a section's records. */
export const recordTexts = (section: string | null): readonly string[] =>
  section === null ? [] : section.slice(1, -(SALT_CHARS + 3 + BETWEEN.length)).split(BETWEEN);

/** The same save with the same sections there and gone. What is in a section follows from its save's digest, or from its note. */
export const isSame = (a: Save, b: Save): boolean =>
  a.seq === b.seq &&
  a.check === b.check &&
  a.note === b.note &&
  (a.items === null) === (b.items === null) &&
  (a.state === null) === (b.state === null) &&
  (a.mark === null) === (b.mark === null);

export const isEmpty = (save: Save): boolean => save.items === null && save.state === null && save.mark === null;

/** One gap for saves that stand next to each other and hold nothing any more. */
export function gap(saves: readonly [Save, ...Save[]]): Save {
  const first = saves[0];
  const last = saves.at(-1) as Save;
  const open = {
    ...last,
    nItems: 0,
    nState: last.seq - firstSeq(first) + 1,
    nMark: 0,
    nMessages: 0,
    prev: first.prev,
    itemsDigest: null,
    stateDigest: null,
    items: null,
    state: null,
    mark: null,
  };
  // Where its first save goes on: pointers of the others may lead into the gap itself.
  return { ...open, note: writeNote(open, { gap: open.nState, prior: priorOf(first) }) };
}
