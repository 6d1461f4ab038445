/**
 * The store in a directory: files that people can read, and commit to git. One process writes at a time (lock.ts), and several take turns
 * (tenure.ts). Any number may read.
 */
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import { highest } from "../../core/values/highest.js";
import type { LineId } from "../../core/values/ids.js";
import { Anchors, anchoredSeq } from "../anchors.js";
import { monotonicMs } from "../machine.js";
import { bytesOf, concernsAbout, filesBelow } from "../place.js";
import type {
  About,
  Applied,
  Backup,
  Beginnings,
  CaptureQuery,
  Change,
  ClaimQuery,
  Counts,
  Decision,
  DocChange,
  DocQuery,
  DocRow,
  Freed,
  Granting,
  InboxQuery,
  KnownNeeds,
  LineQuery,
  LineRow,
  Mail,
  Pin,
  Posted,
  Present,
  Replacement,
  SaveQuery,
  Scrubbed,
  SessionQuery,
  SessionRow,
  Store,
  Swept,
  Traits,
  Witnesses,
} from "../port.js";
import { Presence } from "../presence.js";
import { noBackup, storeClosed } from "../refusals.js";
import { freeing, Reserve, takesAway } from "../reserve.js";
import { Due } from "./claims/due.js";
import { Waiting } from "./claims/waiting.js";
import { Committer } from "./committer.js";
import { rowOf } from "./documents/doc-files.js";
import { Blobs } from "./files/blobs.js";
import { translate, Unsure } from "./files/failures.js";
import { checkDirectory, readFile } from "./files/files.js";
import { entryOf } from "./index/catalogue.js";
import { IndexFile } from "./index/index-file.js";
import { type Progress, readAllEntries } from "./index/rebuild.js";
import { watchDue, watchSession } from "./index/watch.js";
import { Approach } from "./journal/approach.js";
import { Journals } from "./journal/journals.js";
import { Lock } from "./lock/lock.js";
import { Reader } from "./reader.js";
import type { SessionDoc } from "./sessions/session-file.js";
import { SessionFiles } from "./sessions/session-files.js";
import { Survey } from "./survey.js";
import { Tenure } from "./tenure.js";
import { type Done, freedOf, Writer } from "./writer.js";

export interface DirStoreOptions {
  readonly busyMs: number;
  readonly format: number;
  readonly onProgress?: Progress | undefined;
  /** The path of what is no longer the directory, or the store, that was opened. */
  readonly findMoved: () => string | undefined;
  /** Throws if a newer Holdfast has changed the format since. Called with the lock held, before anything is written. */
  readonly checkFormat: () => void;
  readonly incarnation: () => string;
  readonly beginIncarnation: () => string;
}

/** A delete writes some small files. To prune, a journal is written anew: one that is longer needs more room than this. */
const RESERVE_BYTES = 512 * 1024;
const none: readonly never[] = [];

export class DirStore implements Store {
  readonly traits: Traits = { durable: true, oneMachine: true, shared: true, inBulk: true };
  readonly #root: string;
  readonly #options: DirStoreOptions;
  readonly #sessions: SessionFiles;
  readonly #journals: Journals;
  readonly #index: IndexFile;
  readonly #blobs: Blobs;
  readonly #waiting: Waiting;
  readonly #due: Due;
  readonly #reader: Reader;
  readonly #survey: Survey;
  readonly #lock: Lock;
  readonly #tenure: Tenure;
  readonly #anchors: Anchors;
  readonly #committer: Committer;
  readonly #presence: Presence;
  readonly #reserve: Reserve;
  readonly #watches = new Set<() => void>();
  #writer: Writer | undefined;
  #taking: Promise<Writer> | undefined;
  /** The number of the lock under which this process last came to know all there is. */
  #knewAt: number | undefined;
  /** The number of the lock that was free when the index was last made again, in memory alone: until the next nobody has written. */
  #rebuiltAt: number | undefined;
  #rebuilding: Promise<void> | undefined;
  #closed = false;

