/**
 * Tells when files change. The system's own notices come at once where they come; a look now and
 * then finds the rest.
 */
import { type FSWatcher, lstatSync, watch } from "node:fs";
import { join } from "node:path";
import { namesIn } from "../files/files.js";
import { stampOf } from "../files/stamps.js";

const EVERY_MS = 200;

/** The files of a session. */
export const watchSession = (directory: string, wake: () => void): (() => void) =>
  watchBy(directory, sessionSignature, wake);

/**
 * The directory of markers, which is touched whenever an inbox message comes (inbox-markers.ts);
 * and the log of changes, where other processes say which sessions are another than they were.
 */
export const watchDue = (waiting: string, log: string, wake: () => void): (() => void) =>
  watchBy(waiting, () => `${fileSignature(waiting)}\n${fileSignature(log)}`, wake);

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
