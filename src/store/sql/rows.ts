/** Rows of the database, and what the port calls them. */
import { HoldfastError, quote } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import type { Save } from "../../core/save.js";
import type { LineRow, SessionRow } from "../port.js";
import type { Param, Row } from "./driver.js";

/** In the order of the statements' placeholders. */
export function saveParams(line: number, save: Save): Param[] {
  const { seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state } = save;
  return [line, seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state];
}

export function saveRow(line: LineId, row: Row): Save {
  const [seq, at, nItems, nState, nMark, nMessages, prior, base, prev, check, itemsDigest, stateDigest, mark, note, items, state] =
    row as unknown[];
  return {
    line,
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
    items,
    state,
  } as unknown as Save;
}

export function sessionRow(row: Row): SessionRow {
  const [no, id, status, agent, head, epoch, until, lease, version, archived, tags, label] = row as [
    number,
    string,
    string,
    string | null,
    string,
    number,
    number,
    string,
    number,
    number,
    string,
    string,
  ];
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
  const [no, id, owned, session, originLine, originSeq, text] = row as [
    number,
    LineId,
    number,
    string | null,
    LineId | null,
    number,
    string,
  ];
  return { no, id, owned: owned === 1, session, origin: originLine === null ? null : { line: originLine, seq: originSeq }, text };
}
