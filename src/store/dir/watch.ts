/** Tells when files change. The system's own notices come at once where they come; a look now and then finds the rest. */
import { type FSWatcher, lstatSync, watch } from "node:fs";
import { join } from "node:path";
import { namesIn } from "./files.js";

const EVERY_MS = 200;

/** The files of a session. */
export const watchSession = (directory: string, wake: () => void): (() => void) => watchBy(directory, sessionSignature, wake);

/** The directory of markers, which is touched whenever mail comes (waiting.ts). */
export const watchWaiting = (directory: string, wake: () => void): (() => void) => watchBy(directory, directorySignature, wake);

function watchBy(directory: string, signature: (directory: string) => string, wake: () => void): () => void {
  let seen = signature(directory);
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
    const now = signature(directory);
    if (now === seen) return;
    seen = now;
    wake();
  }, EVERY_MS).unref();
  return () => {
    clearInterval(timer);
    watcher?.close();
  };
}

function directorySignature(directory: string): string {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  return found === undefined ? "" : `${found.ino} ${found.mtimeMs}`;
}

function sessionSignature(directory: string): string {
  try {
    const names = [...namesIn(directory).filter((name) => name.endsWith(".jsonl")), "session.json", "inbox"];
    return names
      .map((name) => {
        const found = lstatSync(join(directory, name), { throwIfNoEntry: false });
        return found && `${name} ${found.ino} ${found.size} ${found.mtimeMs}`;
      })
      .join("\n");
  } catch {
    return "";
  }
}
