/**
 * What only removes, or puts less in the place of more. All of it runs to its end at once, in the
 * order of the committer.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { highest } from "../../core/values/highest.js";
import type { BranchId } from "../../core/values/ids.js";
import type { Freed, KnownNeeds, Replacement, Scrubbed } from "../port/reclaim.js";
import type { Done } from "./committer.js";
import type { KeptBlob } from "./files/blobs.js";
import { changeDirectory, remove } from "./files/files.js";
import type { JournalFile } from "./journal/journal-file.js";
import { type Seal, textBytes } from "./journal/save-rows.js";
import { removeRemains } from "./scrub.js";
import type { SessionDoc } from "./sessions/session-file.js";
import type { StoreFiles } from "./store-files.js";
import type { WritableJournals } from "./writable-journals.js";

export class Removals {
  readonly #of: StoreFiles;
  readonly #writable: WritableJournals;

  constructor(of: StoreFiles, writable: WritableJournals) {
    this.#of = of;
    this.#writable = writable;
  }

  /** False where it is refused, and true where nothing is to be done. */
  replace(
    branch: BranchId,
    replacements: readonly Replacement[],
    known: KnownNeeds,
  ): Done<boolean> {
    const journal = this.#toReplace(branch, known);
    if (journal === undefined) return no;
    if (replacements.length === 0) return { ...yes, wrote: false };
    this.#of.blobs.keepAll(replacements);
    return journal.rewrite(replacements) ? yes : no;
  }

  /** The journal, if it may be done as far as forks and pins go. */
  #toReplace(branch: BranchId, known: KnownNeeds): JournalFile | undefined {
    const { index, sessions, presence } = this.#of;
    presence.check();
    const standing = index.catalogue.branch(branch);
    if (
      standing === undefined ||
      index.catalogue.forksOf(branch).some((fork) => fork.no > known.branch)
    )
      return undefined;
    if (sessions.documents.pins(branch).some(({ doc }) => doc > known.doc)) return undefined;
    this.#writable.sync();
    return this.#writable.open(branch, standing.home);
  }

  cut(branch: BranchId, after: number, limit: number): Done<Freed> {
    const { sessions, index, journals, presence } = this.#of;
    presence.check();
    const standing = index.catalogue.branch(branch);
    const doc = standing && sessions.get(standing.home);
    if (standing === undefined || doc === undefined || standing.owner !== null) return nothing;
    this.#writable.sync();
    this.#writable.settle(doc.id);
    const forks = index.catalogue.forksOf(branch).map(({ forkPoint }) => forkPoint?.seq ?? 0);
    for (const { seq } of sessions.documents.pins(branch)) forks.push(seq);
    let journal = this.#writable.open(branch, standing.home);
    const newest = journal.newest(highest(Math.max(after, 0), forks), limit);
    const goes = newest.length < limit ? newest : upToGroup(journal, newest);
    const isWhole = after === -1 && forks.length === 0 && journal.hasOnly(goes.length);
    if (goes.length === 0 && !isWhole) return nothing;
    // Before anything goes: its anchor must not be taken for a tail anchor of a loss.
    const marked = doc.cut.includes(branch)
      ? doc
      : this.#change(doc, { cut: [...doc.cut, branch] });
    if (journal.endGroupBefore(goes.length)) journal = this.#writable.open(branch, standing.home);
    journal.dropLast(goes.length);
    if (isWhole) {
      changeDirectory(sessions.directory(standing.home), () => {
        this.#change(marked, { branches: marked.branches.filter(({ id }) => id !== branch) });
        journals.forget(branch);
        remove(journal.path);
      });
    }
    return { answer: freedOf(goes), saves: [] };
  }

  /**
   * What stands behind the last save of a journal and does not count is out of it, and files that
   * do not count are gone where they hold such texts.
   */
  scrub(root: string, holds: (text: string) => boolean): Done<Scrubbed> {
    const { index, sessions, journals, presence } = this.#of;
    const left: string[] = [];
    presence.check();
    this.#writable.sync();
    sessions.finish();
    for (const { id: home, branches } of index.catalogue.entries()) {
      for (const { id } of branches) {
        try {
          const journal = journals.of({ id, home }, sessions.get(home)?.version ?? 0);
          if (journal.strayBytes > 0 || journal.hasUncommitted) this.#writable.open(id, home);
        } catch (error) {
          if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
          left.push(`what stands behind the damage in a journal (${error.message})`);
        }
      }
    }
    return { answer: { left: [...left, ...removeRemains(root, holds)] }, saves: [] };
  }

  #change(doc: SessionDoc, change: Partial<SessionDoc>): SessionDoc {
    const { index, sessions } = this.#of;
    const changed = { ...doc, ...change, version: doc.version + 1 };
    const made = index.announce([changed]);
    sessions.put([changed], { lasting: true });
    made();
    return changed;
  }

  /** Removes blobs that no save refers to, unless one has come to (BLOB-1). Answers which. */
  sweep(unused: readonly KeptBlob[]): Done<readonly KeptBlob[]> {
    this.#of.presence.check();
    return { answer: unused.filter((blob) => this.#of.blobs.removeIf(blob)), saves: [] };
  }
}

const no: Done<boolean> = { answer: false, saves: [], wrote: false };
const yes: Done<boolean> = { answer: true, saves: [] };

export const freedOf = (seals: readonly Seal[]): Freed => ({
  count: seals.length,
  bytes: seals.reduce((sum, seal) => sum + textBytes(seal), 0),
});

const nothing: Done<Freed> = { answer: freedOf([]), saves: [], wrote: false };

/**
 * Of saves that are to go, newest first: so many that no group is torn. A group that is gets its
 * own end, for which the whole journal has to be written anew: only one that is longer than all
 * that may go.
 */
function upToGroup(journal: JournalFile, goes: readonly Seal[]): readonly Seal[] {
  if (!journal.isInGroup(goes.length)) return goes;
  const whole = goes.findLastIndex(({ more }, i) => i > 0 && !more);
  return whole === -1 ? goes : goes.slice(0, whole);
}
