/**
 * What applies changes, as procedures: each yields statements to be run together, and is given what
 * they answered.
 */
import { firstSeq } from "../../core/journal/save.js";
import type { Applied, Change, NewSave, Refusal } from "../port/changes.js";
import type { CaptureQuery, Decision } from "../port/documents.js";
import type { NewBranch, Present } from "../port/rows.js";
import { takesAway } from "../reserve.js";
import type { Begun, Database, Dialect, Job, Lock, Procedure, Row, SqlCall } from "./database.js";
import { Docs } from "./docs.js";
import { type BranchKey, findBranch, isThere } from "./find-save.js";
import type { Inbox } from "./inbox.js";
import { IndexNotes } from "./index-notes.js";
import { change, changed, row, rowsOf } from "./procedure.js";
import { epochRow, presentRow, saveParams, sessionRow } from "./rows.js";
import { Settling } from "./settle.js";
import type { Statements } from "./statements.js";

export class Writer {
  readonly #dialect: Dialect;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #docs: Docs;
  readonly #inbox: Inbox;
  readonly #settling: Settling;
  readonly #notes: IndexNotes;

  constructor(dialect: Dialect, sql: Statements, tenant: string, inbox: Inbox) {
    this.#dialect = dialect;
    this.#sql = sql;
    this.#tenant = tenant;
    this.#docs = new Docs(sql, tenant);
    this.#inbox = inbox;
    this.#settling = new Settling(sql, tenant, this.#docs);
    this.#notes = new IndexNotes(sql, tenant);
  }

  /** `committed` is told of the branches that were begun. */
  apply(
    { changes, docs }: Decision,
    committed: (begun: readonly Begun[]) => void,
    how?: "frees",
  ): Job<Applied> {
    let begun: Begun[] = [];
    return {
      locks: changes.flatMap(locksOf),
      steps: () => {
        begun = [];
        return this.#applyAll({ changes, docs }, begun);
      },
      refused: (applied) => !applied.ok,
      settle: () => this.#settling.settle({ changes, docs }),
      committed: (applied) => {
        if (applied.ok) committed(begun);
      },
      ...((how === "frees" || takesAway({ changes, docs })) && { removes: true }),
    };
  }

  *#applyAll({ changes, docs }: Decision, begun: Begun[]): Procedure<Applied> {
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

