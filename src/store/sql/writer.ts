/** What changes the database, as steps: each yields statements to be run together, and is given what they answered. */
import { type LineId, MAX_SEQ } from "../../core/ids.js";
import { firstSeq, type Save } from "../../core/save.js";
import {
  type Applied,
  type Change,
  type Freed,
  type Mail,
  type NewLine,
  type NewSave,
  type Posted,
  type Refusal,
  type Replacement,
  TURN_MAIL,
} from "../port.js";
import { change, changed, look, row, rowsOf } from "./asks.js";
import type { Ask, Begun, Dialect, Job, Lock, Row, Steps } from "./database.js";
import { checkOf, epochRow, pack, saveParams, sessionRow } from "./rows.js";
import type { Statements } from "./statements.js";

interface LineKey {
  readonly no: number;
  readonly originSeq: number;
}

/** More than any number or time there is. */
const ALL = Number.MAX_SAFE_INTEGER;

export class Writer {
  readonly #dialect: Dialect;
  readonly #sql: Statements;
  readonly #tenant: string;

  constructor(dialect: Dialect, sql: Statements, tenant: string) {
    this.#dialect = dialect;
    this.#sql = sql;
    this.#tenant = tenant;
  }

  // ---- apply

  /** `committed` is told of the lines that were begun. */
  apply(changes: readonly Change[], committed: (begun: readonly Begun[]) => void): Job<Applied> {
    let begun: Begun[] = [];
    return {
      locks: changes.flatMap(locksOf),
      steps: () => {
        begun = [];
        return this.#applyAll(changes, begun);
      },
      refused: (applied) => !applied.ok,
      settle: () => this.#settle(changes),
      committed: (applied) => {
        if (applied.ok) committed(begun);
      },
    };
  }

