/**
 * Which sessions an inbox message waits for: an empty file for each in one directory, named as the
 * session's own directory is, so that a claim lists these and does not look into every inbox.
 *
 * MARKER-1  whoever posts first writes a draft of the inbox, then the marker, and only then makes
 *           inbox messages of the draft: where an inbox message waits, its marker was there before,
 *           and will last.
 * MARKER-2  a marker that may be needless is set aside, under a name that still counts, then the
 *           inbox is looked at, and the marker goes only where neither inbox messages nor a draft
 *           was found. One who posts meanwhile puts another; one who found it there before is seen
 *           by its draft.
 *
 * So a process that is killed, and a power cut, at any point leave a marker too many perhaps, and
 * never one too few.
 */
import { closeSync, lstatSync, renameSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../files/failures.js";
import {
  checkDirectory,
  createFile,
  makeDirectory,
  namesIn,
  notAFile,
  remove,
  syncDirectory,
} from "../files/files.js";
import { isName } from "../files/names.js";

/** No name ends with it. */
const ASIDE = "~";

export class InboxMarkers {
  readonly path: string;

  constructor(root: string) {
    this.path = join(root, "waiting");
  }

  /** MARKER-1 */
  mark(name: string): void {
    makeDirectory(this.path);
    this.#add(join(this.path, name));
    // Also one that was there already: who put it may not have said so to the disk yet.
    syncDirectory(this.path);
  }

  #add(path: string): void {
    for (;;) {
      try {
        return closeSync(createFile(path));
      } catch (error) {
        if (codeOf(error) !== "EEXIST") throw error;
      }
      const there = lstatSync(path, { throwIfNoEntry: false });
      if (there?.isFile()) return;
      if (there !== undefined) throw notAFile(path);
    }
  }

  /**
   * The inbox is there. Tells those who watch the directory, who would have found nothing when the
   * marker came.
   */
  posted(name: string): void {
    // One that was asleep for longer than a draft counts may find it gone.
    if (!this.has(name)) return this.mark(name);
    try {
      const now = new Date();
      utimesSync(this.path, now, now);
    } catch {
      // It was a hint.
    }
  }

  /**
   * The names of sessions' directories that are marked. What else somebody put there is not ours.
   */
  names(): string[] {
    checkDirectory(this.path);
    const marked = namesIn(this.path).map((name) =>
      name.endsWith(ASIDE) ? name.slice(0, -ASIDE.length) : name,
    );
    return [...new Set(marked)].filter(isName);
  }

  has(name: string): boolean {
    return [name, name + ASIDE].some(
      (each) => lstatSync(join(this.path, each), { throwIfNoEntry: false }) !== undefined,
    );
  }

  /** MARKER-2. `waits` looks whether there is inbox messages, or a draft of some. */
  settle(name: string, waits: () => boolean): void {
    const path = join(this.path, name);
    try {
      renameSync(path, path + ASIDE);
    } catch (error) {
      if (codeOf(error) !== "ENOENT") throw error;
    }
    if (!waits()) remove(path + ASIDE);
  }
}
