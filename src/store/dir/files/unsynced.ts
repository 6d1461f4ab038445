/**
 * Journals whose sync failed. The system may have forgotten what it could not write, and report
 * success for the next sync of the same file.
 *
 * So such a journal is never synced again (VIEW-4, journal-file.ts). A marker beside it tells the next
 * writer, which writes the journal anew before it writes to it.
 *
 * A marker need not outlive a power cut: after that, the journal holds what the disk does. A kill
 * before the marker is there leaves none.
 */
import { closeSync, lstatSync } from "node:fs";
import { codeOf } from "./failures.js";
import { createFile, remove } from "./files.js";

const markerOf = (path: string): string => `${path}.unsynced`;

export class Unsynced {
  /** Journals that have no marker yet. */
  readonly #paths = new Set<string>();

  add(path: string): void {
    this.#paths.add(path);
    try {
      this.mark();
    } catch {
      // Tried again before the lock is released.
    }
  }

  /** Throws where a marker cannot be made: then no other process may write. */
  mark(): void {
    for (const path of this.#paths) {
      try {
        closeSync(createFile(markerOf(path)));
      } catch (error) {
        // There is one, or its directory is gone.
        if (codeOf(error) !== "EEXIST" && codeOf(error) !== "ENOENT") throw error;
      }
      this.#paths.delete(path);
    }
  }
}

export const isUnsynced = (path: string): boolean =>
  lstatSync(markerOf(path), { throwIfNoEntry: false }) !== undefined;

/** The journal was written anew. */
export const forgetUnsynced = (path: string): void => remove(markerOf(path));
