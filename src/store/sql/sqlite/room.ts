/**
 * Giving room back. What is deleted leaves free pages in the file, which the next saves use; to make the file smaller, pages from its end
 * are moved there a few at a time. Stores made before that was noted for them have no way but to be copied whole, which stops writers: that
 * is only done where it is soon over.
 */
import type { Freed } from "../../port.js";
import { translate } from "./committer.js";
import { type Driver, failureOf } from "./driver.js";

/** How large a store may be to be copied whole: some 50 ms. */
const COPIED_BYTES = 16 * 1024 * 1024;
const INCREMENTAL = 2;
const MOVED_PAGES = 100;

export class Room {
  readonly #db: Driver;

  constructor(db: Driver) {
    this.#db = db;
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
    if (this.#db.inTransaction || pages * bytes > COPIED_BYTES || this.#number("freelist_count") < pages / 4) return none;
    this.#db.exec("PRAGMA auto_vacuum = INCREMENTAL; VACUUM");
    return { count: 0, bytes: (pages - this.#number("page_count")) * bytes };
  }

  /**
   * Moves the log into the file as soon as there is something to move. SQLite does so by itself after a thousand pages, and whoever commits
   * then waits for all of them.
   */
  shortenLog(): void {
    const [, pages = 0, moved = 0] = this.#checkpoint("NOOP");
    if (pages - moved >= MOVED_PAGES) this.#checkpoint("PASSIVE");
  }

  /** Makes the log empty: only then is the file shorter. Where others read or write just now, that is left to them. */
  emptyLog(): void {
    // Most of it without keeping anybody from writing; what is left is soon done.
    this.#checkpoint("PASSIVE");
    this.#checkpoint("TRUNCATE");
  }

  /** Answers whether somebody was in the way, how many pages are in the log, and how many of them are in the file. */
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
