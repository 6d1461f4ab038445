/** SQLite as a database of the SQL store: one connection, answers in the same tick, commits of one tick together. */
import { setImmediate as breathe, setTimeout as sleep } from "node:timers/promises";
import type { Save } from "../../../core/journal/save.js";
import type { HoldfastError } from "../../../core/values/errors.js";
import type { LineId } from "../../../core/values/ids.js";
import type { About, Anchor, Applied, Backup, BackupOptions, Change, Freed, NewSave, Scrubbed, Traits, Witnesses } from "../../port.js";
import type { Presence } from "../../presence.js";
import { freeing, isFull, type Reserve } from "../../reserve.js";
import type { Ask, Begun, Database, Dialect, Job, Param, Row } from "../database.js";
import { Appender } from "./append.js";
import { sqliteDialect } from "./dialect.js";
import { Committer, translate } from "./driver/committer.js";
import { type Driver, failureOf } from "./driver/driver.js";
import { Prepared } from "./driver/prepared.js";
import { findingsOf } from "./driver/unreadable.js";
import { LineKeys } from "./line-keys.js";
import { Room } from "./room.js";
import { Watch } from "./watch.js";

/** What the file a database is in adds to it. */
export interface Medium {
  /** The file that the caller named. */
  readonly place: string;
  readonly traits: Traits;
  /** Whether its files are still those that were opened. */
  readonly presence: Presence;
  /** Room to delete by, on a full disk. */
  readonly reserve?: Reserve;
  now(): number;
  /** Told of every save that was committed. */
  saved(line: LineId, seq: number, check: string): void;
  anchors(of?: ReadonlySet<string>): Promise<Witnesses>;
  backup(path: string, o: BackupOptions): Promise<Backup>;
  about(): About;
  scrub(withinMs: number): Promise<Scrubbed>;
  close(): Promise<void>;
}

export interface SqliteSettings {
  readonly tenant: string;
  readonly busyMs: number;
  /** The error of each write, where the store can only be looked at. */
  readonly refuses?: HoldfastError;
}

/** So many pages take some milliseconds. */
const SHRUNK_PAGES = 1_000;

export class SqliteDatabase implements Database {
  readonly traits: Traits;
  readonly dialect: Dialect;
  readonly tryLock = undefined;
  readonly lockAll = undefined;
  readonly #medium: Medium;
  readonly #committer: Committer;
  readonly #statements: Prepared;
  readonly #lines: LineKeys;
  readonly #appender: Appender;
  readonly #watch: Watch;
  readonly #room: Room;
  readonly #tenant: string;
  readonly #busyMs: number;

  constructor(db: Driver, medium: Medium, { tenant, busyMs, refuses }: SqliteSettings) {
    this.#medium = medium;
    this.#tenant = tenant;
    this.#busyMs = busyMs;
    this.traits = medium.traits;
    this.dialect = sqliteDialect(() => medium.now());
    this.#committer = new Committer(db, { busyMs, presence: medium.presence, refuses });
    this.#statements = new Prepared(db);
    this.#lines = new LineKeys(db, this.#statements, tenant);
    this.#appender = new Appender(this.#statements, this.#lines, tenant, (save) => this.#saved(save));
    this.#watch = new Watch(db);
    this.#room = new Room(db, medium.place);
    // A process that was killed may have left a long log on a full disk.
    if (refuses === undefined) this.#room.letGo();
  }

  get gone(): AbortSignal {
    return this.#medium.presence.gone;
  }

  append(change: Change, { save, refs }: NewSave): Promise<Applied> | undefined {
    return refs.length > 0 ? undefined : this.#writing(this.#committer.submit(this.#appender.append(change, save)));
  }

