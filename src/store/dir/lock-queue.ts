/**
 * The processes that wait for the lock: a file each, named so that they sort by how long they have waited.
 *
 * A process that was killed leaves its file behind. The next in the queue removes it, when the lock was free for a while and not taken. A
 * process that is only slow puts its file there again, in the same place of the queue.
 */
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { join } from "node:path";
import { monotonicMs } from "../machine.js";
import { createFile, namesIn, remove } from "./files.js";

const NAME = /^lock-wanted-[0-9]{15}-[0-9a-f]{12}\.json$/;

/** Whether any process waits. */
export const isAwaited = (root: string): boolean => namesIn(root).some((name) => NAME.test(name));

export class QueuePlace {
  readonly #root: string;
  readonly #name = `lock-wanted-${String(monotonicMs()).padStart(15, "0")}-${randomBytes(6).toString("hex")}.json`;
  #isTaken = false;

  constructor(root: string) {
    this.#root = root;
  }

  /** The files of those who have waited longer. */
  ahead(): readonly string[] {
    return namesIn(this.#root).filter((name) => NAME.test(name) && name < this.#name);
  }

  take(): void {
    this.#isTaken = true;
    try {
      closeSync(createFile(join(this.#root, this.#name)));
    } catch {
      // It is there, or no file can be made: then the lock cannot be taken either.
    }
  }

  leave(): void {
    if (this.#isTaken) remove(join(this.#root, this.#name));
  }

  /** Removes files of processes that do not come. */
  pass(names: readonly string[]): void {
    for (const name of names) remove(join(this.#root, name));
  }
}
