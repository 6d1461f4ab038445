/**
 * Commits together what comes together: jobs of one tick share one transaction, and one sync of the
 * disk.
 *
 * COMMIT-1 (D10)  jobs committed together succeed and fail apart. A job that is refused changes
 *           nothing and harms no other.
 * COMMIT-2 (D10)  after any exception the driver is asked whether the transaction still stands
 *           (SQLite takes it back by itself when the disk is full; a statement after that would
 *           commit alone); then every job of the group is tried alone.
 * COMMIT-3  a busy database is waited for in short blocks with jitter between them, and the event
 *           loop runs meanwhile.
 * COMMIT-4  after a failed write or sync nothing more is written through this connection: the
 *           system may have forgotten the pages it could not write, and a second sync would report
 *           success.
 * COMMIT-5  nor after the file, or its log, is no longer the one that was opened: what was
 *           committed to it is not acknowledged (GONE-1).
 */
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import type { Presence } from "../../../presence.js";
import { queueFull, unreadable } from "../../../refusals.js";
import { type Driver, failureOf } from "./driver.js";
import { Unreadable } from "./unreadable.js";

/**
 * Work inside a transaction. `simple` work is one statement that changes something or does not: it
 * needs no savepoint.
 */
export interface Work<T> {
  readonly simple: boolean;
  /**
   * Does the work. A refusal is an answer for which `refused` is true; exceptions are the driver's.
   */
  run(): T;
  refused(answer: T): boolean;
  /** Told the answer once it is committed, before anybody else is. It does not throw. */
  committed?(answer: T): void;
}

interface Waiting {
  readonly job: Work<unknown>;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Until when a busy database is waited for; set when it is first found busy. */
  deadline: number | undefined;
}

export interface CommitterOptions {
  /** How long a busy database is waited for. */
  readonly busyMs: number;
  readonly presence: Presence;
  /** The error of each job, where nothing may be written. */
  readonly refuses?: HoldfastError | undefined;
}

const MAX_QUEUE = 100_000;
const MAX_GROUP = 1_000;

export class Committer {
  readonly #db: Driver;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #savepoint;
  readonly #release;
  readonly #undo;
  readonly #busyMs: number;
  readonly #presence: Presence;
  #queue: Waiting[] = [];
  #scheduled = false;
  #failed: HoldfastError | undefined;
  #idle: (() => void)[] = [];

  constructor(db: Driver, { busyMs, presence, refuses }: CommitterOptions) {
    this.#db = db;
    this.#failed = refuses;
    this.#busyMs = busyMs;
    this.#presence = presence;
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#rollback = db.prepare("ROLLBACK");
    this.#savepoint = db.prepare("SAVEPOINT job");
    this.#release = db.prepare("RELEASE job");
    this.#undo = db.prepare("ROLLBACK TO job");
  }

  submit<T>(job: Work<T>): Promise<T> {
    if (this.#failed) return Promise.reject(this.#failed);
    if (this.#queue.length >= MAX_QUEUE) return Promise.reject(queueFull(MAX_QUEUE));
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({
        job,
        resolve: resolve as (answer: unknown) => void,
        reject,
        deadline: undefined,
      });
      this.#schedule();
    });
  }

