/**
 * A file of inbox messages. Its head says when it is due and what it comes behind, and is read
 * without the rest where that is large. A head alone is not checked: it says when to look, and what
 * is looked at is read whole, and checked.
 */
import { closeSync } from "node:fs";
import { basename } from "node:path";
import type { InboxMessage } from "../../port/inbox.js";
import { DAMAGED, unsealed } from "../files/checksummed-json.js";
import { openFile, readFile, readRange } from "../files/files.js";
import { nameOf } from "../files/names.js";

export interface MessageHead extends Omit<InboxMessage, "text"> {
  readonly n: number;
  readonly session: number;
  /** Absent where it is large, and was not read. */
  readonly text?: string;
}

export interface MessageFile extends MessageHead {
  readonly text: string;
}

/** Above that only the head of a file is read, where no more is asked for. */
const LARGE_BYTES = 64 * 1024;
const HEAD_BYTES = 4 * 1024;
const HEAD =
  /^\{\n(?: {2}"check": "[^"\n]*",\n)+ {2}"n": (\d+),\n {2}"session": (\d+),\n {2}"id": ("(?:[^"\\\n]|\\.)*"),\n {2}"due": (\d+),\n {2}"text": "/;

export const messageName = (id: string): string => `${nameOf(id)}.json`;

/**
 * What the file holds, if it is for this session. One that is damaged may be: its text says that it
 * is.
 */
export function readInbox(path: string, session: number): MessageFile | undefined {
  const text = readFile(path)?.toString();
  if (text === undefined) return undefined;
  // Where its head can be read, it waits for its time, as if it were sound: others need not look at
  // it before.
  const message = unsealed<MessageFile>(text) ?? {
    n: 0,
    id: path,
    due: 0,
    ...headIn(text, path),
    session,
    text: DAMAGED,
  };
  // Before there was inbox messages for later, its files did not say that it is due.
  return message.session === session ? { ...message, due: message.due ?? 0 } : undefined;
}

/** The same; without its text where that is large. */
export function glimpseMessage(path: string, session: number): MessageHead | undefined {
  const head = largeHead(path);
  return head?.session === session ? head : readInbox(path, session);
}

function largeHead(path: string): MessageHead | undefined {
  const opened = openFile(path);
  if (opened === undefined) return undefined;
  try {
    return opened.stat.size <= LARGE_BYTES
      ? undefined
      : headIn(readRange(opened.fd, 0, HEAD_BYTES).toString(), path);
  } finally {
    closeSync(opened.fd);
  }
}

function headIn(text: string, path: string): MessageHead | undefined {
  const [, n, session, named = "", due] = HEAD.exec(text.slice(0, HEAD_BYTES)) ?? [];
  const head = { n: Number(n), session: Number(session), id: idIn(named), due: Number(due) };
  const isSound =
    Number.isSafeInteger(head.n) &&
    Number.isSafeInteger(head.due) &&
    messageName(head.id) === basename(path);
  return isSound ? head : undefined;
}

function idIn(named: string): string {
  try {
    return JSON.parse(named) as string;
  } catch {
    return "";
  }
}