  /** `committed` is told what was decided, and of the branches that were begun. */
  capture(
    { agent, limit, hold, also = [], how }: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
    lockAll: Database["lockAll"],
    committed: (decided: Decision, begun: readonly Begun[]) => void,
  ): Job<Applied> {
    let decided: Decision | undefined;
    let begun: Begun[] = [];
    const steps = function* (this: Writer): Procedure<Applied> {
      begun = [];
      if (hold && lockAll) {
        const ids = yield* rowsOf(this.#sql.sessionsOfAgent, this.#tenant, agent, limit);
        const locks = lockAll([...ids.map(([id]) => id as string), ...also]);
        if (locks.length > 0) yield locks;
      }
      decided = decide(
        (yield* rowsOf(this.#sql.presents, this.#tenant, agent, limit)).map(presentRow),
      );
      return decided === undefined ? done : yield* this.#applyAll(decided, begun);
    };
    return {
      // Branches begin where nothing is taken away meanwhile: those who take something away wait
      // for this lock, too.
      locks: [{ pins: "keep" }],
      steps: () => steps.call(this),
      refused: (applied) => !applied.ok || decided === undefined,
      settle: () => this.#settling.settle(decided ?? nothing),
      committed: (applied) => {
        if (applied.ok && decided !== undefined) committed(decided, begun);
      },
      ...(how === "frees" && { removes: true }),
    };
  }

  *#applyOne(one: Change, begun: Begun[]): Procedure<Refusal | undefined> {
    const { session, when, branch, loose, claims = [], saves = [], lease, remove } = one;
    const before = yield* row(this.#sql.session, this.#tenant, session);
    const why = yield* this.#refusal(one, before);
    if (why !== undefined) return why;
    const no = before === undefined ? yield* this.#insertSession(one) : (before[0] as number);
    if (no !== undefined) yield* this.#update(one, no);
    if (branch && no !== undefined) {
      const made = yield* this.#begin(branch, no);
      if (made === undefined) return "forkPoint";
      begun.push({
        ...made,
        id: branch.id,
        sessionId: session,
        session: no,
        epoch: lease?.epoch ?? when.epoch,
      });
    }
    if (loose) {
      const known = yield* row(this.#sql.branch, this.#tenant, loose.id);
      if (known !== undefined && (known[2] === 1 || known[6] !== loose.text)) return "branch";
      if (known === undefined && (yield* this.#begin(loose, null, this.#sql.saveAt)) === undefined)
        return "forkPoint";
    }
    for (const id of claims)
      if (no === undefined || (yield* changed(this.#sql.claimBranch, no, this.#tenant, id)) === 0)
        return "branch";
    for (const fresh of saves) if (!(yield* this.#append(fresh))) return "tail";
    if (no === undefined) return undefined;
    yield* this.#inbox.takeIn(one, no);
    if (remove && !when.absent) yield* this.#remove(no);
    return undefined;
  }

  *#refusal({ session, when }: Change, before: Row | undefined): Procedure<Refusal | undefined> {
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

  /** Undefined where only branches are brought in. */
  *#insertSession({ session, head, label, lease, branch }: Change): Procedure<number | undefined> {
    if (!head || !label || !lease) {
      if (head ?? label ?? lease ?? branch)
        throw new TypeError("a new session needs head, label and lease");
      return undefined;
    }
    const made = yield* row(
      this.#sql.insertSession,
      this.#tenant,
      session,
      head.status,
      head.agent,
      head.branch,
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

  *#update({ when, head, label, lease }: Change, no: number): Procedure<void> {
    const asks: SqlCall[] = [];
    if (!when.absent) {
      if (head)
        asks.push(
          change(
            this.#sql.updateHead,
            head.status,
            head.agent,
            head.branch,
            head.due,
            head.text,
            no,
          ),
          change(this.#sql.updateWake, no),
        );
      if (lease) asks.push(change(this.#sql.updateLease, lease.epoch, lease.until, lease.text, no));
      if (label)
        asks.push(
          change(
            this.#sql.updateLabel,
            label.version,
            label.archived ? 1 : 0,
            JSON.stringify(label.tags),
            label.text,
            no,
          ),
          change(this.#sql.deleteTags, no),
        );
    }
    if (label) asks.push(...this.#notes.session(no));
    for (const tag of label?.tags ?? []) asks.push(change(this.#sql.insertTag, tag, no));
    if (asks.length > 0) yield asks;
  }

  /** Undefined where there is nothing to begin at. */
  *#begin(
    { id, forkPoint, text }: NewBranch,
    session: number | null,
    at = this.#sql.forkPointAt as string,
  ): Procedure<BranchKey | undefined> {
    if (forkPoint && (yield* row(at, this.#tenant, forkPoint.branch, forkPoint.seq)) === undefined)
      return undefined;
    const forkSeq = forkPoint?.seq ?? 0;
    const made = yield* row(
      this.#sql.insertBranch,
      this.#tenant,
      id,
      session,
      forkPoint?.branch ?? null,
      forkSeq,
      text,
    );
    return { no: made?.[0] as number, forkSeq };
  }

  *#remove(no: number): Procedure<void> {
    const { bury, deleteTags, deleteInbox, disownBranches, spendSession, deleteSession } =
      this.#sql;
    yield [
      ...this.#notes.session(no),
      ...[bury, deleteTags, deleteInbox, disownBranches, spendSession, deleteSession].flatMap(
        (text) => (text ? change(text, no) : []),
      ),
    ];
  }

  *#append({ save, refs, blobs }: NewSave): Procedure<boolean> {
    const key = yield* findBranch(this.#sql, this.#tenant, save.branch);
    if (key === undefined) return false;
    const tail = (yield* row(this.#sql.tailOf, key.no, key.forkSeq))?.[0];
    if (tail !== firstSeq(save) - 1) return yield* isThere(this.#sql, key, save);
    yield [
      change(this.#sql.insertSave, ...saveParams(key.no, save, this.#dialect.section)),
      ...blobs.map(({ digest, bytes }) =>
        change(this.#sql.insertBlob, this.#tenant, digest, bytes),
      ),
      ...refs.map((digest) => change(this.#sql.insertRef, key.no, save.seq, digest)),
    ];
    return true;
  }

  beginGeneration(name: string): Job<number> {
    return {
      locks: [],
      steps: () => changed(this.#sql.beginGeneration, name),
      refused: () => false,
    };
  }
}

function locksOf({ session, when, branch, loose, claims = [], saves = [] }: Change): Lock[] {
  const locks: Lock[] = [{ session }];
  for (const begun of [branch, loose])
    if (begun?.forkPoint) locks.push({ branch: begun.forkPoint.branch });
  // Branches that nobody owns may be cut at any time, and others may bring in the same.
  if (loose) locks.push({ branch: loose.id });
  if (when.absent) for (const { save } of saves) locks.push({ branch: save.branch });
  for (const claimed of claims) locks.push({ branch: claimed });
  if (saves.some(({ refs }) => refs.length > 0)) locks.push({ blobs: "use" });
  return locks;
}

const done: Applied = { ok: true };
const nothing: Decision = { changes: [], docs: [] };
