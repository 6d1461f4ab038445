/** Rows of the database, and what the port calls them. */
import type { Save } from "../../core/journal/save.js";
import { CHECK_CHARS } from "../../core/journal/save-digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { BranchId } from "../../core/values/ids.js";
import type { DocRow, WholeDoc } from "../port/documents.js";
import type { InboxMessage } from "../port/inbox.js";
import type { BranchRow, Present, SessionRow } from "../port/rows.js";
import type { Param, Row } from "./database.js";
import { columnsOf } from "./statements.js";

/** In the order of the statements' placeholders. `section` says how a database keeps sections. */
export function saveParams(
  branch: number,
  save: Save,
  section: (text: string | null) => Param,
): Param[] {
  return [
    branch,
    save.seq,
    pack(save),
    section(save.mark),
    save.note,
    section(save.items),
    section(save.state),
  ];
}

export function saveRow(branch: BranchId, row: Row): Save {
  const [seq, head, mark, note, items, state] = row;
  const {
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
  } = unpack(text(head)) ?? nothing;
  return {
    branch,
    seq: whole(seq),
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
    mark: textOrNull(mark),
    note: textOrNull(note),
    items: textOrNull(items),
    state: textOrNull(state),
  };
}

type Header = Omit<Save, "branch" | "seq" | "mark" | "note" | "items" | "state">;

/**
 * What a save says of itself, in one column: as eleven, they were more than a third of the time of
 * reading it. Messages come first, so that SQL can count them.
 */
export function pack(save: Header): string {
  const {
    nMessages,
    nItems,
    nState,
    nMark,
    at,
    prior,
    base,
    prev,
    check,
    itemsDigest,
    stateDigest,
  } = save;
  return `${nMessages} ${nItems} ${nState} ${nMark} ${at} ${prior} ${base} ${check}${prev}${itemsDigest ?? NONE}${stateDigest ?? NONE}`;
}

const SPACE = 32;
const MINUS = 45;
const DIGEST_CHARS = 43;
/** In the place of a digest; none begins with it. */
const NONE = ".";

function unpack(head: string): Header | undefined {
  const numbers: number[] = [];
  let at = 0;
  while (numbers.length < 7 && at < head.length) {
    const isNegative = head.charCodeAt(at) === MINUS;
    let number = 0;
    for (at += isNegative ? 1 : 0; at < head.length; at++) {
      const code = head.charCodeAt(at);
      if (code === SPACE) break;
      if (code < 48 || code > 57) return undefined;
      number = number * 10 + code - 48;
    }
    at += 1;
    numbers.push(isNegative ? -number : number);
  }
  const [nMessages, nItems, nState, nMark, time, prior, base] = numbers as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const prev = at + CHECK_CHARS;
  const items = prev + DIGEST_CHARS;
  const state = items + (head[items] === NONE ? 1 : DIGEST_CHARS);
  if (numbers.length < 7 || head.length !== state + (head[state] === NONE ? 1 : DIGEST_CHARS))
    return undefined;
  return {
    nMessages,
    nItems,
    nState,
    nMark,
    at: time,
    prior,
    base,
    check: head.slice(at, prev),
    prev: head.slice(prev, items),
    itemsDigest: state === items + 1 ? null : head.slice(items, state),
    stateDigest: head.length === state + 1 ? null : head.slice(state),
  };
}

/** Of a head that cannot be read. No save has this check. */
const nothing: Header = {
  nMessages: 0,
  nItems: 0,
  nState: 0,
  nMark: 0,
  at: 0,
  prior: 0,
  base: 0,
  check: "",
  prev: "",
  itemsDigest: null,
  stateDigest: null,
};

export const checkOf = (head: unknown): string => (unpack(text(head)) ?? nothing).check;

export function sessionRow(row: Row): SessionRow {
  const [
    no,
    id,
    status,
    agent,
    branch,
    due,
    head,
    epoch,
    until,
    lease,
    version,
    archived,
    tags,
    label,
  ] = row;
  return {
    no: whole(no),
    id: text(id),
    head: {
      status: text(status),
      agent: textOrNull(agent),
      branch: text(branch) as BranchId,
      due: due === null ? null : whole(due),
      text: text(head),
    },
    lease: { epoch: whole(epoch), until: whole(until), text: text(lease) },
    label: {
      version: whole(version),
      archived: archived === 1,
      tags: tagsOf(text(tags)),
      text: text(label),
    },
  };
}

function tagsOf(list: string): readonly string[] {
  if (list === "[]") return [];
  try {
    return JSON.parse(list) as string[];
  } catch {
    return [list];
  }
}

export function branchRow(row: Row): BranchRow {
  const [no, id, owned, session, forkBranch, forkSeq, body] = row;
  // A branch without a fork point has the number 0, and nothing else.
  const forkPoint =
    forkBranch === null && forkSeq === 0
      ? null
      : { branch: text(forkBranch) as BranchId, seq: whole(forkSeq) };
  return {
    no: whole(no),
    id: text(id) as BranchId,
    owned: owned === 1,
    session: textOrNull(session),
    forkPoint,
    text: text(body),
  };
}

export function presentRow(row: Row): Present {
  const session = sessionRow(row);
  const branch = row.slice(columnsOf.session, columnsOf.session + columnsOf.branch);
  const end = row.slice(columnsOf.session + columnsOf.branch);
  return {
    row: session,
    branch: branch[0] === null ? undefined : branchRow(branch),
    end: end[0] === null ? undefined : saveRow(session.head.branch, [...end, null, null]),
  };
}

export const docRow = ([no, kind, id, whose, version, body]: Row): DocRow => ({
  no: whole(no),
  kind: text(kind),
  id: text(id),
  of: textOrNull(whose),
  version: whole(version),
  text: text(body),
});

export const docWithBody = (row: Row): WholeDoc => ({
  ...docRow(row),
  body: textOrNull(row[6]),
});

export const inboxRow = ([id, body, due]: Row): InboxMessage => ({
  id: text(id),
  text: text(body),
  due: whole(due),
});

export const blobRow = ([bytes]: Row): Uint8Array =>
  bytes instanceof Uint8Array ? bytes : new Uint8Array();

/** The one number that no digest covers, and that must not fall: it is not guessed. */
export function epochRow([epoch]: Row, session: string): number {
  if (!Number.isSafeInteger(epoch))
    throw new HoldfastError(
      "CORRUPT",
      `What is left of session ${quote(session)}, which was deleted, is damaged.`,
      { sessionId: session },
    );
  return epoch as number;
}

// A changed bit can make a number of a text, or bytes: SQLite looks at what it is given, not at
// what it finds. What cannot be is read as something that never is, so that whoever checks the row
// against its digest finds the damage there, and not in the rows beside it.
const whole = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : -1);
const text = (value: unknown): string => (typeof value === "string" ? value : "\0damaged");
const textOrNull = (value: unknown): string | null => (value === null ? null : text(value));
