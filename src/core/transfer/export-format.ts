/**
 * The stream of an export: JSON text, one row for each thing, each sealed to the row before it.
 *
 * EXPORT-1  a row ends with a check over its text and the check before it: one that was changed,
 *           lost, doubled or moved is seen there.
 * EXPORT-2  the first row says the format, and every version of it is framed like this; the last
 *           row says how many there were.
 * EXPORT-3  a branch comes after the branch it begins on, its saves in their order, and a blob
 *           before the first save that refers to it. Each comes once, but where a session was begun
 *           again.
 * EXPORT-4  what belongs to a session stands together and ends with the session's own row: what
 *           comes after needs nothing that comes later.
 * EXPORT-5  agents' records come before the sessions, and need nothing of them.
 * EXPORT-6  no row is longer than a stated limit: what is long comes in parts before the row it
 *           belongs to.
 */
import { firstSeq, type Save } from "../journal/save.js";
import { CHECK_CHARS } from "../journal/save-digest.js";
import { type Digest, digest, isDigest } from "../values/digest.js";
import { type ErrorCode, errorTable, HoldfastError, quote } from "../values/errors.js";
import {
  type BranchId,
  isBranchId,
  isPlace,
  MAX_SEQ,
  type Place,
  type SessionId,
  sessionId,
} from "../values/ids.js";
import {
  fields,
  type Is,
  isCount,
  isObject,
  isText,
  isTime,
  listOf,
  oneOf,
} from "../values/shapes.js";

/** 2: agents come along, and sections that were rewritten. */
const FORMAT = 2;
/**
 * The longest row that is taken in, in characters. Those of an export are a few million at most.
 */
const MAX_ROW_CHARS = 64 * 1024 * 1024;
/** Longer texts and blobs come in parts of this size. */
const PART_CHARS = 1024 * 1024;
/** The most that parts may come to. */
const MAX_WHOLE_CHARS = 512 * 1024 * 1024;

export interface FirstRow {
  readonly holdfast: "export";
  readonly version: number;
  /** How many sessions will come, as far as was known. */
  readonly sessions: number;
}

/** A branch, or, where it came before, that it goes on behind `after`. */
export interface BranchText {
  readonly branch: BranchId;
  /** The session it belongs to; null for a past that others share and nobody in the export owns. */
  readonly of: SessionId | null;
  readonly forkPoint: Place | null;
  readonly after: number;
  readonly text: string;
  /** Absent where nothing of it was ever redacted. */
  readonly redacted?: Redactions;
}

/** The redactions of a branch: an id of each, and the first record that it may have changed. */
export type Redactions = readonly (readonly [id: string, from: number])[];

export const isRedactions: Is = listOf(
  (one) =>
    Array.isArray(one) &&
    one.length === 2 &&
    typeof one[0] === "string" &&
    /^[0-9a-f-]{36}$/.test(one[0]) &&
    isSeq(one[1]),
);

/**
 * A piece of what the next blob or save says: its bytes, or the text of one of its sections, begin
 * with it.
 */
export interface PartRow {
  readonly part: "blob" | "items" | "state";
  readonly text: string;
}

export interface BlobRow {
  readonly blob: Digest;
  readonly base64: string;
}

/** A session, complete with all that came since the one before it. */
export interface SessionText {
  readonly session: SessionId;
  /** The branch it is on. */
  readonly on: BranchId;
  readonly branches: readonly BranchId[];
  readonly head: string;
  readonly label: string;
  /** It came as it was at a checkpoint, and has gone on since where it comes from. */
  readonly goneOn?: true;
  /** With it: the outcomes of calls that were open there. */
  readonly inboxMessages?: readonly InboxText[];
}

/** The most inbox messages that a session has with it, and the most text that one has. */
export const MAX_INBOX_MESSAGES = 1_000;
export const MAX_INBOX_CHARS = 1024 * 1024;

/** An inbox message for a session's inbox. */
export interface InboxText {
  readonly id: string;
  readonly text: string;
}

export interface LeftOut {
  readonly id: string;
  readonly code: ErrorCode;
  readonly message: string;
}

