/**
 * Sees that another connection has changed the file: SQLite counts that, and to ask for the count
 * costs a microsecond.
 */
import type { Watching } from "../database.js";
import type { Driver, Statement } from "./driver/driver.js";

const EVERY_MS = 10;

export class SqliteWatch implements Watching {
  readonly #version: Statement;
  readonly #wakes = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;
  #seen: unknown;

  constructor(db: Driver) {
    this.#version = db.prepare("PRAGMA data_version");
  }

  /** The count is of the whole file: it does not tell sessions apart. */
  watch(_session: string | undefined, wake: () => void): () => void {
    // Each its own, so that the same function may watch twice.
    const own = () => wake();
    this.#wakes.add(own);
    if (this.#timer === undefined) {
      this.#seen = this.#look();
      this.#timer = setInterval(() => this.#check(), EVERY_MS).unref();
    }
    return () => {
      this.#wakes.delete(own);
      if (this.#wakes.size === 0) this.end();
    };
  }

  end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #check(): void {
    const now = this.#look();
    if (now === this.#seen) return;
    this.#seen = now;
    for (const wake of [...this.#wakes]) wake();
  }

  /** A file that is busy or failing says nothing here; whoever reads it is told. */
  #look(): unknown {
    try {
      return this.#version.get()?.[0];
    } catch {
      return undefined;
    }
  }
}