  constructor(root: string, storeId: string, options: DirStoreOptions) {
    this.#root = root;
    this.#options = options;
    this.#sessions = new SessionFiles(root);
    this.#journals = new Journals((id) => this.#sessions.directory(id));
    this.#index = new IndexFile(join(root, "index.jsonl"), storeId, (id) => {
      const found = this.#sessions.find(id);
      return found === "damaged" ? undefined : found;
    });
    this.#blobs = new Blobs(root);
    this.#waiting = new Waiting(root);
    this.#due = new Due(root, this.#sessions, this.#index, this.#waiting);
    this.#reader = new Reader(this.#sessions, this.#journals, this.#index, this.#waiting);
    this.#lock = new Lock(root);
    this.#survey = new Survey({
      root,
      lock: this.#lock,
      sessions: this.#sessions,
      index: this.#index,
      blobs: this.#blobs,
      reader: this.#reader,
      due: this.#due,
      read: (look) => this.#read(look),
    });
    this.#presence = new Presence(() => options.findMoved() ?? this.#lock.findMoved());
    this.#tenure = new Tenure({
      isWanted: () => this.#lock.isWanted,
      isIdle: () => this.#committer.isIdle && this.#taking === undefined,
      end: () => this.#endWriting(),
    });
    // Another process may have deleted it since. A line of which nothing is known gets no anchor.
    const isDeleted = (line: string) => !this.#isCurrent() || this.#index.catalogue.line(line)?.owner == null;
    this.#anchors = new Anchors(join(root, "anchors"), storeId, isDeleted, this.#presence);
    this.#reserve = new Reserve(join(root, "reserve"), RESERVE_BYTES);
    this.#committer = new Committer(
      () => this.#writer ?? this.#beginWriting(),
      ({ line, seq, check }) => this.#anchors.note(line, seq, check),
      (group) => this.#tenure.ended(group),
      this.#presence,
    );
  }

  get gone(): AbortSignal {
    return this.#presence.gone;
  }

  // ---- the index, and who writes

  /** Reads the index, or makes it again. */
  async begin(): Promise<void> {
    for (const name of ["sessions", "blobs", "waiting", "documents"]) checkDirectory(join(this.#root, name));
    await this.#follow();
  }

  /** Sees what other processes have written, as far as the index tells. Answers whether that is all there is. */
  #isCurrent(): boolean {
    if (this.#writer !== undefined || this.#index.follow() || this.#index.load()) return true;
    const { number, isFree } = this.#lock.look();
    return isFree && this.#rebuiltAt === number;
  }

  /** Sees what other processes have written. */
  #follow(): void | Promise<void> {
    if (this.#isCurrent()) return;
    const { number, isFree } = this.#lock.look();
    this.#rebuilding ??= this.#rebuild(isFree ? number : undefined).finally(() => {
      this.#rebuilding = undefined;
    });
    return this.#rebuilding;
  }

  async #rebuild(at: number | undefined): Promise<void> {
    const entries = await readAllEntries(this.#root, this.#sessions, this.#options.onProgress);
    // Whoever writes by now knows more than what was read before.
    if (this.#writer !== undefined) return;
    this.#index.reset(entries);
    this.#rebuiltAt = at;
  }

  #beginWriting(): Promise<Writer> {
    this.#taking ??= this.#take().finally(() => {
      this.#taking = undefined;
    });
    return this.#taking;
  }

  async #take(): Promise<Writer> {
    this.#presence.check();
    try {
      await this.#lock.take(this.#options.busyMs);
      this.#tenure.begin();
      await this.#rebuilding;
      this.#options.checkFormat();
      const { number, isAgain } = this.#lock;
      // No other process has held the lock since, so nothing has changed.
      const isUnchanged = isAgain && number - 1 === this.#knewAt;
      this.#sessions.beginWriting({ isUnchanged });
      this.#journals.beginWriting();
      const isSound = this.#index.catchUp();
      if (!isSound && this.#rebuiltAt !== this.#lock.number - 1) {
        this.#rebuilding = this.#rebuild(undefined).finally(() => {
          this.#rebuilding = undefined;
        });
        await this.#rebuilding;
      }
      this.#index.beginWriting({ isSound });
      this.#reserve.keep();
      this.#writer = new Writer({
        sessions: this.#sessions,
        journals: this.#journals,
        index: this.#index,
        blobs: this.#blobs,
        due: this.#due,
        presence: this.#presence,
        // What was cut on purpose is no witness of a loss.
        anchored: (line) =>
          this.#index.catalogue.wasCut(line) ? 0 : anchoredSeq(readFile(join(this.#root, "anchors"))?.toString() ?? "", line),
      });
      this.#knewAt = number;
      this.#tenure.begin();
      return this.#writer;
    } catch (error) {
      this.#index.abandon();
      this.#tenure.end();
      throw error;
    }
  }

  /** Releases the lock. From here on this process reads as any other, until it writes again. */
  #endWriting(): void {
    if (!this.#presence.isThere()) return;
    this.#writer = undefined;
    this.#sessions.endWriting();
    this.#journals.endWriting();
    try {
      // The process that waits goes on in it at once.
      if (!this.#committer.hasFailed && !this.#lock.isWanted) this.#index.close();
    } catch (error) {
      if (error instanceof Unsure) this.#committer.fail(error);
      // There is no room to say that it was closed: the next process looks more closely.
    }
    // C5: this store writes no more. Others do, as after a kill.
    if (this.#committer.hasFailed) this.#index.forsake();
    else this.#index.abandon();
    this.#journals.unsynced.mark();
    this.#lock.release();
    this.#tenure.stop();
  }

  // ---- writing

  apply(changes: readonly Change[], docs: readonly DocChange[] = none, how?: "frees"): Promise<Applied> {
    if (this.#closed) return Promise.reject(storeClosed());
    const submit = () => this.#committer.submit((writer) => writer.apply({ changes, docs }));
    return how === "frees" || takesAway({ changes, docs }) ? this.#removing(submit) : submit();
  }

  async capture({ agent, limit, how }: CaptureQuery, decide: (sessions: readonly Present[]) => Decision | undefined): Promise<Applied> {
    this.#open();
    const submit = () => this.#committer.submit((writer) => writer.capture(this.#reader.presents(agent, limit), decide));
    return how === "frees" ? this.#removing(submit) : submit();
  }

  async replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Promise<boolean> {
    this.#open();
    return this.#removing(() => this.#replace(line, replacements, known));
  }

  async #replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Promise<boolean> {
    const begun = await this.#committer.submit((writer) => writer.beginReplacing(line, replacements, known));
    if (typeof begun === "boolean") return begun;
    try {
      // Others write meanwhile, and other processes: a journal of hundreds of megabytes takes its time.
      if (!(await begun.copy())) return false;
      this.#open();
      return await this.#committer.submit((writer) => writer.replace(line, replacements, known, begun));
    } finally {
      begun.end();
    }
  }

  /** On a full disk the reserve is given up. */
  #removing<T>(run: () => Promise<T>): Promise<T> {
    const typed = () =>
      run().catch((error: unknown) => {
        throw translate(error);
      });
    return freeing(this.#root, typed, [() => this.#reserve.give()]);
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    if (!dryRun) {
      this.#open();
      return this.#removing(() => this.#committer.submit((writer) => writer.cut(line, after, limit)));
    }
    return this.#read(() => {
      const row = this.#reader.line(line);
      const standing = this.#index.catalogue.line(line);
      if (standing === undefined || row === undefined || row.owned) return freedOf([]);
      const pinned = this.#sessions.documents.pins(line).map(({ seq }) => seq);
      return freedOf(this.#reader.journal(standing)?.newest(highest(Math.max(after, 0), pinned), limit) ?? []);
    });
  }

  async claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]> {
    this.#open();
    // Asked first, leases included: a worker that finds nothing to take neither takes the lock for it nor keeps it.
    const isWorth = await this.#read(() => this.#due.isWorth(query, grant, { settles: this.#writer !== undefined }));
    return isWorth ? this.#committer.submit((writer) => writer.claim(query, grant)) : [];
  }

  async sweep(limit: number, dryRun: boolean, after = ""): Promise<Swept> {
    this.#open();
    if (dryRun) return this.#survey.sweep(limit, after);
    const submit = <T>(run: (writer: Writer) => Done<T>): Promise<T> => {
      this.#open();
      return this.#removing(() => this.#committer.submit(run));
    };
    return this.#survey.sweep(limit, after, {
      settle: () => submit(() => ({ answer: undefined, saves: [], wrote: false })),
      free: async (unused) => submit((writer) => writer.sweep(unused)),
    });
  }

  // ---- reading

  async now(): Promise<number> {
    return monotonicMs();
  }

  session(id: string): Promise<SessionRow | undefined> {
    return this.#readOf(id, () => this.#reader.session(id));
  }

  present(id: string): Promise<Present | undefined> {
    return this.#readOf(id, () => this.#reader.present(id));
  }

  sessions(query: SessionQuery): Promise<readonly SessionRow[]> {
    return this.#read(() => this.#reader.sessions(query));
  }

  buriedEpoch(id: string): Promise<number> {
    return this.#read(() => this.#reader.buriedEpoch(id));
  }

  idsFrom(beginning: string, limit: number): Promise<Beginnings> {
    return this.#read(() => this.#reader.idsFrom(beginning, limit));
  }

  async about(): Promise<About> {
    this.#open();
    return this.#read(() => ({
      kind: "dir",
      place: this.#root,
      engine: "files",
      format: this.#options.format,
      diskBytes: bytesOf(filesBelow(this.#root)),
      synced: "each journal and its directory, at every save",
      concerns: concernsAbout(this.#root, [this.#root]),
    }));
  }

  line(id: string): Promise<LineRow | undefined> {
    return this.#read(() => this.#reader.line(id));
  }

  past(id: string, limit: number): Promise<readonly LineRow[]> {
    return this.#read(() => this.#reader.past(id, limit));
  }

  lines(of: LineQuery): Promise<readonly LineRow[]> {
    return this.#read(() => this.#reader.lines(of));
  }

  async saves(line: LineId, query: SaveQuery): Promise<readonly Save[]> {
    const approach = new Approach();
    for (;;) {
      const found = await this.#read(() => this.#reader.saves(line, query, approach));
      if (found !== undefined) return found;
      await breathe();
    }
  }

  doc(kind: string, id: string): Promise<(DocRow & { readonly body: string | null }) | undefined> {
    return this.#read(() => {
      const found = this.#sessions.documents.get(kind, id);
      return found && { ...rowOf(found), body: found.body };
    });
  }

  docs(query: DocQuery): Promise<readonly DocRow[]> {
    return this.#read(() => this.#sessions.documents.list(query));
  }

  pins(line: LineId): Promise<readonly Pin[]> {
    return this.#read(() => this.#sessions.documents.pins(line));
  }

  blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.#read(() => this.#blobs.get(digest));
  }

  post(session: string, mail: Mail): Promise<Posted> {
    return this.#read(() => {
      this.#presence.check();
      const posted = this.#reader.post(session, mail);
      this.#presence.check();
      return posted;
    });
  }

  inbox(session: string, query: InboxQuery): Promise<readonly Mail[]> {
    return this.#read(() => this.#reader.inbox(session, query));
  }

  watch(session: string, wake: () => void): () => void {
    return this.#watched(() => watchSession(this.#sessions.directory(session), wake));
  }

  watchAll(wake: () => void): () => void {
    return this.#watched(() => watchDue(this.#waiting.path, join(this.#root, "index.jsonl"), wake));
  }

  #watched(begin: () => () => void): () => void {
    if (this.#closed) return () => {};
    const stop = begin();
    this.#watches.add(stop);
    return () => {
      this.#watches.delete(stop);
      stop();
    };
  }

  /** A session that is asked for by its id is found by its own file: what that says is believed, and the index corrected. */
  #readOf<T>(id: string, look: () => T): Promise<T> {
    return this.#read(() => {
      const found = this.#sessions.find(id);
      if (found !== undefined && found !== "damaged" && this.#index.correct(found) && this.#writer !== undefined) this.#announce(found);
      return look();
    });
  }

  /** Says what was corrected to other processes. A read does not fail because it cannot be written. */
  #announce(found: SessionDoc): void {
    if (this.#committer.hasFailed) return;
    try {
      this.#index.announce([entryOf(found)]);
    } catch (error) {
      if (error instanceof Unsure) this.#committer.fail(error);
    }
  }

  async #read<T>(look: () => T): Promise<T> {
    this.#open();
    const behind = this.#follow();
    if (behind !== undefined) await behind;
    return look();
  }

  // ---- all of it

  counts(): Promise<Counts> {
    return this.#survey.counts();
  }

  /** Anchors of lines that were cut on purpose are no witnesses. */
  async anchors(of?: ReadonlySet<string>): Promise<Witnesses> {
    const anchors = await this.#anchors.read(of);
    const isCut = (line: string) => this.#index.catalogue.wasCut(line as LineId);
    return this.#read(() => ({
      of: (line) => (isCut(line) ? undefined : anchors.of(line)),
      *[Symbol.iterator]() {
        for (const anchor of anchors) if (!isCut(anchor.line)) yield anchor;
      },
    }));
  }

  incarnation(): Promise<string> {
    return this.#read(() => this.#options.incarnation());
  }

  async beginIncarnation(): Promise<string> {
    this.#open();
    this.#presence.check();
    return this.#options.beginIncarnation();
  }

  async backup(): Promise<Backup> {
    this.#open();
    throw noBackup(
      "Copy the directory while nobody writes, and let `holdfast restored` be the first that is run on a copy that is put back; or use hold.export.",
    );
  }

  check(): Promise<readonly string[]> {
    return this.#tenure.keep(async () => {
      const wasLast = this.#writer === undefined && this.#lock.wasLast;
      const found = await this.#survey.check(this.#writer !== undefined || wasLast);
      // Another process has begun to write meanwhile: what was found of the index may be of a change that was under way.
      return wasLast && !this.#lock.wasLast ? this.#survey.check(false) : found;
    });
  }

  async compact(): Promise<Freed> {
    this.#open();
    await this.#committer.drain();
    this.#presence.check();
    // C5: through the committer. The store must know where the index was exchanged and the sync failed.
    const compact = () => this.#committer.submit(() => ({ answer: this.#index.compact(), saves: none }));
    const bytes = this.#writer === undefined ? 0 : await this.#removing(compact);
    await this.#reserve.make();
    return { count: 0, bytes };
  }

  async scrub(holds: (text: string) => boolean): Promise<Scrubbed> {
    this.#open();
    return this.#removing(() => this.#committer.submit((writer) => writer.scrub(this.#root, holds)));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const stop of this.#watches) stop();
    this.#reserve.close();
    await this.#committer.drain();
    this.#tenure.stop();
    await this.#anchors.close();
    this.#journals.close();
    const isThere = this.#presence.isThere();
    this.#presence.close();
    try {
      // Where a write has failed nobody knows what the index should say: it is left as a kill would leave it.
      if (!this.#committer.hasFailed && isThere) this.#index.close();
    } catch {
      // There is no room to say that it was closed: the next one who opens it looks more closely.
    }
    this.#index.abandon();
    try {
      // A lock in another store's directory is not ours to write.
      if (isThere && this.#isMarked()) this.#lock.release();
    } finally {
      this.#lock.leave();
    }
  }

  /** K4: else the lock is kept until this process ends. */
  #isMarked(): boolean {
    try {
      this.#journals.unsynced.mark();
      return true;
    } catch {
      return false;
    }
  }

  #open(): void {
    if (this.#closed) throw storeClosed();
    this.gone.throwIfAborted();
  }
}
