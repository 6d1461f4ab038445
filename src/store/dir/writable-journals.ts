/**
 * The journals that are written to. What a killed writer left in one is out of the way before, and
 * each is synced after.
 */
import { fdatasync } from "node:fs";
import type { BranchId } from "../../core/values/ids.js";
import { lost } from "./check-input.js";
import { Unsure } from "./files/failures.js";
import type { JournalFile } from "./journal/journal-file.js";
import type { StoreFiles } from "./store-files.js";

const syncLater = (fd: number): Promise<void> =>
  new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error === null ? resolve() : reject(error)));
  });

const SETTLED = 10_000;

export interface WritableFiles
  extends Pick<StoreFiles, "sessions" | "journals" | "index" | "presence"> {
  /** How far a branch is known to have gone, or 0. */
  readonly anchored: (branch: string) => number;
}

export class WritableJournals {
  readonly #of: WritableFiles;
  /** Sessions that were looked through for saves of changes that were never made. */
  readonly #settled = new Set<string>();
  /** Journals that were looked at before the first write to them. */
  readonly #ready = new WeakSet<JournalFile>();

  constructor(of: WritableFiles) {
    this.#of = of;
  }

  /** The journal of a branch, where it was written to before and is open. */
  ready(branch: BranchId): JournalFile | undefined {
    const journal = this.#of.journals.open(branch);
    return journal !== undefined && this.#ready.has(journal) ? journal : undefined;
  }

  /**
   * A journal that can be written to: what a killed writer left behind its last save is out of the
   * way.
   */
  open(id: BranchId, home: string): JournalFile {
    const { journals, sessions, index } = this.#of;
    const doc = sessions.get(home);
    if (doc === undefined && index.catalogue.branch(id) !== undefined) throw lost(home);
    const journal = journals.toWrite({ id, home }, doc?.version ?? 0);
    if (this.#ready.has(journal)) return journal;
    if (journal.strayBytes > 0) this.#setAside(journal);
    journal.dropUncommitted();
    journal.syncOnce();
    this.#ready.add(journal);
    return journal;
  }

  #setAside(journal: JournalFile): void {
    const known = this.#of.anchored(journal.branch);
    // It was longer: what stands there is no save that was cut short, but one that was damaged.
    if (known > (journal.tail ?? 0))
      throw journal.damaged(
        `was at ${known} when its anchor was written, and its end cannot be read`,
      );
    const aside = journal.setAside();
    process.emitWarning(
      `The end of a journal was not whole, and was set aside in ${aside}.`,
      "HoldfastWarning",
    );
  }

  /**
   * Saves that were written for the next version of a session's file, by one who was killed before,
   * must not count for ours.
   */
  settle(id: string): void {
    if (this.#settled.has(id)) return;
    const doc = this.#of.sessions.get(id);
    for (const branch of doc?.branches ?? []) {
      const journal = this.#of.journals.toWrite({ id: branch.id, home: id }, doc?.version ?? 0);
      if (!journal.hasUncommitted) continue;
      if (journal.strayBytes > 0) this.#setAside(journal);
      journal.dropUncommitted();
    }
    if (this.#settled.size >= SETTLED) this.#settled.clear();
    this.#settled.add(id);
  }

  /** Makes what was saved last. */
  sync(): void {
    const { dirty } = this.#of.journals;
    for (const journal of dirty) {
      journal.sync();
      this.checkInPlace(journal);
    }
    dirty.clear();
  }

  /**
   * The same for the end of a group. One file is synced at once: through the thread pool it would
   * take longer. Several are synced side by side, and share what the disk does: 64 of them were
   * measured to take between a third and an eighth of the time.
   */
  syncAll(): void | Promise<void> {
    return this.#of.journals.dirty.size < 2 ? this.sync() : this.#syncTogether();
  }

  async #syncTogether(): Promise<void> {
    const { dirty } = this.#of.journals;
    const later = [...dirty].filter((journal) => journal.fdToSync !== undefined);
    const syncNew = async (): Promise<void> => {
      for (const journal of dirty) if (journal.fdToSync === undefined) journal.sync();
    };
    // All are waited for, also where one fails at once: after that their files may be closed.
    const answers = await Promise.allSettled([
      ...later.map((journal) => syncLater(journal.fdToSync as number)),
      syncNew(),
    ]);
    for (const [i, { status }] of answers.entries())
      if (status === "rejected") later[i]?.failedToSync();
    const failed = answers.find((answer) => answer.status === "rejected");
    const written = [...dirty];
    dirty.clear();
    if (failed !== undefined)
      throw failed.reason instanceof Unsure ? failed.reason : new Unsure(failed.reason);
    for (const journal of written) this.checkInPlace(journal);
  }

  /** What is appended to a file that was deleted or replaced is lost (GONE-1). */
  checkInPlace(journal: JournalFile | undefined): void {
    if (journal === undefined || journal.isInPlace) return;
    this.#of.presence.lose(journal.path);
    this.#of.presence.check();
  }
}
