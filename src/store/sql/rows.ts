/** Rows of the database, and what the port calls them. */
import type { Digest } from "../../core/digest.js";
import { type ErrorDetails, HoldfastError, quote } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import { CHECK_CHARS, type Save } from "../../core/save.js";
import type { LineRow, Mail, Present, SessionRow } from "../port.js";
import type { Param, Row } from "./driver.js";

/** In the order of the statements' placeholders. */
export function saveParams(line: number, save: Save): Param[] {
  return [line, save.seq, pack(save), save.mark, save.note, save.items, save.state];
}

export function saveRow(line: LineId, row: Row): Save {
  const [seq, head, mark, note, items, state] = row as unknown[];
  if (!(isWhole(seq) && isText(head) && isTextOrNull(mark) && isTextOrNull(note) && isTextOrNull(items) && isTextOrNull(state)))
    throw damaged(`A save of line ${line}`, { line });
  const header = unpack(head);
  if (header === undefined) throw damaged(`The save at ${line}-${seq}`, { line, seq });
  const { at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest } = header;
  return { line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state };
}

type Header = Omit<Save, "line" | "seq" | "mark" | "note" | "items" | "state">;

/**
 * What a save says of itself, in one column: as eleven, they were half the time of reading it. Messages come first, so that SQL can
 * count them.
 */
export function pack(save: Header): string {
  const { nMessages, nItems, nState, nMark, at, prior, base, prev, check, itemsDigest, stateDigest } = save;
  return `${nMessages} ${nItems} ${nState} ${nMark} ${at} ${prior} ${base} ${check}${prev}${itemsDigest ?? NONE}${stateDigest ?? NONE}`;
}

const SPACE = 32;
const MINUS = 45;
const DIGEST_CHARS = 43;
/** In the place of a digest; none begins with it. */
const NONE = ".";

function unpack(text: string): Header | undefined {
  const numbers: number[] = [];
  let at = 0;
  while (numbers.length < 7 && at < text.length) {
    const isNegative = text.charCodeAt(at) === MINUS;
    let number = 0;
    for (at += isNegative ? 1 : 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === SPACE) break;
      if (code < 48 || code > 57) return undefined;
      number = number * 10 + code - 48;
    }
    at += 1;
    numbers.push(isNegative ? -number : number);
  }
  const [nMessages, nItems, nState, nMark, time, prior, base] = numbers as [number, number, number, number, number, number, number];
  const prev = at + CHECK_CHARS;
  const items = prev + DIGEST_CHARS;
  const state = items + (text[items] === NONE ? 1 : DIGEST_CHARS);
  if (numbers.length < 7 || text.length !== state + (text[state] === NONE ? 1 : DIGEST_CHARS)) return undefined;
  return {
    nMessages,
    nItems,
    nState,
    nMark,
    at: time,
    prior,
    base,
    check: text.slice(at, prev),
    prev: text.slice(prev, items),
    itemsDigest: state === items + 1 ? null : text.slice(items, state),
    stateDigest: text.length === state + 1 ? null : text.slice(state),
  };
}

export function sessionRow(row: Row): SessionRow {
  const [no, id, status, agent, line, head, epoch, until, lease, version, archived, tags, label] = row as unknown[];
  if (
    !(
      isWhole(no) &&
      isText(id) &&
      isText(status) &&
      isTextOrNull(agent) &&
      isText(line) &&
      isText(head) &&
      isWhole(epoch) &&
      isWhole(until)
    ) ||
    !(isText(lease) && isWhole(version) && isWhole(archived) && isText(tags) && isText(label))
  )
    throw damaged(`Session ${quote(String(id))}`, isText(id) ? { sessionId: id } : {});
  return {
    no,
    id,
    head: { status, agent, line: line as LineId, text: head },
    lease: { epoch, until, text: lease },
    label: { version, archived: archived === 1, tags: parseTags(tags, id), text: label },
  };
}

function parseTags(text: string, session: string): readonly string[] {
  if (text === "[]") return [];
  try {
    return JSON.parse(text) as string[];
  } catch (cause) {
    throw new HoldfastError("CORRUPT", `The tags of session ${quote(String(session))} are damaged.`, { sessionId: session }, cause);
  }
}

export function lineRow(row: Row): LineRow {
  const [no, id, owned, session, originLine, originSeq, text] = row as unknown[];
  if (!(isWhole(no) && isText(id) && isTextOrNull(session) && isTextOrNull(originLine) && isWhole(originSeq) && isText(text)))
    throw damaged(`Line ${quote(String(id))}`, isText(id) ? { line: id } : {});
  const origin = originLine === null ? null : { line: originLine as LineId, seq: originSeq };
  return { no, id: id as LineId, owned: owned === 1, session, origin, text };
}

const SESSION_COLUMNS = 13;
const LINE_COLUMNS = 7;

export function presentRow(row: Row): Present {
  const session = sessionRow(row.slice(0, SESSION_COLUMNS));
  const line = row.slice(SESSION_COLUMNS, SESSION_COLUMNS + LINE_COLUMNS);
  const end = row.slice(SESSION_COLUMNS + LINE_COLUMNS);
  return {
    session,
    line: line[0] === null ? undefined : lineRow(line),
    end: end[0] === null ? undefined : saveRow(session.head.line, [...end, null, null]),
  };
}

export function mailRow([id, text]: Row): Mail {
  if (!(isText(id) && isText(text))) throw damaged("A message in an inbox", {});
  return { id, text };
}

export function blobRow([bytes]: Row, digest: Digest): Uint8Array {
  if (!(bytes instanceof Uint8Array)) throw damaged(`The blob ${digest}`, { found: digest });
  return bytes;
}

export function epochRow([epoch]: Row, session: string): number {
  if (!isWhole(epoch)) throw damaged(`What is left of session ${quote(session)}`, { sessionId: session });
  return epoch;
}

// A changed bit can make a number of a text, or bytes: SQLite looks at what it is given, not at what it finds.
const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isTextOrNull = (value: unknown): value is string | null => value === null || typeof value === "string";

const damaged = (what: string, where: ErrorDetails): HoldfastError =>
  new HoldfastError("CORRUPT", `${what} is damaged: a column holds what it cannot. Run verify to see what else is.`, where);
