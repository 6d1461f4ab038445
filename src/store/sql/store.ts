/** The SQL store. It speaks SQLite here; what is particular to a file is in sqlite.ts. */

import { setTimeout as sleep } from "node:timers/promises";
import type { Digest } from "../../core/digest.js";
import { HoldfastError } from "../../core/errors.js";
import { type LineId, MAX_SEQ } from "../../core/ids.js";
import { firstSeq, type Save } from "../../core/save.js";
import type {
  Anchor,
  Applied,
  Change,
  Counts,
  Freed,
  LineRow,
  Mail,
  NewSave,
  Present,
  Refusal,
  Replacement,
  SaveQuery,
  SessionQuery,
  SessionRow,
  Store,
  Traits,
} from "../port.js";
import { Committer, type Job, translate } from "./committer.js";
import type { Driver, Param, Row, Statement } from "./driver.js";
import { blobRow, checkOf, epochRow, lineRow, mailRow, pack, presentRow, saveParams, saveRow, sessionRow } from "./rows.js";
import { sessionsBy, statements as sql } from "./statements.js";

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

interface LineKey {
  readonly no: number;
  readonly originSeq: number;
  /**
   * Where the line ended after this process's last save on it, by which session and epoch. As long as that epoch stands nobody else
   * can have added to it, so the next save need not look.
   */
  end: { readonly id: string; readonly session: number; readonly epoch: number; readonly seq: number } | undefined;
}

/** A line that a transaction has made. */
interface Born extends LineKey {
  readonly id: string;
}

const MAX_LINE_KEYS = 50_000;
const COUNTED_AT_ONCE = 20_000;

export class SqlStore implements Store {
  readonly traits: Traits;
  readonly #db: Driver;
  readonly #medium: Medium;
  readonly #committer: Committer;
  readonly #prepared = new Map<string, Statement>();
  readonly #lineKeys = new Map<string, LineKey>();
  readonly #busyMs: number;
  #closed = false;

  constructor(db: Driver, medium: Medium, busyMs: number) {
    this.#busyMs = busyMs;
    this.#db = db;
    this.#medium = medium;
    this.traits = medium.traits;
    this.#committer = new Committer(db, { busyMs });
  }

  // ---- writing

  apply(changes: readonly Change[]): Promise<Applied> {
    return this.#submit(this.#job(changes));
  }