  *#applyAll(changes: readonly Change[], begun: Begun[]): Steps<Applied> {
    for (const [i, one] of changes.entries()) {
      const why = yield* this.#applyOne(one, begun);
      if (why !== undefined) return { ok: false, change: i, why };
    }
    return done;
  }

  *#applyOne(one: Change, begun: Begun[]): Steps<Refusal | undefined> {
    const { session, when, line, loose, claims = [], saves = [], lease, drained = [], remove } = one;
    const before = yield* row(this.#sql.session, this.#tenant, session);
    const why = yield* this.#refusal(one, before);
    if (why !== undefined) return why;
    const no = before === undefined ? yield* this.#insertSession(one) : (before[0] as number);
    if (no !== undefined) yield* this.#update(one, no);
    if (line && no !== undefined) {
      const made = yield* this.#begin(line, no);
      if (made === undefined) return "origin";
      begun.push({ ...made, id: line.id, sessionId: session, session: no, epoch: lease?.epoch ?? when.epoch });
    }
    if (loose) {
      const known = yield* row(this.#sql.line, this.#tenant, loose.id);
      if (known !== undefined && (known[2] === 1 || known[6] !== loose.text)) return "line";
      if (known === undefined && (yield* this.#begin(loose, null)) === undefined) return "origin";
    }
    for (const id of claims) if (no === undefined || (yield* changed(this.#sql.claimLine, no, this.#tenant, id)) === 0) return "line";
    for (const fresh of saves) if (!(yield* this.#append(fresh))) return "tail";
    if (no === undefined) return undefined;
    if (drained.length > 0) yield [...drained.map((id) => change(this.#sql.drain, no, id)), change(this.#sql.updateWake, no)];
    if (remove && !when.absent) yield* this.#remove(no);
    return undefined;
  }

  *#refusal({ session, when }: Change, before: Row | undefined): Steps<Refusal | undefined> {
    if (when.absent) {
      if (before !== undefined) return "exists";
      if (when.buried === undefined) return undefined;
      const buried = yield* row(this.#sql.buriedEpoch, this.#tenant, session);
      return when.buried === (buried ? epochRow(buried, session) : 0) ? undefined : "epoch";
    }
    if (before === undefined) return "absent";
    const { lease, label } = sessionRow(before);
    if (when.epoch !== undefined && lease.epoch !== when.epoch) return "epoch";
    if (when.until !== undefined && lease.until !== when.until) return "until";
    if (when.version !== undefined && label.version !== when.version) return "version";
    return undefined;
  }

  /** Undefined where only lines are brought in. */
  *#insertSession({ session, head, label, lease, line }: Change): Steps<number | undefined> {
    if (!head || !label || !lease) {
      if (head ?? label ?? lease ?? line) throw new TypeError("a new session needs head, label and lease");
      return undefined;
    }
    const made = yield* row(
      this.#sql.insertSession,
      this.#tenant,
      session,
      head.status,
      head.agent,
      head.line,
      head.due,
      head.due,
      head.text,
      lease.epoch,
      lease.until,
      lease.text,
      label.version,
      label.archived ? 1 : 0,
      JSON.stringify(label.tags),
      label.text,
    );
    return made?.[0] as number;
  }

  *#update({ when, head, label, lease }: Change, no: number): Steps<void> {
    const asks: Ask[] = [];
    if (!when.absent) {
      if (head)
        asks.push(
          change(this.#sql.updateHead, head.status, head.agent, head.line, head.due, head.text, no),
          change(this.#sql.updateWake, no),
        );
      if (lease) asks.push(change(this.#sql.updateLease, lease.epoch, lease.until, lease.text, no));
      if (label)
        asks.push(
          change(this.#sql.updateLabel, label.version, label.archived ? 1 : 0, JSON.stringify(label.tags), label.text, no),
          change(this.#sql.deleteTags, no),
        );
    }
    for (const tag of label?.tags ?? []) asks.push(change(this.#sql.insertTag, tag, no));
    if (asks.length > 0) yield asks;
  }

  /** Undefined where there is no checkpoint to begin at. */
  *#begin({ id, origin, text }: NewLine, session: number | null): Steps<LineKey | undefined> {
    if (origin && (yield* row(this.#sql.markAt, this.#tenant, origin.line, origin.seq)) === undefined) return undefined;
    const originSeq = origin?.seq ?? 0;
    const made = yield* row(this.#sql.insertLine, this.#tenant, id, session, origin?.line ?? null, originSeq, text);
    return { no: made?.[0] as number, originSeq };
  }

  *#remove(no: number): Steps<void> {
    const { bury, deleteTags, deleteMail, disownLines, spendSession, deleteSession } = this.#sql;
    yield [bury, deleteTags, deleteMail, disownLines, spendSession, deleteSession].flatMap((text) => (text ? change(text, no) : []));
  }

  *#append({ save, refs, blobs }: NewSave): Steps<boolean> {
    const key = yield* this.#key(save.line);
    if (key === undefined) return false;
    const tail = (yield* row(this.#sql.tailOf, key.no, key.originSeq))?.[0];
    if (tail !== firstSeq(save) - 1) return yield* this.#isThere(key, save);
    yield [
      change(this.#sql.insertSave, ...saveParams(key.no, save, this.#dialect.section)),
      ...blobs.map(({ digest, bytes }) => change(this.#sql.insertBlob, this.#tenant, digest, bytes)),
      ...refs.map((digest) => change(this.#sql.insertRef, key.no, save.seq, digest)),
    ];
    return true;
  }

  *#key(line: string): Steps<LineKey | undefined> {
    const found = yield* row(this.#sql.lineKey, this.#tenant, line);
    return found && { no: found[0] as number, originSeq: found[1] as number };
  }

  *#isThere({ no }: LineKey, save: Save): Steps<boolean> {
    const [head] = (yield* row(this.#sql.headAt, no, save.seq)) ?? [];
    return checkOf(head) === save.check;
  }

  *#settle(changes: readonly Change[]): Steps<Applied | undefined> {
    for (const one of changes) if (!(yield* this.#isDone(one))) return undefined;
    return done;
  }

  /** Whether everything in a change is as it was asked for. Of a change that asks for nothing that lasts this cannot be told. */
  *#isDone({ session, line, loose, claims = [], saves = [], head, label, lease, drained = [], remove }: Change): Steps<boolean> {
    const now = yield* row(this.#sql.session, this.#tenant, session);
    if (remove) return now === undefined;
    const there = now && sessionRow(now);
    const rows = [
      [head, there?.head],
      [label, there?.label],
      [lease, there?.lease],
    ] as const;
    if (!(head ?? label ?? lease ?? line ?? loose ?? saves[0] ?? claims[0])) return false;
    if (rows.some(([wanted, found]) => wanted !== undefined && wanted.text !== found?.text)) return false;
    for (const wanted of [line, loose]) {
      const found = wanted && (yield* row(this.#sql.line, this.#tenant, wanted.id));
      if (wanted && (found?.[6] !== wanted.text || (wanted === line && found?.[3] !== session))) return false;
    }
    for (const id of claims) if ((yield* row(this.#sql.line, this.#tenant, id))?.[3] !== session) return false;
    for (const { save } of saves) {
      const key = yield* this.#key(save.line);
      if (key === undefined || !(yield* this.#isThere(key, save))) return false;
    }
    const waiting = drained.length === 0 ? [] : yield* rowsOf(this.#sql.inbox, this.#tenant, session, ALL, ALL);
    return !waiting.some(([id]) => drained.includes(id as string));
  }

  // ---- the rest

  replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): Job<boolean> {
    return {
      locks: [{ line }, { blobs: "use" }],
      steps: () => this.#replace(line, replacements, unlessForkedSince),
      refused: (replaced) => !replaced,
    };
  }

  *#replace(line: LineId, replacements: readonly Replacement[], unlessForkedSince: number): Steps<boolean> {
    const key = yield* this.#key(line);
    if (key === undefined || (yield* row(this.#sql.forkedSince, this.#tenant, line, unlessForkedSince)) !== undefined) return false;
    const there = yield replacements.map(({ save }) => look(this.#sql.shapes, key.no, firstSeq(save), save.seq));
    if (!replacements.every(({ was }, i) => areAsRead(there[i] ?? [], was))) return false;
    yield replacements.flatMap(({ save, refs }) => {
      const range = [key.no, firstSeq(save), save.seq];
      return [
        change(this.#sql.deleteRefs, ...range),
        change(this.#sql.deleteSaves, ...range),
        change(this.#sql.insertSave, ...saveParams(key.no, save, this.#dialect.section)),
        ...refs.map((digest) => change(this.#sql.insertRef, key.no, save.seq, digest)),
      ];
    });
    return true;
  }

  cut(line: LineId, after: number, limit: number, dryRun: boolean): Job<Freed> {
    return { locks: [{ line }], steps: () => this.#cut(line, after, limit, dryRun), refused: () => false };
  }

  *#cut(line: LineId, after: number, limit: number, dryRun: boolean): Steps<Freed> {
    const found = yield* row(this.#sql.line, this.#tenant, line);
    if (found === undefined || found[2] === 1) return { count: 0, bytes: 0 };
    const no = found[0] as number;
    const forked = dryRun ? 0 : ((yield* row(this.#sql.lastOrigin, this.#tenant, line))?.[0] as number);
    const last = yield* rowsOf(this.#sql.lastSaves, no, Math.max(after, forked, 0), limit);
    if (dryRun) return freedOf(last);
    const asks = this.#dialect.notesCuts ? [change(this.#sql.noteCut, this.#tenant, line)] : [];
    const lowest = last.at(-1)?.[0] as number | undefined;
    if (lowest !== undefined)
      asks.push(change(this.#sql.deleteRefs, no, lowest, MAX_SEQ), change(this.#sql.deleteSaves, no, lowest, MAX_SEQ));
    if (after === -1 && forked === 0) {
      if (this.#sql.spendLine) asks.push(change(this.#sql.spendLine, no));
      asks.push(change(this.#sql.deleteLine, no, no));
    }
    if (asks.length > 0) yield asks;
    return freedOf(last);
  }

  /** Of blobs that nobody used when they were looked for, removes those that nobody uses now. */
  sweep(unused: readonly Row[]): Job<Freed> {
    return { locks: [{ blobs: "sweep" }], steps: () => this.#sweep(unused), refused: () => false };
  }

  *#sweep(unused: readonly Row[]): Steps<Freed> {
    const gone = yield unused.map(([digest]) => change(this.#sql.deleteBlob, this.#tenant, digest as string));
    return freedOf(unused.filter((_, i) => gone[i]?.[0]?.[0] === 1));
  }

  beginIncarnation(name: string): Job<number> {
    return { locks: [], steps: () => changed(this.#sql.beginIncarnation, name), refused: () => false };
  }

  /** `committed` is told of mail that is new. */
  post(session: string, mail: Mail, committed: () => void): Job<Posted> {
    return {
      locks: [{ session }],
      steps: () => this.#post(session, mail),
      refused: () => false,
      committed: (posted) => {
        if (posted === "posted") committed();
      },
    };
  }

  *#post(session: string, { id, text, due }: Mail): Steps<Posted> {
    if ((yield* changed(this.#sql.post, id, text, due, this.#tenant, session)) > 0) {
      const hasten = id.startsWith(TURN_MAIL) ? this.#sql.hastenUnlessWaits : this.#sql.hasten;
      yield [change(hasten, due, this.#tenant, session, due)];
      return "posted";
    }
    const before = (yield* row(this.#sql.mailBody, this.#tenant, session, id))?.[0];
    return before === undefined ? "absent" : before === text ? "known" : "conflict";
  }
}

function locksOf({ session, when, line, loose, claims = [], saves = [] }: Change): Lock[] {
  const locks: Lock[] = [{ session }];
  for (const begun of [line, loose]) if (begun?.origin) locks.push({ line: begun.origin.line });
  // Lines that nobody owns may be cut at any time, and others may bring in the same.
  if (loose) locks.push({ line: loose.id });
  if (when.absent) for (const { save } of saves) locks.push({ line: save.line });
  for (const claimed of claims) locks.push({ line: claimed });
  if (saves.some(({ refs }) => refs.length > 0)) locks.push({ blobs: "use" });
  return locks;
}

function areAsRead(there: readonly Row[], was: readonly Save[]): boolean {
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

/** Of rows that end with what they hold, in bytes. */
export const freedOf = (found: readonly Row[]): Freed => ({
  count: found.length,
  bytes: found.reduce((sum, [, bytes]) => sum + (bytes as number), 0),
});

const done: Applied = { ok: true };
