/** What changes the database, as steps: each yields statements to be run together, and is given what they answered. */
import { firstSeq, type Save } from "../../core/journal/save.js";
import { type LineId, MAX_SEQ } from "../../core/values/ids.js";
import {
  type Applied,
  type CaptureQuery,
  type Change,
  type Decision,
  drainedText,
  type Freed,
  isDrained,
  type KnownNeeds,
  type Mail,
  type NewLine,
  type NewSave,
  type Posted,
  type Present,
  type Refusal,
  type Replacement,
  TURN_MAIL,
} from "../port.js";
import { takesAway } from "../reserve.js";
import { change, changed, look, row, rowsOf } from "./asks.js";
import type { Ask, Begun, Database, Dialect, Job, Lock, Param, Row, Steps } from "./database.js";
import { Docs } from "./docs.js";
import { checkOf, epochRow, pack, presentRow, saveParams, sessionRow } from "./rows.js";
import type { Statements } from "./statements.js";

interface LineKey {
  readonly no: number;
  readonly originSeq: number;
}

/** What an index for search is known by, once there is one. */
export const indexKey = (tenant: string): string => `search:${tenant}`;

/** More than any number or time there is. */
const ALL = Number.MAX_SAFE_INTEGER;

export class Writer {
  readonly #dialect: Dialect;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #docs: Docs;
  readonly #indexKey: string;

  constructor(dialect: Dialect, sql: Statements, tenant: string) {
    this.#dialect = dialect;
    this.#sql = sql;
    this.#tenant = tenant;
    this.#docs = new Docs(sql, tenant);
    this.#indexKey = indexKey(tenant);
  }

  // ---- apply

  /** `committed` is told of the lines that were begun. */
  apply({ changes, docs }: Decision, committed: (begun: readonly Begun[]) => void, how?: "frees"): Job<Applied> {
    let begun: Begun[] = [];
    return {
      locks: changes.flatMap(locksOf),
      steps: () => {
        begun = [];
        return this.#applyAll({ changes, docs }, begun);
      },
      refused: (applied) => !applied.ok,
      settle: () => this.#settle({ changes, docs }),
      committed: (applied) => {
        if (applied.ok) committed(begun);
      },
      ...((how === "frees" || takesAway({ changes, docs })) && { removes: true }),
    };
  }

