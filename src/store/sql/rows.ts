/** Rows of the database, and what the port calls them. */
import type { Digest } from "../../core/digest.js";
import { type ErrorDetails, HoldfastError, quote } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import type { Save } from "../../core/save.js";
import type { LineRow, Mail, SessionRow } from "../port.js";
import type { Param, Row } from "./driver.js";

/** In the order of the statements' placeholders. */
export function saveParams(line: number, save: Save): Param[] {
  const { seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state } = save;
  return [line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state];
}

export function saveRow(line: LineId, row: Row): Save {
  const [seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state] =
    row as unknown[];
  if (
    !(isWhole(seq) && isWhole(at) && isWhole(nItems) && isWhole(nState) && isWhole(nMark) && isWhole(nMessages)) ||
    !(isWhole(prior) && isWhole(base) && isText(prev) && isText(check) && isTextOrNull(itemsDigest) && isTextOrNull(stateDigest)) ||
    !(isTextOrNull(mark) && isTextOrNull(note) && isTextOrNull(items) && isTextOrNull(state))
  )
    throw damaged(`The save at ${line}-${String(seq)}`, { line });
  return { line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state };
}

export function sessionRow(row: Row): SessionRow {
  const [no, id, status, agent, head, epoch, until, lease, version, archived, tags, label] = row as unknown[];
  if (
    !(isWhole(no) && isText(id) && isText(status) && isTextOrNull(agent) && isText(head) && isWhole(epoch) && isWhole(until)) ||
    !(isText(lease) && isWhole(version) && isWhole(archived) && isText(tags) && isText(label))
  )
    throw damaged(`Session ${quote(String(id))}`, isText(id) ? { sessionId: id } : {});
  return {
    no,
    id,
    head: { status, agent, text: head },
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