/** What is kept of an agent. */
export interface AgentText {
  readonly agent: string;
  readonly text: string;
}

interface EndRow {
  readonly end: { readonly rows: number; readonly sessions: number };
}

export type TransferRow =
  | FirstRow
  | BranchText
  | PartRow
  | BlobRow
  | { readonly save: Save }
  | SessionText
  | AgentText
  /**
   * What came since the last session is void: it was changed while it was read, and comes again.
   */
  | { readonly again: SessionId }
  /** What came since the last session is void: the session could not be exported. */
  | { readonly left: SessionId; readonly code: ErrorCode; readonly message: string }
  | EndRow;

// ---- writing

export const firstRow = (sessions: number): FirstRow => ({
  holdfast: "export",
  version: FORMAT,
  sessions,
});

export class RowWriter {
  #before = "";
  rows = 0;
  bytes = 0;

  write(row: TransferRow): string {
    // A terminal takes these for controls. As escapes they are read back equal, so what is stored
    // keeps its digests.
    const body = JSON.stringify(row).replace(
      /[\u007f-\u009f]/g,
      (c) => `\\u00${c.charCodeAt(0).toString(16)}`,
    );
    this.#before = checkOf(this.#before, body);
    this.rows += 1;
    const text = `${body.slice(0, -1)}${CHECK_KEY}${this.#before}"}\n`;
    this.bytes += Buffer.byteLength(text);
    return text;
  }
}

const CHECK_KEY = ',"check":"';
const SEAL_CHARS = CHECK_KEY.length + CHECK_CHARS + '"}'.length;
const SEAL = /^,"check":"([A-Za-z0-9_-]{16})"\}$/;
const checkOf = (before: string, body: string): string =>
  digest(before + body).slice(0, CHECK_CHARS);

/** The rows of a save: its long sections in parts, then itself with the rest. */
export function* saveRows(save: Save): Generator<TransferRow> {
  const rest = { items: save.items, state: save.state };
  for (const part of ["items", "state"] as const) {
    for (let text = rest[part]; text !== null && text.length > PART_CHARS; text = rest[part]) {
      // Not between the halves of a character: they would not survive being written apart.
      const at = isHigh(text.charCodeAt(PART_CHARS - 1)) ? PART_CHARS - 1 : PART_CHARS;
      yield { part, text: text.slice(0, at) };
      rest[part] = text.slice(at);
    }
  }
  yield { save: { ...save, ...rest } };
}

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;

/** Whole groups of three bytes in each part, so that the parts' texts are one text. */
const PART_BYTES = (PART_CHARS / 4) * 3;

export function* blobRows(name: Digest, bytes: Uint8Array): Generator<TransferRow> {
  let at = 0;
  for (; bytes.length - at > PART_BYTES; at += PART_BYTES)
    yield { part: "blob", text: base64(bytes.subarray(at, at + PART_BYTES)) };
  yield { blob: name, base64: base64(bytes.subarray(at)) };
}

const base64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");

// ---- reading

/** Makes rows of text of pieces of any size. */
export class RowSplitter {
  #decoder = new TextDecoder("utf-8", { fatal: true });
  #rest = "";
  #rows = 0;

  *push(piece: string | Uint8Array): Generator<string> {
    const text = typeof piece === "string" ? this.#decode() + piece : this.#decode(piece);
    let from = 0;
    for (let to = text.indexOf("\n"); to !== -1; to = text.indexOf("\n", from)) {
      this.#grow(to - from);
      const row = this.#rest + text.slice(from, to);
      this.#rest = "";
      this.#rows += 1;
      from = to + 1;
      yield row;
    }
    this.#grow(text.length - from);
    this.#rest += text.slice(from);
  }

  /** What is left at the end, with no line break behind it. */
  end(): string {
    try {
      return this.#rest + this.#decoder.decode();
    } catch {
      // Cut inside a character: what there is of the row cannot be whole.
      return this.#rest;
    }
  }

  #decode(bytes?: Uint8Array): string {
    try {
      return bytes === undefined
        ? this.#decoder.decode()
        : this.#decoder.decode(bytes, { stream: true });
    } catch {
      throw badRow(this.#rows + 1, "is not UTF-8 text");
    }
  }

