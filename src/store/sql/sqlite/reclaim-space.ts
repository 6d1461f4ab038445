/**
 * Giving room back. What is deleted leaves free pages in the file, which the next saves use; to
 * make the file smaller, pages from its end are moved there a few at a time. Stores made before
 * that was noted for them have no way but to be copied whole, which stops writers: that is only
 * done where it is soon over.
 *
 * RECLAIM-1  the log is moved into the file only where the disk has room for all that the file
 *            grows by. Half of it would take the room that a delete needs, and free nothing.
 *            Meanwhile deletes go on in the log, and make what there is to move smaller.
 */
import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Freed } from "../../port/reclaim.js";
import { translate } from "./driver/committer.js";
import { type Driver, failureOf } from "./driver/driver.js";

/** How large a store may be to be copied whole: some 50 ms. */
const COPIED_BYTES = 16 * 1024 * 1024;
const INCREMENTAL = 2;
const MOVED_PAGES = 100;
/** After so many pages in the log SQLite moves it by itself: its own default. */
const LOG_PAGES = 1_000;

export class SpaceReclaimer {
  readonly #db: Driver;
  readonly #file: string;
  #isHeld = false;

  constructor(db: Driver, file: string) {
    this.#db = db;
    this.#file = file;
  }

  /**
   * Whether the log stays where it is, because the disk has no room for it in the file (RECLAIM-1).
   */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Makes the file so many pages shorter at most. */
  giveBack(limit: number): Freed {
    if (this.#number("auto_vacuum") !== INCREMENTAL) return this.#copied();
    const before = this.#number("page_count");
    const free = this.#number("freelist_count");
    if (free === 0 || limit <= 0) return none;
    this.#db.exec(`PRAGMA incremental_vacuum(${Math.min(free, Math.floor(limit))})`);
    const count = before - this.#number("page_count");
    // With the pages that were asked for go those that noted where they are pointed to from.
    return { count: Math.min(count, limit), bytes: count * this.#number("page_size") };
  }

  #copied(): Freed {
    const pages = this.#number("page_count");
    const bytes = this.#number("page_size");
    if (
      this.#db.inTransaction ||
      pages * bytes > COPIED_BYTES ||
      this.#number("freelist_count") < pages / 4
    )
      return none;
    this.#db.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    return { count: 0, bytes: (pages - this.#number("page_count")) * bytes };
  }

  /**
   * Moves the log into the file as soon as there is something to move. SQLite does so by itself
   * after a thousand pages, and whoever commits then waits for all of them.
   */
  shortenLog(): void {
    const [, pages = 0, moved = 0] = this.#checkpoint("NOOP");
    if (pages - moved >= MOVED_PAGES && this.#fits(() => this.#number("page_count")))
      this.#checkpoint("PASSIVE");
  }

  /**
   * Makes the log empty: only then is the file shorter. Where others read or write just now, that
   * is left to them.
   */
  emptyLog(): void {
    if (!this.letGo()) return;
    // Most of it without keeping anybody from writing; what is left is soon done.
    this.#checkpoint("PASSIVE");
    this.#checkpoint("TRUNCATE");
  }

  /**
   * Lets SQLite move the log by itself, after some commit, or keeps it from that: where there is
   * room for it, and where not (RECLAIM-1).
   */
  letGo(): boolean {
    const fits = this.#fits(() => this.#number("page_count"));
    if (fits !== this.#isHeld) return fits;
    this.#isHeld = !fits;
    try {
      this.#db.exec(`PRAGMA wal_autocheckpoint = ${fits ? LOG_PAGES : 0}`);
    } catch {
      // The store was closed meanwhile.
    }
    return fits;
  }

  /**
   * Whether the log can be moved into the file once the file is shorter by its free pages. Each
   * page that is in use may have to be moved to the front for that, which the log grows by.
   */
  get isShrinkable(): boolean {
    return this.#fits(() => 2 * (this.#number("page_count") - this.#number("freelist_count")));
  }

  /** Whether there is room for a file of so many pages. */
  #fits(pages: () => number): boolean {
    try {
      const grows = pages() * this.#number("page_size") - statSync(this.#file).size;
      if (grows <= 0) return true;
      const { bavail, bsize } = statfsSync(dirname(this.#file));
      return bavail * bsize >= grows;
    } catch {
      // What is wrong there is told by what is tried next.
      return true;
    }
  }

  /**
   * Answers whether somebody was in the way, how many pages are in the log, and how many of them
   * are in the file.
   */
  #checkpoint(how: "NOOP" | "PASSIVE" | "TRUNCATE"): readonly number[] {
    try {
      return (this.#db.prepare(`PRAGMA wal_checkpoint(${how})`).get() ?? []) as number[];
    } catch (error) {
      // On a full disk the file cannot grow. What is in the log stays there, and is as safe.
      if (failureOf(error) === "busy" || failureOf(error) === "full") return [];
      throw translate(error);
    }
  }

  #number(pragma: string): number {
    return this.#db.prepare(`PRAGMA ${pragma}`).get()?.[0] as number;
  }
}

const none: Freed = { count: 0, bytes: 0 };
