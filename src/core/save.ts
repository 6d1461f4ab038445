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
 * J3  every record carries a random salt: its digest says nothing about a text that was removed.
 * J4  a section that was dropped leaves its digest; the chain still verifies.
 * J5  a range that was dropped whole leaves one gap, with the digests before and after it.
 */
import { type Digest, digest } from "./digest.js";
import { HoldfastError } from "./errors.js";
import type { LineId } from "./ids.js";
import type { JournalRecord } from "./record.js";

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
  readonly digest: Digest;
  readonly itemsRoot: Digest | null;
  readonly stateRoot: Digest | null;
  readonly items: string | null;
  readonly state: string | null;
  readonly mark: string | null;
  /** Only where something was dropped: what, and a digest over the saying. */
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
}

/** Raw line breaks cannot occur inside JSON text, so this parts records without ambiguity and `[section]` is one JSON array. */
const BETWEEN = ",\n";

export function seal(draft: Draft): Save {
  const { line, after, at, prior, base, prev, items, nMessages, state, mark } = draft;
  const nMark = mark === null ? 0 : 1;
  const open = {
    line,
    seq: after + items.length + state.length + nMark,
    at,
    nItems: items.length,
    nState: state.length,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    itemsRoot: items.length === 0 ? null : root(items),
    stateRoot: state.length === 0 ? null : root(state),
    items: items.length === 0 ? null : items.join(BETWEEN),
    state: state.length === 0 ? null : state.join(BETWEEN),
    mark,
    note: null,
  };
  return { ...open, digest: chain(open, open.itemsRoot, open.stateRoot, mark === null ? "" : digest(mark)) };
}

export const firstSeq = (save: Pick<Save, "seq" | "nItems" | "nState" | "nMark">): number =>
  save.seq - save.nItems - save.nState - save.nMark + 1;

function root(records: readonly string[]): Digest {
  const first = digest(records[0] as string);
  // One record is its own root; record text begins with a brace, so it cannot pass for a row of digests.
  return records.length === 1 ? first : digest(records.slice(1).reduce((all, text) => all + digest(text), first));
}

function chain(
  save: Omit<Save, "digest" | "items" | "state" | "itemsRoot" | "stateRoot">,
  items: Digest | null,
  state: Digest | null,
  mark: Digest,
): Digest {
  const { line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev } = save;
  return digest(
    `${line} ${seq} ${at} ${nItems} ${nState} ${nMark} ${nMessages} ${prior} ${base} ${prev} ${items ?? ""} ${state ?? ""} ${mark}`,
  );
}

/** Which sections a reader needs. One that is needed and absent is damage; one that is not needed is stood for by its root. */
export interface Need {
  readonly items?: boolean;
  readonly state?: boolean;
  readonly mark?: boolean;
}

/** A save that was verified: the records of the sections that were read. */
export interface Opened {
  readonly items: readonly Parsed[];
  readonly state: readonly Parsed[];
}

export interface Parsed {
  readonly record: JournalRecord;
  readonly textBytes: number;
}

const nothing: readonly Parsed[] = [];

/** Verifies what was read of a save, and parses the sections that are needed. */
export function open(save: Save, need: Need): Opened {
  if (isGap(save)) {
    if (need.items || need.state || need.mark) throw corrupt(save, "was dropped, and is needed");
    return { items: nothing, state: nothing };
  }
  if (need.items && save.nItems > 0 && save.items === null) throw corrupt(save, "has lost its items");
  if (need.state && save.nState > 0 && save.state === null) throw corrupt(save, "has lost its state");
  const items = save.items === null ? null : save.items.split(BETWEEN);
  const state = save.state === null ? null : save.state.split(BETWEEN);
  const mark = save.mark === null ? (readNote(save)?.mark ?? "") : digest(save.mark);
  if (need.mark && save.nMark > 0 && mark === "") throw corrupt(save, "has lost its checkpoint");
  const expected = chain(save, items === null ? save.itemsRoot : root(items), state === null ? save.stateRoot : root(state), mark);
  if (expected !== save.digest) throw corrupt(save, "does not match its digest");
  if ((items !== null && items.length !== save.nItems) || (state !== null && state.length !== save.nState))
    throw corrupt(save, "miscounts its records");
  return { items: need.items ? parse(items, save.items) : nothing, state: need.state ? parse(state, save.state) : nothing };
}

function parse(texts: readonly string[] | null, section: string | null): readonly Parsed[] {
  if (texts === null) return nothing;
  return (JSON.parse(`[${section}]`) as JournalRecord[]).map((record, i) => ({ record, textBytes: Buffer.byteLength(texts[i] as string) }));
}

function corrupt(save: Save, what: string): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The save at ${save.line}-${save.seq} ${what}. Run verify to see what else is damaged; other sessions are not touched.`,
    {
      line: save.line,
      seq: save.seq,
    },
  );
}

// ---- dropping

interface Note {
  /** The digest of a checkpoint that was dropped. */
  readonly mark?: Digest;
  readonly gap?: number;
  /** Where the list of checkpoints goes on: a dropped checkpoint's own prior, shortened past others that went with it. */
  readonly prior: number;
}

function readNote(save: Save): Note | undefined {
  if (save.note === null) return undefined;
  const text = save.note.slice(43);
  if (digest(`${save.line} ${save.seq} ${save.prev} ${save.digest} ${text}`) !== save.note.slice(0, 43))
    throw corrupt(save, "has a damaged note of what was dropped");
  return JSON.parse(text) as Note;
}

function writeNote(save: Pick<Save, "line" | "seq" | "prev" | "digest">, note: Note): string {
  const text = JSON.stringify(note);
  return digest(`${save.line} ${save.seq} ${save.prev} ${save.digest} ${text}`) + text;
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
  const before = readNote(save);
  const gone = what.mark && save.mark !== null ? digest(save.mark) : before?.mark;
  const noted = gone !== undefined;
  return {
    ...save,
    items: what.items ? null : save.items,
    state: what.state ? null : save.state,
    mark: what.mark ? null : save.mark,
    note: noted ? writeNote(save, { mark: gone, prior: what.prior }) : save.note,
  };
}

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
    itemsRoot: null,
    stateRoot: null,
    items: null,
    state: null,
    mark: null,
  };
  return { ...open, note: writeNote(open, { gap: open.nState, prior: priorOf(last) }) };
}