  *#applyAll({ changes, docs }: Decision, begun: Begun[]): Steps<Applied> {
    for (const [i, one] of changes.entries()) {
      const why = yield* this.#applyOne(one, begun);
      if (why !== undefined) return { ok: false, change: i, why };
    }
    for (const [i, one] of docs.entries()) {
      const why = yield* this.#docs.apply(one);
      if (why !== undefined) return { ok: false, change: changes.length + i, why };
    }
    return done;
  }

  /** `committed` is told what was decided, and of the lines that were begun. */
  capture(
    { agent, limit, hold, also = [], how }: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
    lockAll: Database["lockAll"],
    committed: (decided: Decision, begun: readonly Begun[]) => void,
  ): Job<Applied> {
    let decided: Decision | undefined;
    let begun: Begun[] = [];
    const steps = function* (this: Writer): Steps<Applied> {
      begun = [];
      if (hold && lockAll) {
        const ids = yield* rowsOf(this.#sql.sessionsOfAgent, this.#tenant, agent, limit);
        const locks = lockAll([...ids.map(([id]) => id as string), ...also]);
        if (locks.length > 0) yield locks;
      }
      decided = decide((yield* rowsOf(this.#sql.presents, this.#tenant, agent, limit)).map(presentRow));
      return decided === undefined ? done : yield* this.#applyAll(decided, begun);
    };
    return {
      // Lines begin where nothing is taken away meanwhile: those who take something away wait for this lock, too.
      locks: [{ pins: "keep" }],
      steps: () => steps.call(this),
      refused: (applied) => !applied.ok || decided === undefined,
      settle: () => this.#settle(decided ?? nothing),
      committed: (applied) => {
        if (applied.ok && decided !== undefined) committed(decided, begun);
      },
      ...(how === "frees" && { removes: true }),
    };
  }

  *#applyOne(one: Change, begun: Begun[]): Steps<Refusal | undefined> {
    const { session, when, line, loose, claims = [], saves = [], lease, remove } = one;
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
      if (known === undefined && (yield* this.#begin(loose, null, this.#sql.saveAt)) === undefined) return "origin";
    }
    for (const id of claims) if (no === undefined || (yield* changed(this.#sql.claimLine, no, this.#tenant, id)) === 0) return "line";
    for (const fresh of saves) if (!(yield* this.#append(fresh))) return "tail";
    if (no === undefined) return undefined;
    yield* this.#changeMail(one, no);
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

  *#changeMail({ drained = [], reworded = [], forgets }: Change, no: number): Steps<void> {
    const asks = reworded.map(({ id, text }) => change(this.#sql.reword, text, no, id));
    if (forgets) asks.push(change(this.#sql.forgetDrained, no));
    if (drained.length > 0) {
      if (asks.length > 0) yield asks.splice(0);
      const bodies = yield drained.map((id) => look(this.#sql.waitingBody, no, id));
      for (const [i, id] of drained.entries()) {
        const body = bodies[i]?.[0]?.[0];
        if (body !== undefined) asks.push(change(this.#sql.drain, typeof body === "string" ? drainedText(body) : "", no, id));
      }
      asks.push(change(this.#sql.updateWake, no));
    }
    if (asks.length > 0) yield asks;
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
    if (label) asks.push(...this.#noting(change(this.#sql.noteSession, this.#tenant, no, this.#indexKey)));
    for (const tag of label?.tags ?? []) asks.push(change(this.#sql.insertTag, tag, no));
    if (asks.length > 0) yield asks;
  }

  /** Undefined where there is nothing to begin at. */
  *#begin({ id, origin, text }: NewLine, session: number | null, at = this.#sql.originAt as string): Steps<LineKey | undefined> {
    if (origin && (yield* row(at, this.#tenant, origin.line, origin.seq)) === undefined) return undefined;
    const originSeq = origin?.seq ?? 0;
    const made = yield* row(this.#sql.insertLine, this.#tenant, id, session, origin?.line ?? null, originSeq, text);
    return { no: made?.[0] as number, originSeq };
  }

  *#remove(no: number): Steps<void> {
    const { bury, deleteTags, deleteMail, disownLines, spendSession, deleteSession } = this.#sql;
    yield [
      ...this.#noting(change(this.#sql.noteSession, this.#tenant, no, this.#indexKey)),
      ...[bury, deleteTags, deleteMail, disownLines, spendSession, deleteSession].flatMap((text) => (text ? change(text, no) : [])),
    ];
  }

  /** Notes for an index. Where there are too many of them, it is given up instead: whoever searches next makes it anew. */
  #noting(...notes: readonly Ask[]): readonly Ask[] {
    if (notes.length === 0) return notes;
    const [key, tenant] = [this.#indexKey, this.#tenant];
    return [...notes, change(this.#sql.giveUpIndex, key, tenant, tenant, tenant), change(this.#sql.dropNotes, tenant, key)];
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

  *#settle({ changes, docs }: Decision): Steps<Applied | undefined> {
    for (const one of changes) if (!(yield* this.#isDone(one))) return undefined;
    for (const one of docs) if (!(yield* this.#docs.isDone(one))) return undefined;
    return changes.length + docs.length === 0 ? undefined : done;
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

  replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Job<boolean> {
    return {
      locks: [{ line }, { blobs: "use" }, { pins: "take" }],
      steps: () => this.#replace(line, replacements, known),
      refused: (replaced) => !replaced,
      removes: true,
    };
  }

  *#replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Steps<boolean> {
    const key = yield* this.#key(line);
    if (key === undefined || (yield* row(this.#sql.forkedSince, this.#tenant, line, known.line)) !== undefined) return false;
    if ((yield* row(this.#sql.pinnedSince, this.#tenant, line, known.doc)) !== undefined) return false;
    const there = yield replacements.map(({ save }) => look(this.#sql.shapes, key.no, firstSeq(save), save.seq));
    if (!replacements.every(({ was }, i) => areAsRead(there[i] ?? [], was))) return false;
    const goes = replacements.filter((replacement) => !staysInRow(replacement));
    // What goes, goes first: the number of a save that is noted must not be one that was given again here.
    yield [
      ...replacements.flatMap(({ blobs = [] }) =>
        blobs.map(({ digest, bytes }) => change(this.#sql.insertBlob, this.#tenant, digest, bytes)),
      ),
      ...replacements.map(({ save }) => change(this.#sql.deleteRefs, key.no, firstSeq(save), save.seq)),
      ...goes.map(({ save }) => change(this.#sql.deleteSaves, key.no, firstSeq(save), save.seq)),
      ...this.#noting(
        ...goneTexts(replacements).map(([first, last]) => change(this.#sql.noteGone, this.#tenant, key.no, first, last, this.#indexKey)),
      ),
      ...replacements.flatMap((replacement) => [
        this.#puts(key.no, replacement),
        ...replacement.refs.map((digest) => change(this.#sql.insertRef, key.no, replacement.save.seq, digest)),
      ]),
    ];
    return true;
  }

  /** Of one that stays in its row only what has changed is written. */
  #puts(line: number, replacement: Replacement): Ask {
    const { save, was } = replacement;
    const params = saveParams(line, save, this.#dialect.section);
    if (!staysInRow(replacement)) return change(this.#sql.insertSave, ...params);
    const [before] = was as readonly [Save];
    const [, , head, mark, note, items, state] = params as [Param, Param, Param, Param, Param, Param, Param];
    const [newItems, newState] = [save.items !== before.items, save.state !== before.state];
    const { both, items: ofItems, state: ofState, neither } = this.#sql.updateSave;
    const text = newItems ? (newState ? both : ofItems) : newState ? ofState : neither;
    return change(text, head, mark, note, ...(newItems ? [items] : []), ...(newState ? [state] : []), line, save.seq);
  }

  cut(line: LineId, after: number, limit: number): Job<Freed> {
    return { locks: [{ line }, { pins: "take" }], steps: () => this.#cut(line, after, limit), refused: () => false, removes: true };
  }

  *#cut(line: LineId, after: number, limit: number): Steps<Freed> {
    const found = yield* row(this.#sql.line, this.#tenant, line);
    if (found === undefined || found[2] === 1) return { count: 0, bytes: 0 };
    const no = found[0] as number;
    const forked = (yield* row(this.#sql.lastOrigin, this.#tenant, line))?.[0] as number;
    const pinned = (yield* row(this.#sql.lastPin, this.#tenant, line))?.[0] as number;
    const last = yield* rowsOf(this.#sql.lastSaves, no, Math.max(after, forked, pinned, 0), limit);
    const asks = this.#dialect.notesCuts ? [change(this.#sql.noteCut, this.#tenant, line)] : [];
    const lowest = last.at(-1)?.[0] as number | undefined;
    if (lowest !== undefined)
      asks.push(
        change(this.#sql.deleteRefs, no, lowest, MAX_SEQ),
        change(this.#sql.deleteSaves, no, lowest, MAX_SEQ),
        ...this.#noting(change(this.#sql.noteCutTexts, this.#tenant, no, no, MAX_SEQ, this.#indexKey)),
      );
    if (after === -1 && forked === 0 && pinned === 0) {
      if (this.#sql.spendLine) asks.push(change(this.#sql.spendLine, no));
      asks.push(change(this.#sql.deleteLine, no, no));
    }
    if (asks.length > 0) yield asks;
    return freedOf(last);
  }

  /** Of blobs that nobody used when they were looked for, removes those that nobody uses now. */
  sweep(unused: readonly Row[]): Job<Freed> {
    return { locks: [{ blobs: "sweep" }], steps: () => this.#sweep(unused), refused: () => false, removes: true };
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
    const [before, drained] = (yield* row(this.#sql.mailBody, this.#tenant, session, id)) ?? [];
    if (before === undefined) return "absent";
    return before === text || (drained === 1 && isDrained(before as string, text)) ? "known" : "conflict";
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

/** Whether a save that stands for itself alone may stay in its row. Other texts in it come as a row anew: an index reads what is new. */
function staysInRow({ save, was }: Replacement): boolean {
  const [before, ...more] = was;
  return more.length === 0 && before?.seq === save.seq && (save.items === null || save.items === before.items);
}

/** Records whose texts are not there any more, or are others, as ranges of their numbers. */
function goneTexts(replacements: readonly Replacement[]): readonly (readonly [first: number, last: number])[] {
  const ranges: [number, number][] = [];
  for (const { save, was } of replacements) {
    if (was.every(({ items }) => items === null || items === save.items)) continue;
    const last = ranges.at(-1);
    if (last?.[1] === firstSeq(save) - 1) last[1] = save.seq;
    else ranges.push([firstSeq(save), save.seq]);
  }
  return ranges;
}

/** Of rows that end with what they hold, in bytes. */
export const freedOf = (found: readonly Row[]): Freed => ({
  count: found.length,
  bytes: found.reduce((sum, [, bytes]) => sum + (bytes as number), 0),
});

const done: Applied = { ok: true };
const nothing: Decision = { changes: [], docs: [] };
