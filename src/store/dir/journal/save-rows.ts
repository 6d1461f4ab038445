/**
 * A save as rows of text: its records, a row each, and a seal that closes it.
 *
 *     {"append":{"role":"user","content":"…"}}     items
 *     {"set":"phase","value":"search"}             state
 *     {"checkpoint":{…}}                           the mark
 *     {"seal":{…},"sum":"…"}
 *
 * ROWS-1  a section's text and its rows say the same, byte for byte: `[a,\nb,\n"salt"]` stands as
 *         the rows a and b, its salt in the seal.
 * ROWS-2  a save is there if and only if its seal is whole. The seal says how many bytes stand
 *         before it, so that a reader finds the sections without parsing them, and the save before.
 * ROWS-3  digests cover what a save says; the sum covers the rest of the seal, above all which
 *         blobs it needs.
 */
import { crc32 } from "node:zlib";
import type { Save } from "../../../core/journal/save.js";
import type { Digest } from "../../../core/values/digest.js";
import type { BranchId } from "../../../core/values/ids.js";
import { quickSeal } from "./quick-seal.js";

/** Bytes of its rows, 0 where they were dropped; its salt; its digest. */
type Section = readonly [bytes: number, salt: string, digest: Digest];

export interface Seal {
  readonly seq: number;
  readonly at: number;
  /** Items, state, marks, messages. */
  readonly n: readonly [number, number, number, number];
  readonly prior: number;
  readonly base: number;
  readonly prev: Digest;
  readonly check: string;
  readonly items?: Section;
  readonly state?: Section;
  /** Bytes of the mark's row. */
  readonly mark?: number;
  readonly refs?: readonly Digest[];
  readonly note?: string;
  /** The save counts together with the one that follows it: they came in one change. */
  readonly more?: true;
  /** The save counts once its session's file has reached this version. */
  readonly with?: number;
}

// ---- sections

const BETWEEN = ",\n";

export interface SectionRows {
  /** Without a line break at the end. */
  readonly rows: string;
  readonly salt: string;
}

export function rowsOf(text: string): SectionRows {
  const at = text.lastIndexOf(`${BETWEEN}"`);
  if (at < 0 || !text.startsWith("[") || !text.endsWith('"]'))
    throw new TypeError("a section is an array of records and a salt");
  return { rows: text.slice(1, at).replaceAll(BETWEEN, "\n"), salt: text.slice(at + 3, -2) };
}

export const sectionText = ({ rows, salt }: SectionRows): string =>
  `[${rows.replaceAll("\n", BETWEEN)}${BETWEEN}"${salt}"]`;

/**
 * The bytes of a section's text, from those of its rows: a comma for each record, the salt, and
 * five characters around them.
 */
const textBytesOf = (section: Section | undefined, records: number): number =>
  section === undefined || section[0] === 0 ? 0 : section[0] + records + section[1].length + 5;

// ---- seals

const OPEN = '{"seal":';
const SUM = ',"sum":"';
const SUM_CHARS = 8;
const END_CHARS = SUM.length + SUM_CHARS + 2;

const sumOf = (bytes: string | Uint8Array): string =>
  crc32(bytes).toString(16).padStart(SUM_CHARS, "0");

export interface SaveText {
  readonly seal: Seal;
  /** The rows of the save, each with its line break. */
  readonly text: string;
}

export function saveText(
  save: Save,
  refs: readonly Digest[],
  waits: Pick<Seal, "more" | "with"> = {},
): SaveText {
  const {
    seq,
    at,
    nItems,
    nState,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    check,
    itemsDigest,
    stateDigest,
    mark,
    note,
  } = save;
  let text = "";
  const section = (content: string | null, digest: Digest | null): Section | undefined => {
    if (content === null) return digest === null ? undefined : [0, "", digest];
    const { rows, salt } = rowsOf(content);
    text += `${rows}\n`;
    return [Buffer.byteLength(rows), salt, digest ?? ""];
  };
  const items = section(save.items, itemsDigest);
  const state = section(save.state, stateDigest);
  if (mark !== null) text += `${mark}\n`;
  const seal: { -readonly [K in keyof Seal]: Seal[K] } = {
    seq,
    at,
    n: [nItems, nState, nMark, nMessages],
    prior,
    base,
    prev,
    check,
  };
  if (items !== undefined) seal.items = items;
  if (state !== undefined) seal.state = state;
  if (mark !== null) seal.mark = Buffer.byteLength(mark);
  if (waits.more !== undefined) seal.more = waits.more;
  if (waits.with !== undefined) seal.with = waits.with;
  if (refs.length > 0) seal.refs = refs;
  if (note !== null) seal.note = note;
  const row = `${OPEN}${JSON.stringify(seal)}`;
  return { seal, text: `${text}${row}${SUM}${sumOf(row)}"}\n` };
}