  #job(changes: readonly Change[]): Job<Applied> {
    const only = changes.length === 1 ? changes[0] : undefined;
    const save = only && justASave(only);
    if (only && save) return this.#saveJob(only, save);
    let born: Born[] = [];
    return {
      simple: false,
      refused,
      run: () => {
        born = [];
        return this.#applyAll(changes, born);
      },
      committed: (applied) => {
        if (!applied.ok) return;
        for (const { id, ...key } of born) this.#remember(id, key);
        for (const { saves = [] } of changes) {
          for (const { save: fresh } of saves) {
            this.#noteSaved(fresh);
            const key = this.#lineKeys.get(fresh.line);
            if (key !== undefined) key.end = undefined;
          }
        }
      },
    };
  }

  /** One save and nothing else: the common case, one statement. */
  #saveJob(change: Change, save: Save): Job<Applied> {
    let session: number | undefined;
    return {
      simple: true,
      refused,
      run: () => {
        const key = this.#lineKey(save.line);
        if (key === undefined) return { ok: false, change: 0, why: this.#refusal(change) ?? "tail" };
        session = key.end?.session;
        if (this.#appendNext(key, change, save)) return done;
        // Looked up before the save is made: nothing may fail after it.
        session = this.#prepare(sql.session).get(change.session)?.[0] as number | undefined;
        return this.#appendIf(key, change, save);
      },
      // Once it is committed, and not before: what was taken back is no end to go on from. Nor is a save that was there already.
      committed: (applied) => {
        if (applied.ok) this.#noteSaved(save);
        const key = this.#lineKeys.get(save.line);
        if (key === undefined) return;
        const { session: id, when } = change;
        key.end = applied === done && session !== undefined ? { id, session, epoch: when.epoch as number, seq: save.seq } : undefined;
      },
    };
  }

  #noteSaved({ line, seq, check }: Save): void {
    this.#medium.saved(line, seq, check);
  }

  /** Where this process knows the end of the line. False: it does not, or another holder has come. */
  #appendNext(key: LineKey, change: Change, save: Save): boolean {
    const { end } = key;
    if (end?.id !== change.session || end.seq !== firstSeq(save) - 1 || end.epoch !== change.when.epoch) return false;
    const params = saveParams(key.no, save);
    params.push(end.session, end.epoch);
    return this.#prepare(sql.appendNext).run(...params) > 0;
  }

  #appendIf(key: LineKey, change: Change, save: Save): Applied {
    const params = saveParams(key.no, save);
    params.push(change.session, change.when.epoch as number, ...tailParams(key, firstSeq(save) - 1));
    if (this.#prepare(sql.appendIf).run(...params) > 0) return done;
    const why = this.#refusal(change) ?? (this.#isThere(key, save) ? undefined : "tail");
    return why === undefined ? known : { ok: false, change: 0, why };
  }

  #applyAll(changes: readonly Change[], born: Born[]): Applied {
    for (const [i, change] of changes.entries()) {
      const why = this.#applyOne(change, born);
      if (why !== undefined) return { ok: false, change: i, why };
    }
    return done;
  }

  #refusal({ session, when }: Change): Refusal | undefined {
    const row = this.#prepare(sql.session).get(session);
    if (when.absent) {
      if (row !== undefined) return "exists";
      const buried = this.#prepare(sql.buriedEpoch).get(session);
      return when.buried !== undefined && when.buried !== (buried ? epochRow(buried, session) : 0) ? "epoch" : undefined;
    }
    if (row === undefined) return "absent";
    const { lease, label } = sessionRow(row);
    if (when.epoch !== undefined && lease.epoch !== when.epoch) return "epoch";
    if (when.until !== undefined && lease.until !== when.until) return "until";
    if (when.version !== undefined && label.version !== when.version) return "version";
    return undefined;
  }

  #applyOne(change: Change, born: Born[]): Refusal | undefined {
    const { session, when, line, saves = [], head, label, lease, drained = [], remove } = change;
    const why = this.#refusal(change);
    if (why !== undefined) return why;
    const no = when.absent ? this.#insertSession(change) : (this.#prepare(sql.session).get(session)?.[0] as number);
    if (!when.absent) {
      if (head) this.#prepare(sql.updateHead).run(head.status, head.agent, head.line, head.text, no);
      if (lease) this.#prepare(sql.updateLease).run(lease.epoch, lease.until, lease.text, no);
      if (label) this.#prepare(sql.updateLabel).run(label.version, label.archived ? 1 : 0, JSON.stringify(label.tags), label.text, no);
    }
    if (label) {
      this.#prepare(sql.deleteTags).run(no);
      for (const tag of label.tags) this.#prepare(sql.insertTag).run(tag, no);
    }
    if (line) {
      if (line.origin && !this.#hasMark(line.origin.line, line.origin.seq)) return "origin";
      const originSeq = line.origin?.seq ?? 0;
      const made = this.#prepare(sql.insertLine).get(line.id, no, line.origin?.line ?? null, originSeq, line.text)?.[0] as number;
      const epoch = lease?.epoch ?? when.epoch;
      // Where it ends is known as long as nothing else comes with it.
      const end = epoch === undefined || saves.length > 0 ? undefined : { id: session, session: no, epoch, seq: originSeq };
      born.push({ id: line.id, no: made, originSeq, end });
    }
    for (const fresh of saves) if (!this.#append(fresh)) return "tail";
    for (const id of drained) this.#prepare(sql.drain).run(no, id);
    if (remove) this.#remove(session, no);
    return undefined;
  }

  #insertSession({ session, head, label, lease }: Change): number {
    if (head === undefined || label === undefined || lease === undefined) throw new TypeError("a new session needs head, label and lease");
    const params = [
      session,
      head.status,
      head.agent,
      head.line,
      head.text,
      lease.epoch,
      lease.until,
      lease.text,
      label.version,
      label.archived ? 1 : 0,
      JSON.stringify(label.tags),
      label.text,
    ];
    return this.#prepare(sql.insertSession).get(...params)?.[0] as number;
  }

  #remove(session: string, no: number): void {
    const { lease } = sessionRow(this.#prepare(sql.session).get(session) as Row);
    this.#prepare(sql.bury).run(session, lease.epoch);
    this.#prepare(sql.deleteTags).run(no);
    this.#prepare(sql.deleteMail).run(no);
    this.#prepare(sql.disownLines).run(no);
    this.#prepare(sql.spendSession).run(no);
    this.#prepare(sql.deleteSession).run(no);
  }

  #append({ save, refs, blobs }: NewSave): boolean {
    const key = this.#lineKey(save.line);
    if (key === undefined) return false;
    if (this.#prepare(sql.append).run(...saveParams(key.no, save), ...tailParams(key, firstSeq(save) - 1)) === 0)
      return this.#isThere(key, save);
    for (const { digest, bytes } of blobs) this.#prepare(sql.insertBlob).run(digest, bytes);
    for (const digest of refs) this.#prepare(sql.insertRef).run(key.no, save.seq, digest);
    return true;
  }

  #isThere(key: LineKey, save: Save): boolean {
    const [head] = this.#prepare(sql.headAt).get(key.no, save.seq) ?? [];
    return checkOf(head) === save.check;
  }

  #hasMark(line: string, seq: number): boolean {
    const key = this.#lineKey(line);
    return key !== undefined && this.#prepare(sql.markAt).get(key.no, seq) !== undefined;
  }

  async replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): Promise<boolean> {
    return this.#write(() => {
      const key = this.#lineKey(line);
      if (key === undefined || this.#prepare(sql.forkedSince).get(line, unlessForkedSince) !== undefined) return false;
      if (!replacements.every((replacement) => this.#isAsRead(key, replacement))) return false;
      for (const { save, refs } of replacements) {
        const range = [key.no, firstSeq(save), save.seq];
        this.#prepare(sql.deleteRefs).run(...range);
        this.#prepare(sql.deleteSaves).run(...range);
        this.#prepare(sql.insertSave).run(...saveParams(key.no, save));
        for (const digest of refs) this.#prepare(sql.insertRef).run(key.no, save.seq, digest);
      }
      return true;
    });
  }

  #isAsRead({ no }: LineKey, { save, was }: Replacement): boolean {
    const there = this.#prepare(sql.shapes).all(no, firstSeq(save), save.seq);
    return (
      there.length === was.length &&
      there.every(([seq, head, note, noItems, noState, noMark], i) => {
        const read = was[i] as Save;
        const gone = [read.items === null, read.state === null, read.mark === null].map(Number);
        return (
          seq === read.seq && head === pack(read) && note === read.note && noItems === gone[0] && noState === gone[1] && noMark === gone[2]
        );
      })
    );
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    const freed = await this.#write(() => {
      const row = this.#prepare(sql.line).get(line);
      if (row === undefined || row[2] === 1) return { count: 0, bytes: 0 };
      if (!dryRun) this.#prepare(sql.noteCut).run(line);
      const no = row[0] as number;
      const forked = dryRun ? 0 : (this.#prepare(sql.lastOrigin).get(line)?.[0] as number);
      const last = this.#prepare(sql.lastSaves).all(no, Math.max(after, forked, 0), limit);
      const lowest = last.at(-1)?.[0] as number | undefined;
      if (lowest !== undefined && !dryRun) {
        this.#prepare(sql.deleteRefs).run(no, lowest, MAX_SEQ);
        this.#prepare(sql.deleteSaves).run(no, lowest, MAX_SEQ);
      }
      if (after === -1 && !dryRun && forked === 0) {
        this.#prepare(sql.spendLine).run(no);
        this.#prepare(sql.deleteLine).run(no, no);
      }
      return { count: last.length, bytes: last.reduce((sum, [, bytes]) => sum + (bytes as number), 0) };
    });
    if (!dryRun) this.#lineKeys.delete(line);
    return freed;
  }

  async sweep(limit: number, dryRun: boolean): Promise<Freed> {
    return this.#write(() => {
      const unused = this.#prepare(sql.unusedBlobs).all(limit);
      if (!dryRun) for (const [digest] of unused) this.#prepare(sql.deleteBlob).run(digest as string);
      return { count: unused.length, bytes: unused.reduce((sum, [, bytes]) => sum + (bytes as number), 0) };
    });
  }

  async post(session: string, { id, text }: Mail): Promise<"posted" | "known" | "conflict" | "absent"> {
    return this.#write(() => {
      if (this.#prepare(sql.post).run(id, text, session) > 0) return "posted";
      const known = this.#prepare(sql.mailBody).get(session, id)?.[0];
      return known === undefined ? "absent" : known === text ? "known" : "conflict";
    });
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
    this.#open();
    const key = this.#lineKey(line);
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
    return anchors.filter(({ line }) => this.#now(sql.wasCut, line).length === 0);
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

  #lineKey(id: string): LineKey | undefined {
    const known = this.#lineKeys.get(id);
    if (known) return known;
    const row = this.#now(sql.lineKey, id)[0];
    if (row === undefined) return undefined;
    const key: LineKey = { no: row[0] as number, originSeq: row[1] as number, end: undefined };
    // Inside a transaction the line may yet be taken back.
    if (!this.#db.inTransaction) this.#remember(id, key);
    return key;
  }

  #remember(id: string, key: LineKey): void {
    if (this.#lineKeys.size >= MAX_LINE_KEYS) this.#lineKeys.clear();
    this.#lineKeys.set(id, key);
  }

  /** Reads wait for nobody but a process that is just recovering the file or its log. */
  async #read(statement: string, ...params: Param[]): Promise<Row[]> {
    for (let deadline: number | undefined; ; ) {
      try {
        return this.#now(statement, ...params);
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "BUSY") throw error;
        deadline ??= performance.now() + this.#busyMs;
        if (performance.now() > deadline) throw error;
      }
      await sleep(2 + Math.random() * 18);
    }
  }

  #now(statement: string, ...params: Param[]): Row[] {
    this.#open();
    try {
      return this.#prepare(statement).all(...params);
    } catch (error) {
      throw translate(error);
    }
  }

  #prepare(text: string): Statement {
    let statement = this.#prepared.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(text);
      this.#prepared.set(text, statement);
    }
    return statement;
  }

  #open(): void {
    if (this.#closed) throw closed();
  }
}

const closed = (): HoldfastError => new HoldfastError("CLOSED", "The store has been closed. Open it again.");

const done: Applied = { ok: true };
/** It was there already. */
const known: Applied = { ok: true };
const refused = (applied: Applied): boolean => !applied.ok;

/** The save of a change that is nothing else: the common case, one statement. */
function justASave({ when, line, saves, head, label, lease, drained, remove }: Change): Save | undefined {
  const only = saves?.length === 1 ? saves[0] : undefined;
  if (only === undefined || only.refs.length > 0 || when.epoch === undefined || when.until !== undefined || when.version !== undefined)
    return undefined;
  return line || head || label || lease || drained?.length || remove ? undefined : only.save;
}

const tailParams = ({ no, originSeq }: LineKey, tail: number): Param[] => [no, originSeq, tail];