  #grow(by: number): void {
    if (this.#rest.length + by <= MAX_ROW_CHARS) return;
    throw new HoldfastError(
      "TOO_LARGE",
      `Row ${this.#rows + 1} is longer than ${MAX_ROW_CHARS} characters: no export has such rows.`,
      {
        row: this.#rows + 1,
        limit: MAX_ROW_CHARS,
      },
    );
  }
}

/** Checks rows against the chain, and what they say against their shape. */
export class RowReader {
  #before = "";
  rows = 0;
  ended = false;

  read(text: string): TransferRow {
    const row = this.rows + 1;
    const seal = SEAL.exec(text.slice(-SEAL_CHARS));
    if (row === 1 && seal === null && !text.startsWith('{"holdfast":')) throw notAnExport();
    if (this.ended) throw badRow(row, "comes behind the last one");
    const body = `${text.slice(0, -SEAL_CHARS)}}`;
    if (seal === null || checkOf(this.#before, body) !== seal[1] || !text.isWellFormed())
      throw badRow(
        row,
        "does not match its check: it was changed, or a row before it is missing, doubled or out of order",
      );
    const read = rowOf(body, row);
    if (row === 1 ? !("holdfast" in read) : "holdfast" in read)
      throw badRow(row, "is not where it belongs");
    if ("holdfast" in read && read.version > FORMAT) throw newerFormat(read.version);
    if ("end" in read) {
      if (read.end.rows !== row) throw badRow(row, `says that there are ${read.end.rows} rows`);
      this.ended = true;
    }
    this.#before = seal[1] as string;
    this.rows = row;
    return read;
  }

  /** Whether a row is whole, without taking it in. */
  fits(text: string): boolean {
    const seal = SEAL.exec(text.slice(-SEAL_CHARS));
    return seal !== null && checkOf(this.#before, `${text.slice(0, -SEAL_CHARS)}}`) === seal[1];
  }
}

export function badRow(row: number, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `Row ${row} of the export ${why}. Sessions that were complete before it are there and sound; export the rest again.`,
    { row },
    cause,
  );
}

export function notAnExport(): HoldfastError {
  return new HoldfastError(
    "NOT_A_STORE",
    "This is not an export of Holdfast. Nothing was imported.",
  );
}

export function endedEarly(rows: number): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The export ended early, after row ${rows}. Sessions that were complete by then are imported; import the whole export again, and it goes on from there.`,
    { row: rows },
  );
}

function newerFormat(version: number): HoldfastError {
  return new HoldfastError(
    "NEWER_FORMAT",
    `The export has format ${version}, and this Holdfast knows formats up to ${FORMAT}. Import it with the Holdfast that wrote it, or a newer one.`,
    { found: version },
  );
}

// ---- shapes

type Fields = Readonly<Record<string, unknown>>;

const SHAPES: Readonly<Record<string, (row: Fields) => boolean>> = {
  // Of another version nothing else is known.
  holdfast: ({ holdfast, version, sessions }) =>
    holdfast === "export" &&
    isCount(version) &&
    version > 0 &&
    (version > FORMAT || isCount(sessions)),
  branch: ({ branch, of, forkPoint, after, text, redacted = [] }) =>
    isBranchId(branch) &&
    (of === null || isSession(of)) &&
    (forkPoint === null || isPlace(forkPoint)) &&
    isSeq(after) &&
    isText(text) &&
    isRedactions(redacted),
  part: ({ part, text }) =>
    (part === "blob" || part === "items" || part === "state") && isText(text),
  blob: ({ blob, base64: text }) =>
    isDigest(blob) && typeof text === "string" && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
  save: ({ save }) => isSave(save),
  session: ({ session, on, branches, head, label, goneOn, inboxMessages = [] }) =>
    isSession(session) &&
    isBranchId(on) &&
    Array.isArray(branches) &&
    branches.every(isBranchId) &&
    isText(head) &&
    isText(label) &&
    (goneOn === undefined || goneOn === true) &&
    Array.isArray(inboxMessages) &&
    inboxMessages.every(
      (inboxMessage) =>
        isObject(inboxMessage) && isSession(inboxMessage["id"]) && isText(inboxMessage["text"]),
    ),
  agent: ({ agent, text }) => isSession(agent) && isText(text),
  again: ({ again }) => isSession(again),
  left: ({ left, code, message }) =>
    isSession(left) &&
    typeof code === "string" &&
    Object.hasOwn(errorTable, code) &&
    isText(message) &&
    message.length <= 10_000,
  end: ({ end }) => isObject(end) && isCount(end["rows"]) && isCount(end["sessions"]),
};

function rowOf(body: string, no: number): TransferRow {
  let row: unknown;
  try {
    row = JSON.parse(body);
  } catch (error) {
    throw badRow(no, "is not JSON", error);
  }
  const kind = isObject(row) ? Object.keys(row)[0] : undefined;
  const shape = kind !== undefined && Object.hasOwn(SHAPES, kind) ? SHAPES[kind] : undefined;
  if (shape?.(row as Fields) !== true)
    throw badRow(no, `holds what no export does (${quote(kind ?? typeof row)})`);
  return row as TransferRow;
}

const textOrNull: Is = (value) => value === null || isText(value);
const digestOrNull: Is = (value) => value === null || isDigest(value);
const hasSaveFields = fields<Save>({
  branch: isBranchId,
  seq: (value) => isSeq(value),
  at: isTime,
  nItems: (value) => isSeq(value),
  nState: (value) => isSeq(value),
  nMark: oneOf(0, 1),
  nMessages: (value) => isSeq(value),
  prior: (value) => isSeq(value),
  base: (value) => isSeq(value),
  prev: isDigest,
  check: (value) => typeof value === "string" && /^[A-Za-z0-9_-]{16}$/.test(value),
  itemsDigest: digestOrNull,
  stateDigest: digestOrNull,
  items: textOrNull,
  state: textOrNull,
  mark: textOrNull,
  note: textOrNull,
});

function isSave(value: unknown): value is Save {
  if (!hasSaveFields(value)) return false;
  const save = value as Save;
  const first = firstSeq(save);
  // A gap points where its last save did, which may be into itself.
  return (
    first >= 1 &&
    first <= save.seq &&
    save.prior < (save.note === null ? first : save.seq) &&
    save.base <= save.seq
  );
}

const isSeq = (value: unknown): value is number => isCount(value) && value <= MAX_SEQ;

export function isSession(value: unknown): value is SessionId {
  try {
    return sessionId(value) === value;
  } catch {
    return false;
  }
}

// ---- what comes in parts

/** Puts together what came in parts. */
export class Parts {
  readonly #texts = { blob: [] as string[], items: [] as string[], state: [] as string[] };
  #chars = 0;

  get isEmpty(): boolean {
    return this.#chars === 0;
  }

  add({ part, text }: PartRow): void {
    this.#chars += text.length;
    if (this.#chars > MAX_WHOLE_CHARS) {
      throw new HoldfastError(
        "TOO_LARGE",
        `A value in the export is longer than ${MAX_WHOLE_CHARS} characters.`,
        {
          limit: MAX_WHOLE_CHARS,
        },
      );
    }
    this.#texts[part].push(text);
  }

  /** The bytes of a blob that ends here; undefined where they are not what its name says. */
  blob({ blob, base64: last }: BlobRow): Uint8Array | undefined {
    const bytes = Buffer.from(this.#take("blob") + last, "base64");
    return this.isEmpty && digest(bytes) === blob ? bytes : undefined;
  }

  /** The save that ends here; undefined where parts are left over. */
  save(save: Save): Save | undefined {
    const items = this.#whole("items", save.items);
    const state = this.#whole("state", save.state);
    return this.isEmpty ? { ...save, items, state } : undefined;
  }

  #whole(part: "items" | "state", last: string | null): string | null {
    return last === null ? null : this.#take(part) + last;
  }

  #take(part: PartRow["part"]): string {
    const text = this.#texts[part].join("");
    this.#texts[part] = [];
    this.#chars -= text.length;
    return text;
  }
}
