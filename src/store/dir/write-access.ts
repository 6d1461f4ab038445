/**
 * Who writes. A process takes the lock before it writes, and knows all there is until it releases
 * it. Without the lock it follows what others write, by the index.
 */
import { join } from "node:path";
import type { Save } from "../../core/journal/save.js";
import { anchoredSeq } from "../anchors.js";
import { Committer } from "./committer.js";
import { readFile } from "./files/files.js";
import { readAllEntries } from "./index/rebuild.js";
import { Tenure } from "./lock-tenure.js";
import type { StoreFiles } from "./store-files.js";
import { Writer } from "./writer.js";

export interface AccessOptions {
  /** How long another writing process is waited for. */
  readonly busyMs: number;
  /**
   * Throws if a newer Holdfast has changed the format since. Called with the lock held, before
   * anything is written.
   */
  readonly checkFormat: () => void;
  /** Told of every save that was made. */
  readonly saved: (save: Save) => void;
}

export class WriteAccess {
  readonly committer: Committer;
  readonly tenure: Tenure;
  readonly #files: StoreFiles;
  readonly #options: AccessOptions;
  #writer: Writer | undefined;
  #taking: Promise<Writer> | undefined;
  /** The number of the lock under which this process last came to know all there is. */
  #knewAt: number | undefined;
  /**
   * The number of the lock that was free when all files were last read: what they say holds until
   * the next has written.
   */
  #rebuiltAt: number | undefined;
  #rebuilding: Promise<void> | undefined;

  constructor(files: StoreFiles, options: AccessOptions) {
    this.#files = files;
    this.#options = options;
    this.tenure = new Tenure({
      isWanted: () => files.lock.isWanted,
      isIdle: () => this.committer.isIdle && this.#taking === undefined,
      end: () => this.#end(),
    });
    this.committer = new Committer(
      () => this.#writer ?? this.#begin(),
      options.saved,
      (group) => this.tenure.ended(group),
      files.presence,
    );
  }

  /** Whether this process writes: then it knows all there is. */
  get isWriter(): boolean {
    return this.#writer !== undefined;
  }

  /**
   * Sees what other processes have written, as far as the index tells. Answers whether that is all
   * there is.
   */
  isCurrent(): boolean {
    const { index, lock } = this.#files;
    if (this.#writer !== undefined || index.follow()) return true;
    const { number, isFree } = lock.look();
    return isFree && this.#rebuiltAt === number;
  }

  /** Sees what other processes have written. */
  follow(): void | Promise<void> {
    if (this.isCurrent()) return;
    const { number, isFree } = this.#files.lock.look();
    this.#rebuilding ??= this.#rebuild(isFree ? number : undefined).finally(() => {
      this.#rebuilding = undefined;
    });
    return this.#rebuilding;
  }

  async #rebuild(at: number | undefined): Promise<void> {
    const { root, sessions, index } = this.#files;
    // Before the files: what changes meanwhile is followed from there.
    const end = index.end();
    const entries = await readAllEntries(root, sessions);
    // A process that writes by now knows more than what was read before.
    if (this.#writer !== undefined) return;
    index.reset(entries, end);
    this.#rebuiltAt = at;
  }

  #begin(): Promise<Writer> {
    this.#taking ??= this.#take().finally(() => {
      this.#taking = undefined;
    });
    return this.#taking;
  }

  async #take(): Promise<Writer> {
    const { root, sessions, journals, index, lock, presence, reserve } = this.#files;
    presence.check();
    try {
      await lock.take(this.#options.busyMs);
      this.tenure.begin();
      await this.#rebuilding;
      this.#options.checkFormat();
      const { number, isAgain } = lock;
      // No other process has held the lock since, so nothing has changed.
      const isUnchanged = isAgain && number - 1 === this.#knewAt;
      sessions.beginWriting({ isUnchanged });
      journals.beginWriting();
      if (!index.follow("always") && this.#rebuiltAt !== lock.number - 1) {
        this.#rebuilding = this.#rebuild(undefined).finally(() => {
          this.#rebuilding = undefined;
        });
        await this.#rebuilding;
      }
      index.beginWriting();
      reserve.keep();
      this.#writer = new Writer({
        ...this.#files,
        // What was cut on purpose is no tail anchor of a loss.
        anchored: (branch) =>
          index.catalogue.wasCut(branch)
            ? 0
            : anchoredSeq(readFile(join(root, "anchors"))?.toString() ?? "", branch),
      });
      this.#knewAt = number;
      this.tenure.begin();
      return this.#writer;
    } catch (error) {
      index.close();
      this.tenure.end();
      throw error;
    }
  }

  /** Releases the lock. From here on this process reads as any other, until it writes again. */
  #end(): void {
    const { sessions, journals, index, lock, presence } = this.#files;
    if (!presence.isThere()) return;
    this.#writer = undefined;
    sessions.endWriting();
    journals.endWriting();
    // DIR-5: this store writes no more. Others do, as after a kill.
    if (this.committer.hasFailed) index.forsake();
    else index.close();
    journals.unsynced.mark();
    lock.release();
    this.tenure.stop();
  }

  /** Releases the lock for good. To be called once nothing is being written. */
  close(): void {
    const { journals, index, lock, presence } = this.#files;
    journals.close();
    const isThere = presence.isThere();
    presence.close();
    index.close();
    try {
      // A lock in another store's directory is not ours to write.
      if (isThere && this.#isMarked()) lock.release();
    } finally {
      lock.leave();
    }
  }

  /** VIEW-4: else the lock is kept until this process ends. */
  #isMarked(): boolean {
    try {
      this.#files.journals.unsynced.mark();
      return true;
    } catch {
      return false;
    }
  }
}
