/** The SQL store: what is read, and what is handed to the writer. What is particular to a file is in sqlite.ts. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Digest } from "../../core/digest.js";
import { HoldfastError } from "../../core/errors.js";
import { type LineId, MAX_SEQ } from "../../core/ids.js";
import type { Save } from "../../core/save.js";
import type {
  Anchor,
  Applied,
  Change,
  Counts,
  Freed,
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
import { Committer, type Job, translate } from "./committer.js";
import { type Driver, failureOf, type Param, type Row } from "./driver.js";
import { LineKeys } from "./line-keys.js";
import { Prepared } from "./prepared.js";
import { blobRow, epochRow, lineRow, mailRow, presentRow, saveRow, sessionRow } from "./rows.js";
import { sessionsBy, statements as sql } from "./statements.js";
import { Writer } from "./writer.js";

/** What the file a database is in adds to it. */
export interface Medium {
  readonly traits: Traits;
  now(): number;
  /** Told of every save that was committed. */
  saved(line: LineId, seq: number, check: string): void;
  anchors(): Promise<readonly Anchor[]>;
  compact(): Promise<number>;
  close(): Promise<void>;
}

const COUNTED_AT_ONCE = 20_000;

export class SqlStore implements Store {
  readonly traits: Traits;
  readonly #medium: Medium;
  readonly #committer: Committer;
  readonly #statements: Prepared;
  readonly #lines: LineKeys;
  readonly #writer: Writer;
  readonly #busyMs: number;
  #closed = false;

  constructor(db: Driver, medium: Medium, busyMs: number) {
    this.#busyMs = busyMs;
    this.#medium = medium;
    this.traits = medium.traits;
    this.#committer = new Committer(db, { busyMs });
    this.#statements = new Prepared(db);
    this.#lines = new LineKeys(db, this.#statements);
    this.#writer = new Writer(this.#statements, this.#lines, ({ line, seq, check }) => medium.saved(line, seq, check));
  }

  // ---- writing

  apply(changes: readonly Change[]): Promise<Applied> {
    return this.#submit(this.#writer.apply(changes));
  }

  replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): Promise<boolean> {
    return this.#write(() => this.#writer.replace(line, replacements, unlessForkedSince));
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    const freed = await this.#write(() => this.#writer.cut(line, after, limit, dryRun));
    if (!dryRun) this.#lines.forget(line);
    return freed;
  }

  sweep(limit: number, dryRun: boolean): Promise<Freed> {
    return this.#write(() => this.#writer.sweep(limit, dryRun));
  }

  post(session: string, mail: Mail): Promise<Posted> {
    return this.#write(() => this.#writer.post(session, mail));
  }

  #write<T>(run: () => T): Promise<T> {
    return this.#submit({ simple: false, refused: () => false, run });
  }

  #submit<T>(job: Job<T>): Promise<T> {
    return this.#closed ? Promise.reject(closed()) : this.#committer.submit(job);
  }

  // ---- reading

  async now(): Promise<number> {
    return this.#medium.now();
  }

  async session(id: string): Promise<SessionRow | undefined> {
    const row = (await this.#read(sql.session, id))[0];
    return row && sessionRow(row);
  }

  async present(id: string): Promise<Present | undefined> {
    const row = (await this.#read(sql.present, id))[0];
    return row && presentRow(row);
  }

  async sessions({ agent, status, tag, archived, before, limit }: SessionQuery): Promise<readonly SessionRow[]> {
    const filters: Param[] = [];
    if (tag !== undefined) filters.push(tag);
    if (agent !== undefined) filters.push(agent);
    if (status !== undefined) filters.push(status);
    const statement = sessionsBy({ agent: agent !== undefined, status: status !== undefined, tag: tag !== undefined, archived });
    return (await this.#read(statement, ...filters, before ?? Number.MAX_SAFE_INTEGER, limit)).map(sessionRow);
  }

  async buriedEpoch(id: string): Promise<number> {
    const row = (await this.#read(sql.buriedEpoch, id))[0];
    return row ? epochRow(row, id) : 0;
  }

  async line(id: string): Promise<LineRow | undefined> {
    const row = (await this.#read(sql.line, id))[0];
    return row && lineRow(row);
  }

  async lines(of: { readonly session: string } | { readonly origin: string } | { readonly all: true }): Promise<readonly LineRow[]> {
    if ("session" in of) return (await this.#read(sql.linesOfSession, of.session)).map(lineRow);
    if ("origin" in of) return (await this.#read(sql.linesOfOrigin, of.origin)).map(lineRow);
    return (await this.#read(sql.allLines)).map(lineRow);
  }

  async saves(line: LineId, { from, to, limit, newestFirst, items, state }: SaveQuery): Promise<readonly Save[]> {
    const key = await this.#patiently(() => this.#lines.of(line));
    if (key === undefined) return [];
    const by = items ? (state ? sql.saves.both : sql.saves.items) : state ? sql.saves.state : sql.saves.neither;
    const rows = await this.#read(newestFirst ? by.newestFirst : by.oldestFirst, key.no, from, key.no, to, MAX_SEQ, limit);
    const saves: Save[] = [];
    for (const row of rows) saves.push(saveRow(line, row));
    return saves;
  }

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    const row = (await this.#read(sql.blob, digest))[0];
    return row && blobRow(row);
  }

  async inbox(session: string, limit: number): Promise<readonly Mail[]> {
    return (await this.#read(sql.inbox, session, limit)).map(mailRow);
  }

  async counts(): Promise<Counts> {
    const [sessions, agents] = (await this.#read(sql.sessionCounts))[0] as [number, number];
    const counts = { sessions, agents, checkpoints: 0, messages: 0, sizeBytes: (await this.#read(sql.blobBytes))[0]?.[0] as number };
    for (let after = 0; ; ) {
      const [end, checkpoints, messages, bytes] = (await this.#read(sql.saveCounts, after, COUNTED_AT_ONCE))[0] as (number | null)[];
      if (end === null || end === undefined) return counts;
      after = end;
      counts.checkpoints += checkpoints as number;
      counts.messages += messages as number;
      counts.sizeBytes += bytes as number;
      // A store of millions is counted without stopping the process for seconds.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Anchors of lines that were cut on purpose are no witnesses: another process may have written them after that. */
  async anchors(): Promise<readonly Anchor[]> {
    const anchors = await this.#medium.anchors();
    return this.#patiently(() => anchors.filter(({ line }) => this.#statements.of(sql.wasCut).get(line) === undefined));
  }

  async check(): Promise<readonly string[]> {
    return (await this.#read("PRAGMA integrity_check")).map(([line]) => String(line)).filter((line) => line !== "ok");
  }

  async compact(): Promise<number> {
    this.#open();
    await this.#committer.drain();
    return this.#medium.compact();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#committer.drain();
    await this.#medium.close();
  }

  #read(statement: string, ...params: Param[]): Promise<Row[]> {
    return this.#patiently(() => this.#statements.of(statement).all(...params));
  }

  /** Reads wait for nobody but a process that is just recovering the file or its log. */
  async #patiently<T>(look: () => T): Promise<T> {
    this.#open();
    for (let deadline: number | undefined; ; ) {
      try {
        return look();
      } catch (error) {
        if (failureOf(error) !== "busy") throw translate(error);
        deadline ??= performance.now() + this.#busyMs;
        if (performance.now() > deadline) throw translate(error);
      }
      await sleep(2 + Math.random() * 18);
      this.#open();
    }
  }

  #open(): void {
    if (this.#closed) throw closed();
  }
}

const closed = (): HoldfastError => new HoldfastError("CLOSED", "The store has been closed. Open it again.");
