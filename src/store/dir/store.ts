/**
 * The store in a directory: files that people can read, and commit to git. It has one writing process at a time (lock.ts), and as many
 * readers as there are.
 */
import { join } from "node:path";
import type { Digest } from "../../core/digest.js";
import { HoldfastError, quote } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import type { Save } from "../../core/save.js";
import { Anchors, anchoredSeq } from "../anchors.js";
import { monotonicMs } from "../machine.js";
import type {
  Anchor,
  Applied,
  Change,
  Counts,
  Freed,
  LineQuery,
  LineRow,
  Mail,
  Posted,
  Present,
  Replacement,
  SaveQuery,
  SessionQuery,
  SessionRow,
  Store,
  Traits,
} from "../port.js";
import { storeClosed } from "../refusals.js";
import { Blobs } from "./blobs.js";
import { entryOf, isSameEntry, type Standing } from "./catalogue.js";
import { Committer } from "./committer.js";
import { translate } from "./failures.js";
import { checkDirectory, namesIn, readFile } from "./files.js";
import { IndexFile } from "./index-file.js";
import { Journals } from "./journals.js";
import { Lock } from "./lock.js";
import { Reader } from "./reader.js";
import { type Progress, readAllEntries, sessionDirectories } from "./rebuild.js";
import { type Seal, textBytes } from "./save-rows.js";
import { readDoc, SessionFiles } from "./session-files.js";
import { watchSession } from "./watch.js";
import { freedOf, Writer } from "./writer.js";

export interface DirStoreOptions {
  readonly busyMs: number;
  readonly onProgress?: Progress | undefined;
}

const BREATHE_EVERY = 200;

