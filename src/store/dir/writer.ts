/**
 * What changes the store. All of it runs to its end at once, in the order of the committer; only
 * syncs of several journals are waited for.
 *
 * DIR-1  saves of one branch and nothing else: one write to its journal, made when the last one's
 *        seal is there.
 * DIR-2  anything more: first the journals, synced, with seals that say which version of the
 *        session's file they belong to; then the index; then that file (SESSIONFILE-1), or
 *        commit.json where there are several (SESSIONFILE-2).
 * DIR-3  what fails before that point is taken back whole. Where it cannot be, or a sync fails,
 *        nothing more is written (committer.ts).
 */
import type { Save } from "../../core/journal/save.js";
import { firstSeq } from "../../core/journal/save.js";
import type { BranchId, Place } from "../../core/values/ids.js";
import { justASave } from "../just-a-save.js";
import { monotonicMs } from "../machine.js";
import type { Applied, Change } from "../port/changes.js";
import type { ClaimQuery, Granting } from "../port/claims.js";
import type { Decision } from "../port/documents.js";
import type { Present, SessionRow } from "../port/rows.js";
import { type Append, ChangeCheck, type CheckInput } from "./check-changes.js";
import { checkInputOf } from "./check-input.js";
import type { Done } from "./committer.js";
import { takeBack, Unsure } from "./files/failures.js";
import { makeDirectory } from "./files/files.js";
import { nameOf } from "./files/names.js";
import { Removals } from "./removals.js";
import { Inbox } from "./sessions/inbox.js";
import type { SessionDoc } from "./sessions/session-file.js";
import type { StoreFiles } from "./store-files.js";
import { type WritableFiles, WritableJournals } from "./writable-journals.js";

/** The files of the store, and how far a branch is known to have gone, or 0. */
type WriterFiles = StoreFiles & WritableFiles;

export class Writer {
  readonly writable: WritableJournals;
  readonly removals: Removals;
  readonly #of: WriterFiles;
  readonly #input: CheckInput;

  constructor(of: WriterFiles) {
    this.#of = of;
    this.writable = new WritableJournals(of);
    this.removals = new Removals(of, this.writable);
    this.#input = checkInputOf(of);
  }

  apply({ changes, docs }: Decision): Done<Applied> {
    const next =
      changes.length === 1 && docs.length === 0 ? this.#next(changes[0] as Change) : undefined;
    if (next !== undefined) return { answer: done, saves: [next] };
    const plan = new ChangeCheck(this.#input);
    const answer = plan.run({ changes, docs });
    if (!answer.ok) return { answer, saves: [], wrote: false };
    const { lone } = plan;
    if (lone !== undefined) this.#save(lone);
    else if (plan.docs.length + plan.documents.length > 0) this.#commit(plan);
    const saves = changes.flatMap(({ saves: given = [] }) => given.map(({ save }) => save));
    return { answer, saves };
  }

  /**
   * The common case, without a plan: the next save of a branch that was written to before.
   * Undefined where it is not that, or is refused.
   */
  #next(change: Change): Save | undefined {
    const fresh = justASave(change);
    if (fresh === undefined || fresh.refs.length > 0 || fresh.blobs.length > 0) return undefined;
    const { save } = fresh;
    const journal = this.writable.ready(save.branch);
    if (journal === undefined || journal.tail !== firstSeq(save) - 1) return undefined;
    const { lease } = this.#of.sessions.get(change.session) ?? {};
    if (lease?.epoch !== change.when.epoch) return undefined;
    journal.append([fresh], undefined, noHeader);
    this.#of.journals.dirty.add(journal);
    return save;
  }

  /** DIR-1 */
  #save(append: Append): void {
    this.#of.blobs.keepAll(append.saves);
    const journal = this.writable.open(append.branch.id, append.home);
    journal.append(append.saves, undefined, () => this.#header(append));
    this.#of.journals.dirty.add(journal);
  }