/** Whether a row begins as a seal does. */
export const mayBeSeal = (row: Buffer): boolean => row.toString("latin1", 0, OPEN.length) === OPEN;

/** The seal in a row, or undefined where the row is none, or is not whole. */
export function sealOf(row: Buffer): Seal | undefined {
  const at = row.length - END_CHARS;
  if (at < OPEN.length || !mayBeSeal(row)) return undefined;
  if (row.toString("latin1", at) !== `${SUM}${sumOf(row.subarray(0, at))}"}`) return undefined;
  try {
    return JSON.parse(row.toString("utf8", OPEN.length, at)) as Seal;
  } catch {
    return undefined;
  }
}

/**
 * The seal in a row that was found to be one before. What it says of its save is covered by
 * digests, which are checked by who reads it.
 */
export function knownSeal(row: string): Seal | undefined {
  try {
    const end = row.length - END_CHARS;
    return quickSeal(row, OPEN.length, end) ?? (JSON.parse(row.slice(OPEN.length, end)) as Seal);
  } catch {
    return undefined;
  }
}

/** Bytes that its sections take up before the seal, with their line breaks. */
export function bytesBefore({ items, state, mark }: Seal): {
  readonly items: number;
  readonly state: number;
  readonly mark: number;
} {
  const rows = (bytes: number | undefined): number =>
    bytes === undefined || bytes === 0 ? 0 : bytes + 1;
  return { items: rows(items?.[0]), state: rows(state?.[0]), mark: rows(mark) };
}

/** What the texts of a save's sections take up. */
export const textBytes = ({ items, state, mark = 0, n }: Seal): number =>
  textBytesOf(items, n[0]) + textBytesOf(state, n[1]) + mark;

/**
 * A save from its seal. `rows` gives the text of a section's rows: called only for those that are
 * there and wanted.
 */
export function saveOf(
  branch: BranchId,
  seal: Seal,
  rows: (section: "items" | "state" | "mark") => string,
  wants: { readonly items: boolean; readonly state: boolean },
): Save {
  const { seq, at, n, prior, base, prev, check, items, state, mark, note } = seal;
  const text = (name: "items" | "state", section: Section | undefined): string | null =>
    !wants[name] || section === undefined || section[0] === 0
      ? null
      : sectionText({ rows: rows(name), salt: section[1] });
  return {
    branch,
    seq,
    at,
    nItems: n[0],
    nState: n[1],
    nMark: n[2],
    nMessages: n[3],
    prior,
    base,
    prev,
    check,
    itemsDigest: items === undefined ? null : items[2],
    stateDigest: state === undefined ? null : state[2],
    items: text("items", items),
    state: text("state", state),
    mark: mark === undefined ? null : rows("mark"),
    note: note ?? null,
  };
}

/** Whether it is the save that was read: the same records, the same sections there and gone. */
export function isAsRead(seal: Seal, was: Save): boolean {
  const gone = (section: Section | undefined): boolean => section === undefined || section[0] === 0;
  return (
    seal.seq === was.seq &&
    seal.n[0] + seal.n[1] + seal.n[2] === was.nItems + was.nState + was.nMark &&
    seal.check === was.check &&
    (seal.note ?? null) === was.note &&
    gone(seal.items) === (was.items === null) &&
    gone(seal.state) === (was.state === null) &&
    (seal.mark === undefined) === (was.mark === null)
  );
}