export class DirStore implements Store {
  readonly traits: Traits = { durable: true, oneMachine: true, shared: true };
  readonly #root: string;
  readonly #options: DirStoreOptions;
  readonly #sessions: SessionFiles;
  readonly #journals: Journals;
  readonly #index: IndexFile;
  readonly #blobs: Blobs;
  readonly #reader: Reader;
  readonly #lock: Lock;
  readonly #anchors: Anchors;
  readonly #committer: Committer;
  readonly #watches = new Set<() => void>();
  #writer: Writer | undefined;
  #taking: Promise<Writer> | undefined;
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
    this.#reader = new Reader(this.#sessions, this.#journals, this.#index);
    this.#lock = new Lock(root);
    this.#anchors = new Anchors(join(root, "anchors"), storeId, (line) => this.#index.catalogue.line(line)?.owner == null);
    this.#committer = new Committer(
      () => this.#writer ?? this.#beginWriting(),
      ({ line, seq, check }) => this.#anchors.note(line, seq, check),
    );
  }

  // ---- the index, and who writes

  /** Reads the index, or makes it again. */
  async begin(): Promise<void> {
    for (const name of ["sessions", "blobs"]) checkDirectory(join(this.#root, name));
    await this.#follow();
  }

  /** Sees what other processes have written. */
  #follow(): void | Promise<void> {
    if (this.#writer !== undefined || this.#index.follow() || this.#index.load()) return;
    const { number, isFree } = this.#lock.look();
    if (isFree && this.#rebuiltAt === number) return;
    this.#rebuilding ??= this.#rebuild(isFree ? number : undefined).finally(() => {
      this.#rebuilding = undefined;
    });
    return this.#rebuilding;
  }

  async #rebuild(at: number | undefined): Promise<void> {
    const entries = await readAllEntries(this.#root, this.#options.onProgress);
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
    await this.#lock.take(this.#options.busyMs);
    try {
      await this.#rebuilding;
      this.#sessions.beginWriting();
      this.#journals.beginWriting();
      const isSound = this.#index.follow() || this.#index.load();
      if (!isSound && this.#rebuiltAt !== this.#lock.number - 1) {
        this.#rebuilding = this.#rebuild(undefined).finally(() => {
          this.#rebuilding = undefined;
        });
        await this.#rebuilding;
      }
      this.#index.beginWriting({ isSound });
      this.#writer = new Writer({
        sessions: this.#sessions,
        journals: this.#journals,
        index: this.#index,
        blobs: this.#blobs,
        // What was cut on purpose is no witness of a loss.
        anchored: (line) =>
          this.#index.catalogue.wasCut(line) ? 0 : anchoredSeq(readFile(join(this.#root, "anchors"))?.toString() ?? "", line),
      });
      return this.#writer;
    } catch (error) {
      this.#sessions.endWriting();
      this.#journals.endWriting();
      this.#index.abandon();
      this.#lock.release();
      throw error;
    }
  }

  // ---- writing

  apply(changes: readonly Change[]): Promise<Applied> {
    return this.#closed ? Promise.reject(storeClosed()) : this.#committer.submit((writer) => writer.apply(changes));
  }

  async replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): Promise<boolean> {
    this.#open();
    return this.#committer.submit((writer) => writer.replace(line, replacements, unlessForkedSince));
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    if (!dryRun) {
      this.#open();
      return this.#committer.submit((writer) => writer.cut(line, after, limit));
    }
    return this.#read(() => {
      const row = this.#reader.line(line);
      const standing = this.#index.catalogue.line(line);
      if (standing === undefined || row === undefined || row.owned) return freedOf([]);
      return freedOf(this.#reader.journal(standing)?.newest(Math.max(after, 0), limit) ?? []);
    });
  }

  async sweep(limit: number, dryRun: boolean): Promise<Freed> {
    this.#open();
    if (dryRun) return this.#sweep(limit, undefined, new Set());
    const writer = await this.#committer.submit((ours) => ({ answer: ours, saves: [] }));
    return writer.whileSweeping((since) => this.#sweep(limit, (digest) => this.#blobs.remove(digest), since));
  }

  /** `since`: what saves refer to that come while it looks. */
  async #sweep(limit: number, free: ((digest: Digest) => void) | undefined, since: ReadonlySet<Digest>): Promise<Freed> {
    const used = new Set<Digest>();
    for await (const { seals, line } of this.#allSeals()) {
      checkWhole(line, seals);
      for (const { refs = [] } of seals) for (const digest of refs) used.add(digest);
    }
    let count = 0;
    let bytes = 0;
    for (const blobs of this.#blobs.all()) {
      await breathe();
      this.#open();
      for (const blob of blobs) {
        if (count >= limit) return { count, bytes };
        if (used.has(blob.digest) || since.has(blob.digest)) continue;
        free?.(blob.digest);
        count += 1;
        bytes += blob.bytes;
      }
    }
    return { count, bytes };
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

  line(id: string): Promise<LineRow | undefined> {
    return this.#read(() => this.#reader.line(id));
  }

  past(id: string): Promise<readonly LineRow[]> {
    return this.#read(() => this.#reader.past(id));
  }

  lines(of: LineQuery): Promise<readonly LineRow[]> {
    return this.#read(() => this.#reader.lines(of));
  }

  saves(line: LineId, query: SaveQuery): Promise<readonly Save[]> {
    return this.#read(() => this.#reader.saves(line, query));
  }

  blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.#read(() => this.#blobs.get(digest));
  }

  post(session: string, mail: Mail): Promise<Posted> {
    return this.#read(() => this.#reader.post(session, mail));
  }

  inbox(session: string, limit: number): Promise<readonly Mail[]> {
    return this.#read(() => this.#reader.inbox(session, limit));
  }

  watch(session: string, wake: () => void): () => void {
    if (this.#closed) return () => {};
    const stop = watchSession(this.#sessions.directory(session), wake);
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
      if (found !== undefined && found !== "damaged" && this.#index.correct(found) && this.#writer !== undefined)
        this.#index.announce([entryOf(found)]);
      return look();
    });
  }

  async #read<T>(look: () => T): Promise<T> {
    this.#open();
    try {
      const behind = this.#follow();
      if (behind !== undefined) await behind;
      return look();
    } catch (error) {
      throw translate(error);
    }
  }

  // ---- all of it

  async counts(): Promise<Counts> {
    await this.#read(() => {});
    const counts = { checkpoints: 0, messages: 0, sizeBytes: 0 };
    const live = [...this.#index.catalogue.entries()].filter(({ status }) => status !== null);
    for await (const { seals } of this.#allSeals()) {
      for (const seal of seals) {
        if (seal.mark !== undefined) counts.checkpoints += 1;
        if (seal.items !== undefined && seal.items[0] > 0) counts.messages += seal.n[3];
        counts.sizeBytes += textBytes(seal);
      }
    }
    for (const blobs of this.#blobs.all()) {
      await breathe();
      for (const { bytes } of blobs) counts.sizeBytes += bytes;
    }
    return { agents: new Set(live.flatMap(({ agent }) => agent ?? [])).size, sessions: live.length, ...counts };
  }

  /** The seals of every line. Those of one line at once: its file may be closed whenever others run. */
  async *#allSeals(): AsyncGenerator<{ readonly line: Standing; readonly seals: readonly Seal[] }> {
    let read = 0;
    await this.#read(() => {});
    for (const { id, lines } of this.#index.catalogue.entries()) {
      for (const line of lines) {
        const standing = { ...line, home: id };
        const seals = await this.#read(() => [...(this.#reader.journal(standing)?.seals() ?? [])].flat());
        yield { line: standing, seals };
        read += 1 + seals.length;
        if (read < BREATHE_EVERY) continue;
        read = 0;
        await breathe();
      }
    }
  }

  /** Anchors of lines that were cut on purpose are no witnesses. */
  async anchors(): Promise<readonly Anchor[]> {
    const anchors = await this.#anchors.read();
    return this.#read(() => anchors.filter(({ line }) => !this.#index.catalogue.wasCut(line)));
  }

  async check(): Promise<readonly string[]> {
    await this.#read(() => {});
    const found: string[] = [];
    for (const [i, directory] of sessionDirectories(this.#root).entries()) {
      if (i % BREATHE_EVERY === 0) await breathe();
      for (const name of namesIn(directory)) {
        if (/\.tail-[0-9]+$/.test(name))
          found.push(
            `The end of a journal was not whole, and was set aside in ${quote(join(directory, name))}. Look at it, then remove it.`,
          );
      }
      this.#checkIndex(directory, found);
    }
    await this.#checkEnds(found);
    return found;
  }

  #checkIndex(directory: string, found: string[]): void {
    const doc = readDoc(directory, undefined);
    if (doc === "damaged") found.push(`${quote(join(directory, "session.json"))} is damaged.`);
    // Another may be writing: then the index runs ahead, and readers follow.
    if (doc === undefined || doc === "damaged" || this.#writer === undefined) return;
    const entry = this.#index.catalogue.entry(doc.id);
    if (this.#sessions.directory(doc.id) !== directory)
      found.push(`${quote(directory)} holds session ${quote(doc.id)}, which belongs elsewhere: a directory was copied or renamed.`);
    else if (entry === undefined || !isSameEntry(entry, entryOf(doc)))
      found.push(`The index does not know what ${quote(directory)} holds. Close the store and delete index.jsonl: it is made again.`);
  }

  /** Only where nobody else is writing: otherwise a save may just be under way. */
  async #checkEnds(found: string[]): Promise<void> {
    if (this.#writer === undefined && !this.#lock.look().isFree) return;
    for (const { id, lines } of this.#index.catalogue.entries()) {
      for (const line of lines) {
        const stray = await this.#read(() => this.#reader.journal({ ...line, home: id })?.strayBytes ?? 0);
        if (stray > 0) found.push(`Line ${line.id} of session ${quote(id)} ends with ${stray} bytes that are no whole save.`);
      }
    }
  }

  async compact(): Promise<number> {
    this.#open();
    await this.#committer.drain();
    return this.#index.compact();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const stop of this.#watches) stop();
    await this.#committer.drain();
    await this.#anchors.close();
    this.#journals.close();
    try {
      // Where a write has failed nobody knows what the index should say: it is left as a kill would leave it.
      if (!this.#committer.hasFailed) this.#index.close();
    } catch {
      // There is no room to say that it was closed: the next one who opens it looks more closely.
    }
    this.#index.abandon();
    try {
      this.#lock.release();
    } catch (error) {
      throw translate(error);
    } finally {
      this.#lock.leave();
    }
  }

  #open(): void {
    if (this.#closed) throw storeClosed();
  }
}

/** Blobs are needed as long as a save refers to them: where one cannot be read, nobody knows which those are. */
function checkWhole(line: Standing, seals: readonly Seal[]): void {
  let next = (line.origin?.seq ?? 0) + 1;
  for (const { seq, n } of seals) {
    if (seq - n[0] - n[1] - n[2] + 1 !== next)
      throw new HoldfastError(
        "CORRUPT",
        `Record ${next} of line ${line.id} is missing, and with it which blobs are needed: none is removed.`,
        {
          line: line.id,
          seq: next,
        },
      );
    next = seq + 1;
  }
}

const breathe = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
