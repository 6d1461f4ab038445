/**
 * Notices that the files of an open store were deleted, moved or replaced. The system lets a
 * process write on to such files, and what it writes there is found by no other process.
 *
 * GONE-1  nothing is acknowledged after that: the store looks between each write and its answer.
 * GONE-2  a store that only reads or waits learns of it too: it looks once a second.
 * GONE-3  once gone, it stays gone. A file that comes back under the same name may be another
 *         store.
 */
import { statSync } from "node:fs";
import { HoldfastError, quote } from "../core/values/errors.js";

const EVERY_MS = 1_000;

/**
 * Device and inode of what stands at a path, empty where nothing does. Two names of one file have
 * the same.
 */
export function identityOf(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found ? `${found.dev}:${found.ino}` : "";
}

/**
 * Whether something else stands at a path than before, or nothing. A path that the system does not
 * let us see is taken for unmoved.
 */
export function isMoved(path: string, before: string): boolean {
  try {
    return identityOf(path) !== before;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOTDIR";
  }
}

type FindMoved = () => string | undefined;

export class Presence {
  readonly #abort = new AbortController();
  readonly #findMoved: FindMoved;
  readonly #timer: NodeJS.Timeout;

  /**
   * `findMoved` answers the path of a file that is not the one that was opened, or undefined where
   * all are. `findMore` is asked once a second instead, where that may take longer.
   */
  constructor(findMoved: FindMoved, findMore: FindMoved = findMoved) {
    this.#findMoved = findMoved;
    // Never the reason that a process stays alive.
    this.#timer = setInterval(() => this.#look(findMore), EVERY_MS).unref();
  }

  /** Aborts when the store is gone. The reason is the error that every call gives from then on. */
  get gone(): AbortSignal {
    return this.#abort.signal;
  }

  /** Looks at the files. */
  isThere(): boolean {
    if (!this.gone.aborted) this.#look(this.#findMoved);
    return !this.gone.aborted;
  }

  #look(find: FindMoved): void {
    const moved = find();
    if (moved !== undefined) this.lose(moved);
  }

  /** Looks at the files, and throws where the store is gone. */
  check(): void {
    if (!this.isThere()) throw this.gone.reason;
  }

  /** Says that a file of the store is not the one that was opened. */
  lose(path: string): void {
    this.close();
    this.#abort.abort(
      new HoldfastError(
        "IO",
        `${quote(path)} was deleted, moved or replaced while the store was open. Nothing more is saved. Open the store again.`,
        { path },
      ),
    );
  }

  close(): void {
    clearInterval(this.#timer);
  }
}
