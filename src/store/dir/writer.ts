/**
 * What changes the store. All of it runs to its end at once, in the order of the committer; only syncs of several journals are waited for.
 *
 * C1  saves of one line and nothing else: one write to its journal, made when the last one's seal is there.
 * C2  anything more: first the journals, synced, with seals that say which version of the session's file they belong to; then the
 *     index; then that file (S1), or commit.json where there are several (S2).
 * C3  what fails before that point is taken back whole. Where it cannot be, or a sync fails, nothing more is written (committer.ts).
 */
import { fdatasync } from "node:fs";
import type { Save } from "../../core/journal/save.js";
import { firstSeq } from "../../core/journal/save.js";
import { HoldfastError } from "../../core/values/errors.js";
import { highest } from "../../core/values/highest.js";
import type { LineId, Place } from "../../core/values/ids.js";
import { monotonicMs } from "../machine.js";
import type {
  Applied,
  Change,
  ClaimQuery,
  Decision,
  Freed,
  Granting,
  KnownNeeds,
  Present,
  Replacement,
  Scrubbed,
  SessionRow,
} from "../port.js";
import type { Presence } from "../presence.js";
import type { Due } from "./claims/due.js";
import type { Blobs, KeptBlob } from "./files/blobs.js";
import { Unsure } from "./files/failures.js";
import { changeDirectory, makeDirectory, remove } from "./files/files.js";
import { nameOf } from "./files/names.js";
import type { Standing } from "./index/catalogue.js";
import { entryOf, isSameEntry } from "./index/catalogue.js";
import type { IndexFile } from "./index/index-file.js";
import type { DraftOf, JournalFile } from "./journal/journal-file.js";
import type { Journals } from "./journal/journals.js";
import { type Seal, textBytes } from "./journal/save-rows.js";
import { type Append, type Ground, Plan } from "./plan.js";
import { removeRemains } from "./scrub.js";
import { Inbox } from "./sessions/inbox.js";
import type { SessionDoc } from "./sessions/session-file.js";
import type { SessionFiles } from "./sessions/session-files.js";

const syncLater = (fd: number): Promise<void> =>
  new Promise((resolve, reject) => {
    fdatasync(fd, (error) => (error === null ? resolve() : reject(error)));
  });

export interface Parts {
  readonly sessions: SessionFiles;
  readonly journals: Journals;
  readonly index: IndexFile;
  readonly blobs: Blobs;
  readonly due: Due;
  readonly presence: Presence;
  /** How far a line is known to have gone, or 0. */
  readonly anchored: (line: string) => number;
}

/** An answer, and the saves that it made. */
export interface Done<T> {
  readonly answer: T;
  readonly saves: readonly Save[];
  /** False where nothing was written: the lock is not kept for it (T2). */
  readonly wrote?: false;
}

const SETTLED = 10_000;