  /** Resolves when nothing waits any more. */
  async drain(): Promise<void> {
    if (this.#queue.length > 0 || this.#scheduled)
      await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    // After the microtasks: whatever else this tick goes on to save joins the group.
    process.nextTick(() => this.#flush());
  }

  #flush(): void {
    this.#scheduled = false;
    const group = this.#queue.splice(0, MAX_GROUP);
    const again = group.length === 0 ? [] : this.#runGroup(group);
    if (again.length > 0) this.#retryLater(again);
    else if (this.#queue.length > 0) this.#schedule();
    else for (const resolve of this.#idle.splice(0)) resolve();
  }

  #retryLater(again: readonly Waiting[]): void {
    this.#queue.unshift(...again);
    this.#scheduled = true;
    setTimeout(() => this.#flush(), 2 + Math.random() * 18);
  }

  /** Runs a group; answers those that found the database busy and have time left. */
  #runGroup(group: readonly Waiting[]): Waiting[] {
    let answers: unknown[];
    try {
      answers = this.#together(group);
    } catch (error) {
      this.#takeBack();
      return this.#failedGroup(group, error);
    }
    if (!this.#presence.isThere())
      return this.#giveUp(group, this.#presence.gone.reason as HoldfastError);
    // Committed: from here on nothing may make it seem otherwise.
    for (const [i, { job, resolve }] of group.entries()) {
      job.committed?.(answers[i]);
      resolve(answers[i]);
    }
    return [];
  }

  #failedGroup(group: readonly Waiting[], error: unknown): Waiting[] {
    const failure = failureOf(error);
    if (failure === "busy" && !this.#failed) return this.#stillInTime(group, error);
    // A failed read leaves nothing half written: others can still be saved.
    if ((failure === "io" && !(error instanceof Unreadable)) || this.#failed)
      return this.#giveUp(group, translate(error));
    if (group.length === 1) {
      group[0]?.reject(translate(error));
      return [];
    }
    return group.flatMap((waiting) =>
      this.#failed ? (waiting.reject(this.#failed), []) : this.#runGroup([waiting]),
    );
  }

  /** Writes no more. All who wait are told. */
  #giveUp(group: readonly Waiting[], error: HoldfastError): Waiting[] {
    this.#failed ??= error;
    for (const { reject } of [...group, ...this.#queue.splice(0)]) reject(this.#failed);
    return [];
  }

  #stillInTime(group: readonly Waiting[], error: unknown): Waiting[] {
    const now = performance.now();
    return group.filter((waiting) => {
      waiting.deadline ??= now + this.#busyMs;
      if (now < waiting.deadline) return true;
      waiting.reject(translate(error));
      return false;
    });
  }

  #together(group: readonly Waiting[]): unknown[] {
    const first = group[0];
    // A single statement is its own transaction, and spares two calls.
    if (group.length === 1 && first?.job.simple) return [first.job.run()];
    this.#begin.run();
    if (group.length === 1) return [this.#alone((first as Waiting).job)];
    const answers = group.map(({ job }) => (job.simple ? job.run() : this.#inSavepoint(job)));
    this.#commit.run();
    return answers;
  }

  /** The whole transaction is its own: it can be taken back with it, and needs no savepoint. */
  #alone<T>(job: Work<T>): T {
    const answer = job.run();
    if (job.refused(answer)) this.#rollback.run();
    else this.#commit.run();
    return answer;
  }

  #inSavepoint<T>(job: Work<T>): T {
    this.#savepoint.run();
    const answer = job.run();
    if (job.refused(answer)) this.#undo.run();
    this.#release.run();
    return answer;
  }

  #takeBack(): void {
    try {
      if (this.#db.inTransaction) this.#rollback.run();
    } catch (error) {
      // A transaction that can be neither committed nor taken back leaves only one honest thing to
      // do: write no more.
      this.#failed = new HoldfastError(
        "IO",
        "A failed write could not be taken back. Close the store and open it again.",
        {},
        error,
      );
    }
  }
}

/** A driver's exception as ours. Never shown raw. */
export function translate(error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error;
  if (error instanceof Unreadable) return unreadable(error.path, error);
  const said = error instanceof Error ? error.message : String(error);
  const path = (error as { path?: unknown } | undefined)?.path;
  const details = typeof path === "string" ? { path } : {};
  const file = typeof path === "string" ? quote(path) : "The store's file";
  switch (failureOf(error)) {
    case "busy":
      return new HoldfastError(
        "BUSY",
        "Other processes kept the store busy. Try again.",
        {},
        error,
      );
    case "full":
      return new HoldfastError(
        "DISK_FULL",
        "There is no room left on the disk. Nothing was written; try again once there is room.",
        details,
        error,
      );
    case "corrupt":
      return new HoldfastError(
        "CORRUPT",
        `${file} is damaged (${said}). Run verify to see what is left, and restore a backup.`,
        details,
        error,
      );
    case "readonly":
      return new HoldfastError(
        "IO",
        `${file} cannot be written. Check its permissions and those of its directory.`,
        details,
        error,
      );
    case "io":
      return new HoldfastError(
        "IO",
        `The disk failed at ${file} (${said}). Whether the last write is kept is unknown; close the store and open it again.`,
        details,
        error,
      );
    default:
      return new HoldfastError("IO", `SQLite failed (${said}).`, details, error);
  }
}