  /** DIR-2 */
  #commit(plan: ChangeCheck): void {
    const { sessions, index, journals, blobs, presence } = this.#of;
    // Files are named by their paths: they must not be put into a directory that stands in the
    // place of this one.
    presence.check();
    for (const { branches } of plan.docs)
      for (const { id } of branches) this.writable.checkInPlace(journals.open(id));
    // What this change goes on from must not be lost before it: it may be a fork of a save that is
    // not synced yet.
    this.writable.sync();
    const appends = [...plan.appends.values()];
    const { docs } = plan;
    for (const { id } of docs) this.writable.settle(id);
    for (const [branch, { home, forkPoint }] of plan.begun)
      this.#prepare(branch as BranchId, home, forkPoint);
    for (const { saves } of appends) blobs.keepAll(saves);
    // Each inbox message for itself, and the same when it is done again.
    for (const { doc, reworded, forgets } of plan.message) {
      for (const one of reworded) this.#inbox(doc).reword(doc.drained, one);
      if (forgets) this.#inbox(doc).forget();
    }
    const undo: (() => void)[] = [];
    try {
      for (const append of appends) this.#appendWith(append, plan.version(append.home), undo);
      const made = index.announce(docs);
      // A lease need not outlive a power cut: that ends every holder. Its file must still be whole,
      // and is synced before it is renamed.
      sessions.put(docs, { lasting: !plan.onlyLeases }, plan.documents);
      made();
    } catch (error) {
      if (!(error instanceof Unsure)) takeBack(undo);
      throw error;
    }
    presence.check();
    this.#clearInbox(plan);
  }

  /** A new branch: nothing is left under its name, and what it begins at will last. */
  #prepare(branch: BranchId, home: string, forkPoint: Place | null): void {
    const { journals, index } = this.#of;
    journals.toWrite({ id: branch, home }, 0).clear();
    const from = forkPoint && index.catalogue.branch(forkPoint.branch);
    if (from) this.writable.open(from.id, from.home);
  }

  #appendWith(append: Append, version: number, undo: (() => void)[]): void {
    makeDirectory(this.#of.sessions.directory(append.home));
    const journal = this.writable.open(append.branch.id, append.home);
    const { end } = journal;
    // Where it fails it leaves nothing, perhaps not even a file.
    journal.append(append.saves, version, () => this.#header(append));
    undo.push(() => journal.cutBack(end));
    journal.sync();
    this.writable.checkInPlace(journal);
  }

  #header({ branch: { id, no, forkPoint }, home }: Append): string {
    return JSON.stringify({
      branch: id,
      session: home,
      number: this.#of.sessions.get(home)?.no ?? 0,
      no,
      forkPoint,
    });
  }

  /**
   * After the commit: what fails here is done again with the next change, or is no harm. A failed
   * sync is not done again.
   */
  #clearInbox({ docs, removed }: ChangeCheck): void {
    try {
      for (const doc of docs) if (doc.drained.length > 0) this.#inbox(doc).clear(doc.drained);
      for (const doc of removed) this.#inbox(doc).removeAll();
    } catch (error) {
      if (error instanceof Unsure) throw error;
    }
    this.#settleMarkers(
      [...docs.filter(({ drained }) => drained.length > 0), ...removed].map(({ id }) => nameOf(id)),
    );
  }

  /** A marker that cannot be removed now is one too many, which is no harm. */
  #settleMarkers(names: readonly string[]): void {
    try {
      for (const name of names) this.#of.due.settle(name);
    } catch {}
  }

  #inbox({ id, no }: SessionDoc): Inbox {
    return new Inbox(this.#of.sessions.directory(id), no);
  }

  claim(query: ClaimQuery, grant: Granting): Done<readonly SessionRow[]> {
    const { due } = this.#of;
    const idle: string[] = [];
    const granted: SessionRow[] = [];
    const now = monotonicMs();
    for (const row of due.find(query, (name) => idle.push(name))) {
      if (granted.length >= query.limit) break;
      const lease = grant(row, now);
      if (lease !== undefined) granted.push({ ...row, lease });
    }
    this.#settleMarkers(idle);
    if (granted.length === 0) return { answer: granted, saves: [], wrote: false };
    this.apply({
      changes: granted.map(({ id, lease }) => ({ session: id, when: {}, lease })),
      docs: [],
    });
    return { answer: granted, saves: [] };
  }

  /** One writer: nothing changes between looking and applying. */
  capture(
    sessions: readonly Present[],
    decide: (sessions: readonly Present[]) => Decision | undefined,
  ): Done<Applied> {
    // What it pins must not be lost before it.
    this.writable.sync();
    const decision = decide(sessions);
    return decision === undefined
      ? { answer: done, saves: [], wrote: false }
      : this.apply(decision);
  }
}

const done: Applied = { ok: true };
const noHeader = (): string => "";