export class Writer {
  readonly #parts: Parts;
  readonly #ground: Ground;
  /** Sessions that were looked through for saves of changes that were never made. */
  readonly #settled = new Set<string>();
  /** Journals that were looked at before the first write to them. */
  readonly #ready = new WeakSet<JournalFile>();

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#ground = groundOf(parts);
  }

  // ---- apply

  apply({ changes, docs }: Decision): Done<Applied> {
    const next = changes.length === 1 && docs.length === 0 ? this.#next(changes[0] as Change) : undefined;
    if (next !== undefined) return { answer: done, saves: [next] };
    const plan = new Plan(this.#ground);
    const answer = plan.run({ changes, docs });
    if (!answer.ok) return { answer, saves: [], wrote: false };
    const { lone } = plan;
    if (lone !== undefined) this.#save(lone);
    else if (plan.docs.length + plan.documents.length > 0) this.#commit(plan);
    const saves = changes.flatMap(({ saves: given = [] }) => given.map(({ save }) => save));
    return { answer, saves };
  }

  /** The common case, without a plan: the next save of a line that was written to before. Undefined where it is not that, or is refused. */
  #next({
    session,
    when,
    saves,
    line,
    loose,
    claims,
    head,
    label,
    lease,
    drained,
    reworded,
    forgets,
    remove: removes,
  }: Change): Save | undefined {
    const fresh = saves?.length === 1 ? saves[0] : undefined;
    if (fresh === undefined || fresh.refs.length > 0 || fresh.blobs.length > 0) return undefined;
    if (line || loose || claims || head || label || lease || drained?.length || reworded?.length || forgets || removes) return undefined;
    if (when.epoch === undefined || when.absent || when.until !== undefined || when.version !== undefined) return undefined;
    const { save } = fresh;
    const journal = this.#parts.journals.open(save.line);
    if (journal === undefined || !this.#ready.has(journal) || journal.tail !== firstSeq(save) - 1) return undefined;
    if (this.#parts.sessions.get(session)?.lease?.epoch !== when.epoch) return undefined;
    journal.append([fresh], undefined, noHeader);
    this.#parts.journals.dirty.add(journal);
    return save;
  }

  /** C1 */
  #save(append: Append): void {
    this.#keepBlobs([append]);
    const journal = this.#journal(append.line.id, append.home);
    journal.append(append.saves, undefined, () => this.#header(append));
    this.#parts.journals.dirty.add(journal);
  }

  /** C2 */
  #commit(plan: Plan): void {
    const { sessions, index, journals, presence } = this.#parts;
    // Files are named by their paths: they must not be put into a directory that stands in the place of this one.
    presence.check();
    for (const { lines } of plan.docs) for (const { id } of lines) this.#checkInPlace(journals.open(id));
    // What this change goes on from must not be lost before it: it may be a fork of a save that is not synced yet.
    this.sync();
    const appends = [...plan.appends.values()];
    const { docs } = plan;
    for (const { id } of docs) this.#settle(id);
    for (const [line, { home, origin }] of plan.begun) this.#prepare(line as LineId, home, origin);
    this.#keepBlobs(appends);
    // Each letter for itself, and the same when it is done again.
    for (const { doc, reworded, forgets } of plan.mail) {
      for (const one of reworded) this.#inbox(doc).reword(doc.drained, one);
      if (forgets) this.#inbox(doc).forget();
    }
    const undo: (() => void)[] = [];
    try {
      for (const append of appends) this.#appendWith(append, plan.version(append.home), undo);
      const entries = docs.map(entryOf).filter((entry) => {
        const known = index.catalogue.entry(entry.id);
        return known === undefined || !isSameEntry(known, entry);
      });
      if (entries.length > 0) undo.push(index.announce(entries));
      // A lease need not outlive a power cut: that ends every holder. Its file must still be whole, and is synced before it is renamed.
      sessions.put(docs, { lasting: !plan.onlyLeases }, plan.documents);
      if (entries.length > 0) index.made(entries);
    } catch (error) {
      if (!(error instanceof Unsure)) takeBack(undo);
      throw error;
    }
    presence.check();
    this.#clearMail(plan);
  }

  /** A new line: nothing is left under its name, and what it begins at will last. */
  #prepare(line: LineId, home: string, origin: Place | null): void {
    const { journals, index } = this.#parts;
    journals.toWrite({ id: line, home }, 0).clear();
    const from = origin && index.catalogue.line(origin.line);
    if (from) this.#journal(from.id, from.home);
  }

  #appendWith(append: Append, version: number, undo: (() => void)[]): void {
    makeDirectory(this.#parts.sessions.directory(append.home));
    const journal = this.#journal(append.line.id, append.home);
    const { end } = journal;
    // Where it fails it leaves nothing, perhaps not even a file.
    journal.append(append.saves, version, () => this.#header(append));
    undo.push(() => journal.cutBack(end));
    journal.sync();
    this.#checkInPlace(journal);
  }

  /** What is appended to a file that was deleted or replaced is lost (GONE-1). */
  #checkInPlace(journal: JournalFile | undefined): void {
    if (journal === undefined || journal.isInPlace) return;
    this.#parts.presence.lose(journal.path);
    this.#parts.presence.check();
  }

  #header({ line: { id, no, origin }, home }: Append): string {
    return JSON.stringify({ line: id, session: home, number: this.#parts.sessions.get(home)?.no ?? 0, no, origin });
  }

  #keepBlobs(appends: readonly { readonly saves: readonly Pick<Replacement, "refs" | "blobs">[] }[]): void {
    for (const { saves } of appends) {
      for (const { refs, blobs = [] } of saves) {
        for (const blob of blobs) this.#parts.blobs.add(blob);
        for (const digest of refs) if (!blobs.some((blob) => blob.digest === digest)) this.#parts.blobs.keep(digest);
      }
    }
  }

  /** After the commit: what fails here is done again with the next change, or is no harm. A failed sync is not done again. */
  #clearMail({ docs, removed }: Plan): void {
    try {
      for (const doc of docs) if (doc.drained.length > 0) this.#inbox(doc).clear(doc.drained);
      for (const doc of removed) this.#inbox(doc).removeAll();
    } catch (error) {
      if (error instanceof Unsure) throw error;
    }
    this.#settleMarkers([...docs.filter(({ drained }) => drained.length > 0), ...removed].map(({ id }) => nameOf(id)));
  }

  /** A marker that cannot be removed now is one too many, which is no harm. */
  #settleMarkers(names: readonly string[]): void {
    try {
      for (const name of names) this.#parts.due.settle(name);
    } catch {}
  }

  #inbox({ id, no }: SessionDoc): Inbox {
    return new Inbox(this.#parts.sessions.directory(id), no);
  }

  // ---- claims

  claim(query: ClaimQuery, grant: Granting): Done<readonly SessionRow[]> {
    const { due } = this.#parts;
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
    this.apply({ changes: granted.map(({ id, lease }) => ({ session: id, when: {}, lease })), docs: [] });
    return { answer: granted, saves: [] };
  }

  /** One writer: nothing changes between looking and applying. */
  capture(sessions: readonly Present[], decide: (sessions: readonly Present[]) => Decision | undefined): Done<Applied> {
    // What it pins must not be lost before it.
    this.sync();
    const decision = decide(sessions);
    return decision === undefined ? { answer: done, saves: [], wrote: false } : this.apply(decision);
  }

  // ---- journals

  /** A journal that can be written to: what a killed writer left behind its last save is out of the way. */
  #journal(id: LineId, home: string): JournalFile {
    const { journals, sessions, index } = this.#parts;
    const doc = sessions.get(home);
    if (doc === undefined && index.catalogue.line(id) !== undefined) throw lost(home);
    const journal = journals.toWrite({ id, home }, doc?.version ?? 0);
    if (this.#ready.has(journal)) return journal;
    if (journal.strayBytes > 0) this.#setAside(journal);
    journal.dropUncommitted();
    journal.syncOnce();
    this.#ready.add(journal);
    return journal;
  }

  #setAside(journal: JournalFile): void {
    const known = this.#parts.anchored(journal.line);
    // It was longer: what stands there is no save that was cut short, but one that was damaged.
    if (known > (journal.tail ?? 0)) throw journal.damaged(`was at ${known} when its anchor was written, and its end cannot be read`);
    const aside = journal.setAside();
    process.emitWarning(`The end of a journal was not whole, and was set aside in ${aside}.`, "HoldfastWarning");
  }

  /** Saves that were written for the next version of a session's file, by one who was killed before, must not count for ours. */
  #settle(id: string): void {
    if (this.#settled.has(id)) return;
    const doc = this.#parts.sessions.get(id);
    for (const line of doc?.lines ?? []) {
      const journal = this.#parts.journals.toWrite({ id: line.id, home: id }, doc?.version ?? 0);
      if (!journal.hasUncommitted) continue;
      if (journal.strayBytes > 0) this.#setAside(journal);
      journal.dropUncommitted();
    }
    if (this.#settled.size >= SETTLED) this.#settled.clear();
    this.#settled.add(id);
  }

  /** Makes what was saved last. */
  sync(): void {
    const { dirty } = this.#parts.journals;
    for (const journal of dirty) {
      journal.sync();
      this.#checkInPlace(journal);
    }
    dirty.clear();
  }

  /**
   * The same for the end of a group. One file is synced at once: through the thread pool it would take longer. Several are synced side
   * by side, and share what the disk does: 64 of them were measured to take between a third and an eighth of the time.
   */
  syncAll(): void | Promise<void> {
    return this.#parts.journals.dirty.size < 2 ? this.sync() : this.#syncTogether();
  }

  async #syncTogether(): Promise<void> {
    const { dirty } = this.#parts.journals;
    const later = [...dirty].filter((journal) => journal.fdToSync !== undefined);
    const syncNew = async (): Promise<void> => {
      for (const journal of dirty) if (journal.fdToSync === undefined) journal.sync();
    };
    // All are waited for, also where one fails at once: after that their files may be closed.
    const answers = await Promise.allSettled([...later.map((journal) => syncLater(journal.fdToSync as number)), syncNew()]);
    for (const [i, { status }] of answers.entries()) if (status === "rejected") later[i]?.failedToSync();
    const failed = answers.find((answer) => answer.status === "rejected");
    const written = [...dirty];
    dirty.clear();
    if (failed !== undefined) throw failed.reason instanceof Unsure ? failed.reason : new Unsure(failed.reason);
    for (const journal of written) this.#checkInPlace(journal);
  }

  // ---- what only removes

  /** False where it is refused, and true where nothing is to be done. */
  beginReplacing(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Done<DraftOf | boolean> {
    const journal = this.#toReplace(line, known);
    if (journal === undefined || replacements.length === 0) return { answer: journal !== undefined, saves: [], wrote: false };
    return { answer: journal.redraft(replacements) ?? false, saves: [], wrote: false };
  }

  /** Puts in place what was drafted. Where more than appends came in between, it is done at once, if it still may be done. */
  replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds, redraft: DraftOf): Done<boolean> {
    const now = this.#toReplace(line, known);
    if (now === undefined) return no;
    this.#keepBlobs([{ saves: replacements }]);
    if (!now.isUnmoved(redraft)) return now.rewrite(replacements) ? yes : no;
    now.exchange(redraft);
    return yes;
  }

  /** The journal, if it may be done as far as forks and pins go. */
  #toReplace(line: LineId, known: KnownNeeds): JournalFile | undefined {
    const { index, sessions, presence } = this.#parts;
    presence.check();
    const standing = index.catalogue.line(line);
    if (standing === undefined || index.catalogue.forksOf(line).some((fork) => fork.no > known.line)) return undefined;
    if (sessions.documents.pins(line).some(({ doc }) => doc > known.doc)) return undefined;
    this.sync();
    return this.#journal(line, standing.home);
  }

  cut(line: LineId, after: number, limit: number): Done<Freed> {
    const { sessions, index, journals, presence } = this.#parts;
    presence.check();
    const standing = index.catalogue.line(line);
    const doc = standing && sessions.get(standing.home);
    if (standing === undefined || doc === undefined || standing.owner !== null) return nothing;
    this.sync();
    this.#settle(doc.id);
    const forks = index.catalogue.forksOf(line).map(({ origin }) => origin?.seq ?? 0);
    for (const { seq } of sessions.documents.pins(line)) forks.push(seq);
    let journal = this.#journal(line, standing.home);
    const newest = journal.newest(highest(Math.max(after, 0), forks), limit);
    const goes = newest.length < limit ? newest : upToGroup(journal, newest);
    const isWhole = after === -1 && forks.length === 0 && journal.hasOnly(goes.length);
    if (goes.length === 0 && !isWhole) return nothing;
    // Before anything goes: its anchor must not be taken for a witness of a loss.
    const marked = doc.cut.includes(line) ? doc : this.#change(doc, { cut: [...doc.cut, line] });
    if (journal.endGroupBefore(goes.length)) journal = this.#journal(line, standing.home);
    journal.dropLast(goes.length);
    if (isWhole) {
      changeDirectory(sessions.directory(standing.home), () => {
        this.#change(marked, { lines: marked.lines.filter(({ id }) => id !== line) });
        journals.forget(line);
        remove(journal.path);
      });
    }
    return { answer: freedOf(goes), saves: [] };
  }

  /**
   * What stands behind the last save of a journal and does not count is out of it, the index says nothing that is no more, and files that
   * do not count are gone where they hold such texts.
   */
  scrub(root: string, holds: (text: string) => boolean): Done<Scrubbed> {
    const { index, sessions, journals, presence } = this.#parts;
    const left: string[] = [];
    presence.check();
    this.sync();
    sessions.finish();
    for (const { id: home, lines } of index.catalogue.entries()) {
      for (const { id } of lines) {
        try {
          const journal = journals.of({ id, home }, sessions.get(home)?.version ?? 0);
          if (journal.strayBytes > 0 || journal.hasUncommitted) this.#journal(id, home);
        } catch (error) {
          if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
          left.push(`what stands behind the damage in a journal (${error.message})`);
        }
      }
    }
    index.rewrite();
    return { answer: { left: [...left, ...removeRemains(root, holds)] }, saves: [] };
  }

  #change(doc: SessionDoc, change: Partial<SessionDoc>): SessionDoc {
    const { index, sessions } = this.#parts;
    const changed = { ...doc, ...change, version: doc.version + 1 };
    const takeItBack = index.announce([entryOf(changed)]);
    try {
      sessions.put([changed], { lasting: true });
    } catch (error) {
      if (!(error instanceof Unsure)) takeBack([takeItBack]);
      throw error;
    }
    index.made([entryOf(changed)]);
    return changed;
  }

  /** Removes blobs that no save refers to, unless one has come to (BLOB-1). Answers which. */
  sweep(unused: readonly KeptBlob[]): Done<readonly KeptBlob[]> {
    this.#parts.presence.check();
    return { answer: unused.filter((blob) => this.#parts.blobs.removeIf(blob)), saves: [] };
  }
}

const done: Applied = { ok: true };
const noHeader = (): string => "";
const no: Done<boolean> = { answer: false, saves: [], wrote: false };
const yes: Done<boolean> = { answer: true, saves: [] };

export const freedOf = (seals: readonly Seal[]): Freed => ({
  count: seals.length,
  bytes: seals.reduce((sum, seal) => sum + textBytes(seal), 0),
});

const nothing: Done<Freed> = { answer: freedOf([]), saves: [], wrote: false };

/**
 * Of saves that are to go, newest first: so many that no group is torn. A group that is gets its own end, for which the whole journal has to
 * be written anew: only one that is longer than all that may go.
 */
function upToGroup(journal: JournalFile, goes: readonly Seal[]): readonly Seal[] {
  if (!journal.isInGroup(goes.length)) return goes;
  const whole = goes.findLastIndex(({ more }, i) => i > 0 && !more);
  return whole === -1 ? goes : goes.slice(0, whole);
}

/** C3 */
function takeBack(undo: readonly (() => void)[]): void {
  try {
    for (const step of undo.toReversed()) step();
  } catch (error) {
    throw new Unsure(error);
  }
}

function groundOf({ sessions, journals, index }: Parts): Ground {
  const journal = (line: Standing): JournalFile => journals.of(line, sessions.get(line.home)?.version ?? 0);
  return {
    get lastSession() {
      return index.catalogue.lastSession;
    },
    get lastLine() {
      return index.catalogue.lastLine;
    },
    doc: (id) => {
      const doc = sessions.get(id);
      if (doc === undefined && index.catalogue.entry(id)?.status != null) throw lost(id);
      return doc;
    },
    line: (id) => index.catalogue.line(id),
    awayOf: (session) => index.catalogue.awayOf(session),
    documents: sessions.documents,
    tail: (line) => journal(line).tail,
    sealAt: (line, seq) => journal(line).sealAt(seq),
    waiting: ({ id, no: session }, ids) => new Inbox(sessions.directory(id), session).has(ids),
    unmoved: (doc) => {
      try {
        new Inbox(sessions.directory(doc.id), doc.no).clear(doc.drained);
        return [];
      } catch (error) {
        if (error instanceof Unsure) throw error;
        return doc.drained;
      }
    },
  };
}

const lost = (id: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The file of session ${JSON.stringify(id)} is gone, and the index knows of it. Restore it, or delete the index.`,
    {
      sessionId: id,
    },
  );
