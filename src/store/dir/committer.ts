/**
 * Runs what changes the store, one after another, and answers when it will last.
 *
 * DIR-4  what comes in one tick is written together and synced together, but succeeds and fails
 *        apart.
 * DIR-5  after a failed sync, or a write that could not be taken back, nothing more is written
 *        through this store. It releases the lock, as a kill would. After any other failure all is
 *        as before, and the store goes on.
 * DIR-6  nor after a file or directory of the store is no longer the one that was opened. What was
 *        written to it is not acknowledged (GONE-1).
 */
import type { Save } from "../../core/journal/save.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { Presence } from "../presence.js";
import { queueFull } from "../refusals.js";
import { isLasting, missingPath, translate } from "./files/failures.js";
import type { Group } from "./lock-tenure.js";
import type { Writer } from "./writer.js";

/** An answer, and the saves that it made. */
export interface Done<T> {
  readonly answer: T;
  readonly saves: readonly Save[];
  /** False where nothing was written: the lock is not kept for it (TENURE-2). */
  readonly wrote?: false;
}

interface Waiting {
  readonly run: (writer: Writer) => Done<unknown>;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Finished {
  readonly waiting: Waiting;
  readonly result: Done<unknown>;
}

const MAX_QUEUE = 100_000;
/** Fewer than the journals that are kept open. */
const MAX_GROUP = 200;

export class Committer {
  readonly #writerOf: () => Writer | Promise<Writer>;
  readonly #saved: (save: Save) => void;
  readonly #ended: (group: Group) => void;
  readonly #presence: Presence;
  #queue: Waiting[] = [];
  #isRunning = false;
  #hasWritten = false;
  #failed: HoldfastError | undefined;
  #idle: (() => void)[] = [];

  /**
   * `writerOf` gives the writer, once no other process writes. `saved` is told of every save that
   * was made. `ended` is called after each group: from then on to the next `writerOf` nothing is
   * being written.
   */
  constructor(
    writerOf: () => Writer | Promise<Writer>,
    saved: (save: Save) => void,
    ended: (group: Group) => void,
    presence: Presence,
  ) {
    this.#writerOf = writerOf;
    this.#saved = saved;
    this.#ended = ended;
    this.#presence = presence;
  }

  /** Whether nothing is being written, and nothing waits. */
  get isIdle(): boolean {
    return !this.#isRunning;
  }

  /** DIR-5, for what is written beside the groups. */
  fail(error: unknown): void {
    this.#told(error);
  }

  get hasFailed(): boolean {
    return this.#failed !== undefined;
  }

  submit<T>(run: (writer: Writer) => Done<T>): Promise<T> {
    if (this.#failed) return Promise.reject(this.#failed);
    if (this.#queue.length >= MAX_QUEUE) return Promise.reject(queueFull(MAX_QUEUE));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ run, resolve: resolve as (answer: unknown) => void, reject });
      if (this.#isRunning) return;
      this.#isRunning = true;
      // After the microtasks: whatever else this tick goes on to save joins the group.
      process.nextTick(() => this.#run());
    });
  }

  /** Resolves when nothing waits any more. */
  async drain(): Promise<void> {
    if (this.#isRunning) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /**
   * As long as nothing has to be waited for it goes on at once: a turn of the queue costs as much
   * as a save.
   */
  #run(): void {
    while (this.#queue.length > 0) {
      // DIR-5: nor is the lock taken again, once it was released.
      if (this.#failed) {
        for (const { reject } of this.#queue.splice(0)) reject(this.#failed);
        break;
      }
      const writer = this.#writerOf();
      const waits =
        writer instanceof Promise
          ? this.#await(writer)
          : this.#runGroup(writer, this.#queue.splice(0, MAX_GROUP));
      if (waits !== undefined) {
        void waits.then(() => this.#next());
        return;
      }
      this.#end();
    }
    this.#isRunning = false;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #next(): void {
    this.#end();
    this.#run();
  }

  #end(): void {
    const hasWritten = this.#hasWritten;
    this.#hasWritten = false;
    this.#ended({ hasWritten });
  }

  /** Where the store could not be taken for writing, all who wait are told. */
  async #await(writer: Promise<Writer>): Promise<void> {
    try {
      await writer;
    } catch (error) {
      const told = this.#told(error);
      for (const { reject } of this.#queue.splice(0)) reject(told);
    }
  }

  #runGroup(writer: Writer, group: readonly Waiting[]): void | Promise<void> {
    const finished: Finished[] = [];
    for (const waiting of group) {
      if (this.#failed) waiting.reject(this.#failed);
      else {
        try {
          const result = waiting.run(writer);
          if (result.wrote !== false) this.#hasWritten = true;
          finished.push({ waiting, result });
        } catch (error) {
          waiting.reject(this.#told(error));
        }
      }
    }
    try {
      const syncs = this.#failed ? undefined : writer.writable.syncAll();
      if (syncs !== undefined)
        return syncs.catch((error) => void this.#told(error)).then(() => this.#answer(finished));
    } catch (error) {
      this.#told(error);
    }
    this.#answer(finished);
  }

  #answer(finished: readonly Finished[]): void {
    for (const { waiting, result } of finished) {
      if (this.#failed) waiting.reject(this.#failed);
      else {
        for (const save of result.saves) this.#saved(save);
        waiting.resolve(result.answer);
      }
    }
  }

  #told(error: unknown): unknown {
    // A caller's mistake, and no failure of ours.
    if (error instanceof TypeError) return error;
    const missing = missingPath(error);
    if (missing !== undefined) this.#presence.lose(missing);
    const { gone } = this.#presence;
    const translated = gone.aborted ? (gone.reason as HoldfastError) : translate(error);
    if (gone.aborted || isLasting(error)) this.#failed ??= translated;
    return translated;
  }
}
