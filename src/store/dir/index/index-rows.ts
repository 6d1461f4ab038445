/**
 * The rows of the index: small JSON, each with a sum of its own, so that a changed bit is not taken
 * for another session.
 */
import { crc32 } from "node:zlib";
import type { LineId } from "../../../core/values/ids.js";
import type { Entry, LineEntry } from "./catalogue.js";

/**
 * A line as an array: number, id, owner where it is not the session itself (0: nobody), and origin.
 */
type PackedLine = readonly [
  no: number,
  id: string,
  owner?: string | 0 | 1,
  originLine?: string,
  originSeq?: number,
];

interface PackedEntry {
  readonly no: number;
  readonly id: string;
  readonly status?: string;
  readonly agent?: string;
  /** Absent for null. */
  readonly due?: number;
  readonly archived?: 1;
  readonly tags?: readonly string[];
  readonly lines?: readonly PackedLine[];
  readonly lastLine?: number;
  readonly cut?: readonly string[];
}

/**
 * What changed together stands in one row; the others say which store it is, which boot wrote what
 * follows, and that it was closed.
 */
export type IndexRow =
  | readonly Entry[]
  /** `made`: a word of its own for each file, so that another in its place is told from it. */
  | { readonly index: number; readonly store: string; readonly made: string }
  | { readonly boot: string }
  | { readonly closed: true };

const SUM_CHARS = 8;
const HEAD = SUM_CHARS + 4;

export function indexRow(row: IndexRow): string {
  const text = JSON.stringify(isEntries(row) ? row.map(pack) : row);
  return `["${sumOf(text)}",${text}]\n`;
}

/** The row, or undefined where it is damaged. Without its line break. */
export function parseIndexRow(bytes: Buffer): IndexRow | undefined {
  const end = bytes.length - 1;
  if (end < HEAD || bytes.toString("latin1", 0, HEAD) !== `["${sumOf(bytes.subarray(HEAD, end))}",`)
    return undefined;
  try {
    const row = JSON.parse(bytes.toString("utf8", HEAD, end)) as
      | readonly PackedEntry[]
      | Exclude<IndexRow, readonly Entry[]>;
    return Array.isArray(row) ? (row as readonly PackedEntry[]).map(unpack) : (row as IndexRow);
  } catch {
    return undefined;
  }
}

export const isEntries = (row: IndexRow): row is readonly Entry[] => Array.isArray(row);

const sumOf = (text: string | Uint8Array): string =>
  crc32(text).toString(16).padStart(SUM_CHARS, "0");

function pack({
  no,
  id,
  status,
  agent,
  due,
  archived,
  tags,
  lines,
  lastLine,
  cut,
}: Entry): PackedEntry {
  return {
    no,
    id,
    ...(status === null ? undefined : { status }),
    ...(agent === null ? undefined : { agent }),
    ...(due === null ? undefined : { due }),
    ...(archived ? { archived: 1 } : undefined),
    ...(tags.length === 0 ? undefined : { tags }),
    ...(lines.length === 0 ? undefined : { lines: lines.map((line) => packLine(line, id)) }),
    ...(lastLine === lines.at(-1)?.no ? undefined : { lastLine }),
    ...(cut.length === 0 ? undefined : { cut }),
  };
}

function packLine({ no, id, origin, owner }: LineEntry, home: string): PackedLine {
  const whose = owner === null ? 0 : owner === home ? 1 : owner;
  if (origin !== null) return [no, id, whose, origin.line, origin.seq];
  return whose === 1 ? [no, id] : [no, id, whose];
}

const none: readonly never[] = [];

function unpack(packed: PackedEntry): Entry {
  const {
    no,
    id,
    status = null,
    agent = null,
    due = null,
    archived,
    tags = none,
    lines: given = none,
    cut = none,
  } = packed;
  const lines = given.map(([lineNo, line, whose = 1, originLine, originSeq]) => ({
    no: lineNo,
    id: line as LineId,
    origin:
      originLine === undefined ? null : { line: originLine as LineId, seq: originSeq as number },
    owner: whose === 1 ? id : whose === 0 ? null : whose,
  }));
  return {
    no,
    id,
    status,
    agent,
    due,
    archived: archived === 1,
    tags,
    lines,
    lastLine: packed.lastLine ?? lines.at(-1)?.no ?? 0,
    cut,
  };
}