  write<T>({ steps, refused, committed, removes }: Job<T>): Promise<T> {
    const run = (): T => {
      const work = steps();
      for (let step = work.next(); ; ) {
        if (step.done) return step.value;
        step = work.next(step.value.map((ask) => this.#ask(ask)));
      }
    };
    const submit = () => this.#committer.submit({ simple: false, refused, run, ...(committed && { committed }) });
    return removes ? this.#removing(submit) : this.#writing(submit());
  }

  /** After a full disk: the log moves into the file again as soon as there is room for it. */
  #writing<T>(written: Promise<T>): Promise<T> {
    return this.#room.isHeld ? written.finally(() => this.#room.letGo()) : written;
  }

  /**
   * On a full disk, first the log is emptied, then the reserve is given up. The log is emptied after that only if the reserve alone was not
   * enough: the file may grow by all of it. Much is written by what takes away: moved into the file a little at a time, its share of the log
   * keeps no save waiting.
   */
  async #removing<T>(submit: () => Promise<T>): Promise<T> {
    const emptyLog = () => this.#room.emptyLog();
    const known = await freeing(this.#medium.place, submit, [emptyLog, () => void this.#medium.reserve?.give(), emptyLog]);
    await breathe();
    if (this.#room.isHeld && this.#room.isShrinkable) await this.#shrink();
    this.#room.shortenLog();
    return known;
  }

  /** Makes the file shorter, so that the log can be moved into it. */
  async #shrink(): Promise<void> {
    try {
      while ((await this.#giveBack(SHRUNK_PAGES)).count > 0) await breathe();
    } catch (error) {
      // What was to be removed is removed. `gc` tries again.
      if (!isFull(error)) throw error;
    }
    this.#room.emptyLog();
  }

  #giveBack(limit: number): Promise<Freed> {
    return this.#committer.submit({ simple: true, refused: () => false, run: () => this.#room.giveBack(limit) });
  }

  #ask({ text, params, changes }: Ask): readonly Row[] {
    const statement = this.#statements.of(text);
    return changes ? [[statement.run(...params)]] : statement.all(...params);
  }

  applied(changes: readonly Change[], begun: readonly Begun[]): void {
    for (const { id, no, originSeq, sessionId, session, epoch } of begun) {
      this.#lines.remember(id, {
        no,
        originSeq,
        end: epoch === undefined ? undefined : { id: sessionId, session, epoch, seq: originSeq },
      });
    }
    for (const { saves = [] } of changes) {
      for (const { save } of saves) {
        this.#saved(save);
        this.#lines.endsAt(save.line, undefined);
      }
    }
  }

  posted(_session: string): void {}

  #saved({ line, seq, check }: Save): void {
    this.#medium.saved(line, seq, check);
  }

  wasCut(line: LineId): void {
    this.#lines.forget(line);
  }

  read(text: string, params: readonly Param[]): Promise<readonly Row[]> {
    return this.#patiently(() => this.#statements.of(text).all(...params));
  }

  readSaves(text: string, params: readonly Param[]): Promise<readonly Row[]> {
    return this.read(text, params);
  }

  /** Reads wait for nobody but a process that is just recovering the file or its log. */
  async #patiently<T>(look: () => T): Promise<T> {
    this.gone.throwIfAborted();
    let isSecond = false;
    for (let deadline: number | undefined; ; ) {
      try {
        return look();
      } catch (error) {
        const failure = failureOf(error);
        // A read that the disk failed once is called damage, too: what is damaged is damaged the second time.
        if (failure === "corrupt" && !isSecond) isSecond = true;
        else if (failure !== "busy") throw translate(error);
        deadline ??= performance.now() + this.#busyMs;
        if (performance.now() > deadline) throw translate(error);
      }
      await sleep(2 + Math.random() * 18);
    }
  }

  async now(): Promise<number> {
    return this.#medium.now();
  }

  watch(_session: string, wake: () => void): () => void {
    return this.#watch.begin(wake);
  }

  watchAll(wake: () => void): () => void {
    return this.#watch.begin(wake);
  }

  /** Anchors of lines that were cut on purpose are no witnesses: another process may have written them after that. */
  async anchors(of?: ReadonlySet<string>): Promise<Witnesses> {
    const anchors = await this.#medium.anchors(of);
    const wasCut = this.#statements.of("SELECT 1 FROM cut_line WHERE tenant = ? AND id = ?");
    const counts = (anchor: Anchor | undefined): boolean => {
      try {
        return anchor !== undefined && wasCut.get(this.#tenant, anchor.line) === undefined;
      } catch (error) {
        throw translate(error);
      }
    };
    return {
      of(line) {
        const anchor = anchors.of(line);
        return counts(anchor) ? anchor : undefined;
      },
      *[Symbol.iterator]() {
        for (const anchor of anchors) if (counts(anchor)) yield anchor;
      },
    };
  }

  async check(): Promise<readonly string[]> {
    const rows = await this.read("PRAGMA integrity_check", []);
    try {
      return findingsOf(rows, this.#medium.place).filter((line) => line !== "ok");
    } catch (error) {
      throw translate(error);
    }
  }

  async about(): Promise<About> {
    try {
      return this.#medium.about();
    } catch (error) {
      throw translate(error);
    }
  }

  async backup(path: string, o: BackupOptions): Promise<Backup> {
    return this.#medium.backup(path, o);
  }

  async compact(limit: number): Promise<Freed> {
    // It would use up the room to delete by, and free nothing (ROOM-1).
    if (this.#room.isHeld && !this.#room.isShrinkable) return { count: 0, bytes: 0 };
    const freed = await this.#removing(() => this.#giveBack(limit));
    if (freed.count < limit) {
      this.#room.emptyLog();
      await this.#medium.reserve?.make();
    }
    return freed;
  }

  async scrub(): Promise<Scrubbed> {
    return this.#removing(async () => {
      await this.#committer.drain();
      return this.#medium.scrub(this.#busyMs);
    });
  }

  async close(): Promise<void> {
    this.#watch.end();
    await this.#committer.drain();
    // SQLite moves the log when the last connection is closed, also where there is no room for all of it (ROOM-1).
    if (this.#room.isHeld && !this.gone.aborted && !this.#room.letGo()) this.#medium.reserve?.keepRest();
    await this.#medium.close();
  }
}
