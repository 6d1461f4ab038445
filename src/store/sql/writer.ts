/** What changes the database. All of it runs inside transactions that the committer begins and ends; exceptions are the driver's. */
import { type LineId, MAX_SEQ } from "../../core/ids.js";
import { firstSeq, type Save } from "../../core/save.js";
import type { Applied, Change, Freed, Mail, NewSave, Posted, Refusal, Replacement } from "../port.js";
import type { Job } from "./committer.js";
import type { Param, Row, Statement } from "./driver.js";
import type { LineKey, LineKeys } from "./line-keys.js";
import type { Prepared } from "./prepared.js";
import { checkOf, epochRow, pack, saveParams, sessionRow } from "./rows.js";
import { statements as sql } from "./statements.js";

/** A line that a transaction has made. */
interface Born extends LineKey {
  readonly id: string;
}

export class Writer {
  readonly #statements: Prepared;
  readonly #lines: LineKeys;
  readonly #saved: (save: Save) => void;

  /** `saved` is told of every save that was committed. */
  constructor(statements: Prepared, lines: LineKeys, saved: (save: Save) => void) {
    this.#statements = statements;
    this.#lines = lines;
    this.#saved = saved;
  }

  #prepare(text: string): Statement {
    return this.#statements.of(text);
  }

  // ---- apply

  apply(changes: readonly Change[]): Job<Applied> {
    const only = changes.length === 1 ? changes[0] : undefined;
    const save = only && justASave(only);
    if (only && save) return this.#saveAlone(only, save);
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
        for (const { id, ...key } of born) this.#lines.remember(id, key);
        for (const { saves = [] } of changes) {
          for (const { save: fresh } of saves) {
            this.#saved(fresh);
            this.#lines.endsAt(fresh.line, undefined);
          }
        }
      },
    };
  }

  /** One save and nothing else: the common case, one statement. */
  #saveAlone(change: Change, save: Save): Job<Applied> {
    let session: number | undefined;
    return {
      simple: true,
      refused,
      run: () => {
        const key = this.#lines.of(save.line);
        if (key === undefined) return { ok: false, change: 0, why: this.#refusal(change, this.#row(change)) ?? "tail" };
        session = key.end?.session;
        if (this.#appendNext(key, change, save)) return done;
        // Looked up before the save is made: nothing may fail after it.
        const row = this.#row(change);
        session = row?.[0] as number | undefined;
        return this.#appendIf(key, change, row, save);
      },
      // Once it is committed, and not before: what was taken back is no end to go on from. Nor is a save that was there already.
      committed: (applied) => {
        if (applied.ok) this.#saved(save);
        const { session: id, when } = change;
        const isNew = applied === done && session !== undefined;
        this.#lines.endsAt(save.line, isNew ? { id, session: session as number, epoch: when.epoch as number, seq: save.seq } : undefined);
      },
    };
  }

  /** Where this process knows the end of the line. False: it does not, or another holder has come. */
  #appendNext(key: LineKey, change: Change, save: Save): boolean {
    const { end } = key;
    if (end?.id !== change.session || end.seq !== firstSeq(save) - 1 || end.epoch !== change.when.epoch) return false;
    const params = saveParams(key.no, save);
    params.push(end.session, end.epoch);
    return this.#prepare(sql.appendNext).run(...params) > 0;
  }

  #appendIf(key: LineKey, change: Change, row: Row | undefined, save: Save): Applied {
    const params = saveParams(key.no, save);
    params.push(change.session, change.when.epoch as number, ...tailParams(key, firstSeq(save) - 1));
    if (this.#prepare(sql.appendIf).run(...params) > 0) return done;
    const why = this.#refusal(change, row) ?? (this.#isThere(key, save) ? undefined : "tail");
    return why === undefined ? known : { ok: false, change: 0, why };
  }

  #applyAll(changes: readonly Change[], born: Born[]): Applied {
    for (const [i, change] of changes.entries()) {
      const why = this.#applyOne(change, born);
      if (why !== undefined) return { ok: false, change: i, why };
    }
    return done;
  }

  #row({ session }: Change): Row | undefined {
    return this.#prepare(sql.session).get(session);
  }

  #refusal({ session, when }: Change, row: Row | undefined): Refusal | undefined {
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
    const row = this.#row(change);
    const why = this.#refusal(change, row);
    if (why !== undefined) return why;
    const no = row === undefined ? this.#insertSession(change) : (row[0] as number);
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
    if (remove) this.#remove(no);
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

  #remove(no: number): void {
    this.#prepare(sql.bury).run(no);
    this.#prepare(sql.deleteTags).run(no);
    this.#prepare(sql.deleteMail).run(no);
    this.#prepare(sql.disownLines).run(no);
    this.#prepare(sql.spendSession).run(no);
    this.#prepare(sql.deleteSession).run(no);
  }

  #append({ save, refs, blobs }: NewSave): boolean {
    const key = this.#lines.of(save.line);
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
    const key = this.#lines.of(line);
    return key !== undefined && this.#prepare(sql.markAt).get(key.no, seq) !== undefined;
  }

  // ---- the rest

  replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): boolean {
    const key = this.#lines.of(line);
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

  cut(line: LineId, after: number, limit: number, dryRun: boolean): Freed {
    const row = this.#prepare(sql.line).get(line);
    if (row === undefined || row[2] === 1) return { count: 0, bytes: 0 };
    const no = row[0] as number;
    const forked = dryRun ? 0 : (this.#prepare(sql.lastOrigin).get(line)?.[0] as number);
    const last = this.#prepare(sql.lastSaves).all(no, Math.max(after, forked, 0), limit);
    if (!dryRun) this.#cut(line, no, last.at(-1)?.[0] as number | undefined, after === -1 && forked === 0);
    return freedOf(last);
  }

  #cut(line: LineId, no: number, lowest: number | undefined, whole: boolean): void {
    this.#prepare(sql.noteCut).run(line);
    if (lowest !== undefined) {
      this.#prepare(sql.deleteRefs).run(no, lowest, MAX_SEQ);
      this.#prepare(sql.deleteSaves).run(no, lowest, MAX_SEQ);
    }
    if (whole) {
      this.#prepare(sql.spendLine).run(no);
      this.#prepare(sql.deleteLine).run(no, no);
    }
  }

  sweep(limit: number, dryRun: boolean): Freed {
    const unused = this.#prepare(sql.unusedBlobs).all(limit);
    if (!dryRun) for (const [digest] of unused) this.#prepare(sql.deleteBlob).run(digest as string);
    return freedOf(unused);
  }

  post(session: string, { id, text }: Mail): Posted {
    if (this.#prepare(sql.post).run(id, text, session) > 0) return "posted";
    const before = this.#prepare(sql.mailBody).get(session, id)?.[0];
    return before === undefined ? "absent" : before === text ? "known" : "conflict";
  }
}

/** Of rows that end with what they hold, in bytes. */
const freedOf = (rows: readonly Row[]): Freed => ({
  count: rows.length,
  bytes: rows.reduce((sum, [, bytes]) => sum + (bytes as number), 0),
});

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
