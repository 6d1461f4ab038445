/**
 * The processes that wait for the lock: a file each, named so that they sort by how long they have
 * waited.
 *
 * QUEUE-1  a process that was killed leaves its file behind. The next in the queue removes it, when
 *          the lock was free for a while and not taken. A process that is only slow puts its file
 *          there again, in the same place of the queue.
 * QUEUE-2  times in names count from when the machine started, and all processes on it have one
 *          such clock. So a time that is still to come is of another boot, which lasted longer than
 *          this one until now. Its file awaits nothing, is no process's turn, and is removed by the
 *          next that takes the lock. The time of a boot that was shorter is in the past: its file
 *          is the first in the queue (QUEUE-1).
 */
import { randomBytes } from "node:crypto";
import { closeSync } from "node:fs";
import { join } from "node:path";
import { monotonicMs } from "../../machine.js";
import { createFile, namesIn, remove } from "../files/files.js";

const NAME = /^lock-wanted-([0-9]{15})-[0-9a-f]{12}\.json$/;

/**
 * The files of processes that wait, and those that no process of this boot can have put there
 * (QUEUE-2).
 */
function queueIn(root: string): {
  readonly waiting: readonly string[];
  readonly dead: readonly string[];
} {
  const [waiting, dead]: [string[], string[]] = [[], []];
  // The clock is asked after the names: no file that is there began later.
  const names = namesIn(root);
  const now = monotonicMs();
  for (const name of names) {
    const [, since] = NAME.exec(name) ?? [];
    if (since !== undefined) (Number(since) > now ? dead : waiting).push(name);
  }
  return { waiting, dead };
}

/** Whether any process waits. */
export const isAwaited = (root: string): boolean => queueIn(root).waiting.length > 0;

export class QueuePlace {
  readonly #root: string;
  readonly #name =
    `lock-wanted-${String(monotonicMs()).padStart(15, "0")}-${randomBytes(6).toString("hex")}.json`;
  #isTaken = false;

  constructor(root: string) {
    this.#root = root;
  }

  /** The files of those who have waited longer. */
  ahead(): readonly string[] {
    return queueIn(this.#root).waiting.filter((name) => name < this.#name);
  }

  /** QUEUE-2 */
  clear(): void {
    this.pass(queueIn(this.#root).dead);
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
