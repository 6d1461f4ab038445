/**
 * Tells when files change. The system's own notices come at once where they come; a look now and
 * then finds the rest.
 */
import { closeSync, type FSWatcher, lstatSync, watch } from "node:fs";
import { join } from "node:path";
import { namesIn, openFile, readRange } from "../files/files.js";
import { stampOf } from "../files/stamps.js";
import { isEntries, parseIndexRow } from "./index-rows.js";

const EVERY_MS = 200;

/** The files of a session. */
export const watchSession = (directory: string, wake: () => void): (() => void) =>
  watchBy(directory, sessionSignature, wake);

/**
 * The directory of markers, which is touched whenever mail comes (waiting.ts); and the index, where
 * other processes say what is due.
 */
export function watchDue(waiting: string, index: string, wake: () => void): () => void {
  const entries = entrySignature(index);
  return watchBy(waiting, () => `${fileSignature(waiting)}\n${entries()}`, wake);
}

/** More than this is not read to learn whether it says something. */
const MOST_BYTES = 64 * 1024;

/**
 * Answers another text once the index may say more of sessions. Rows that only tell of the lock
 * being taken and released change nothing: processes that wait would wake each other by them, take
 * the lock, and never rest.
 */
export function entrySignature(path: string): () => string {
  let [inode, at, changes] = [-1, 0, 0];
  return () => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    const { ino = 0, size = 0 } = found ?? {};
    if (ino !== inode || size < at || size - at > MOST_BYTES) {
      [inode, at] = [ino, size];
      changes += 1;
    } else if (size > at) {
      const { bytes, isNews } = newRows(path, at, size);
      at += bytes;
      if (isNews) changes += 1;
    }
    return `${changes}`;
  };
}

/**
 * How many bytes of whole rows stand there, and whether one of them speaks of sessions, or cannot
 * be read.
 */
function newRows(
  path: string,
  from: number,
  to: number,
): { readonly bytes: number; readonly isNews: boolean } {
  const opened = openFile(path);
  if (opened === undefined) return { bytes: 0, isNews: false };
  try {
    const found = readRange(opened.fd, from, to);
    const bytes = found.lastIndexOf("\n") + 1;
    const rows = found.subarray(0, bytes).toString("latin1").split("\n").slice(0, -1);
    const isNews = rows.some((row) => {
      const parsed = parseIndexRow(Buffer.from(row, "latin1"));
      return parsed === undefined || isEntries(parsed);
    });
    return { bytes, isNews };
  } finally {
    closeSync(opened.fd);
  }
}

function watchBy(
  directory: string,
  signature: (directory: string) => string,
  wake: () => void,
): () => void {
  let seen = attempt(signature, directory);
  let watcher: FSWatcher | undefined;
  const follow = (): void => {
    try {
      watcher = watch(directory, { persistent: false }, () => wake());
      watcher.on("error", () => {});
    } catch {
      // It is not there yet, or the system has no more watches to give: the timer is enough.
    }
  };
  follow();
  const timer = setInterval(() => {
    if (watcher === undefined) follow();
    const now = attempt(signature, directory);
    if (now === seen) return;
    seen = now;
    wake();
  }, EVERY_MS).unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

/** A timer has no caller to tell: what cannot be looked at now is looked at later. */
function attempt(signature: (directory: string) => string, directory: string): string {
  try {
    return signature(directory);
  } catch {
    return "";
  }
}

function sessionSignature(directory: string): string {
  const names = [
    ...namesIn(directory).filter((name) => name.endsWith(".jsonl")),
    "session.json",
    "inbox",
  ];
  return names.map((name) => `${name} ${fileSignature(join(directory, name))}`).join("\n");
}

/** STAMP-1: what was touched a moment ago counts as changed at the next look too. */
function fileSignature(path: string): string {
  const found = lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return found === undefined ? "" : (stampOf(found) ?? `touched ${performance.now()}`);
}
