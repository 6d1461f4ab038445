/** What takes saves and blobs away, or puts others in their place, as procedures. */
import { firstSeq, type Save } from "../../core/journal/save.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import type { Freed, KnownNeeds, Replacement } from "../port/reclaim.js";
import type { Dialect, Job, Param, Procedure, Row, SqlCall } from "./database.js";
import { findBranch } from "./find-save.js";
import { IndexNotes } from "./index-notes.js";
import { change, look, row, rowsOf } from "./procedure.js";
import { pack, saveParams } from "./rows.js";
import type { Statements } from "./statements.js";

export class Removals {
  readonly #dialect: Dialect;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #notes: IndexNotes;

  constructor(dialect: Dialect, sql: Statements, tenant: string) {
    this.#dialect = dialect;
    this.#sql = sql;
    this.#tenant = tenant;
    this.#notes = new IndexNotes(sql, tenant);
  }

  replace(branch: BranchId, replacements: readonly Replacement[], known: KnownNeeds): Job<boolean> {
    return {
      locks: [{ branch }, { blobs: "use" }, { pins: "take" }],
      steps: () => this.#replace(branch, replacements, known),
      refused: (replaced) => !replaced,
      removes: true,
    };
  }

  *#replace(
    branch: BranchId,
    replacements: readonly Replacement[],
    known: KnownNeeds,
  ): Procedure<boolean> {
    const key = yield* findBranch(this.#sql, this.#tenant, branch);
    if (
      key === undefined ||
      (yield* row(this.#sql.forkedSince, this.#tenant, branch, known.branch)) !== undefined
    )
      return false;
    if ((yield* row(this.#sql.pinnedSince, this.#tenant, branch, known.doc)) !== undefined)
      return false;
    const there = yield replacements.map(({ save }) =>
      look(this.#sql.shapes, key.no, firstSeq(save), save.seq),
    );
    if (!replacements.every(({ was }, i) => areAsRead(there[i] ?? [], was))) return false;
    const goes = replacements.filter((replacement) => !staysInRow(replacement));
    // What goes, goes first: the number of a save that is noted must not be one that was given
    // again here.
    yield [
      ...replacements.flatMap(({ blobs = [] }) =>
        blobs.map(({ digest, bytes }) => change(this.#sql.insertBlob, this.#tenant, digest, bytes)),
      ),
      ...replacements.map(({ save }) =>
        change(this.#sql.deleteRefs, key.no, firstSeq(save), save.seq),
      ),
      ...goes.map(({ save }) => change(this.#sql.deleteSaves, key.no, firstSeq(save), save.seq)),
      ...this.#notes.records(key.no, goneTexts(replacements)),
      ...replacements.flatMap((replacement) => [
        this.#puts(key.no, replacement),
        ...replacement.refs.map((digest) =>
          change(this.#sql.insertRef, key.no, replacement.save.seq, digest),
        ),
      ]),
    ];
    return true;
  }

  /** Of one that stays in its row only what has changed is written. */
  #puts(branch: number, replacement: Replacement): SqlCall {
    const { save, was } = replacement;
    const params = saveParams(branch, save, this.#dialect.section);
    if (!staysInRow(replacement)) return change(this.#sql.insertSave, ...params);
    const [before] = was as readonly [Save];
    const [, , head, mark, note, items, state] = params as [
      Param,
      Param,
      Param,
      Param,
      Param,
      Param,
      Param,
    ];
    const [newItems, newState] = [save.items !== before.items, save.state !== before.state];
    const { both, items: ofItems, state: ofState, neither } = this.#sql.updateSave;
    const text = newItems ? (newState ? both : ofItems) : newState ? ofState : neither;
    return change(
      text,
      head,
      mark,
      note,
      ...(newItems ? [items] : []),
      ...(newState ? [state] : []),
      branch,
      save.seq,
    );
  }

  cut(branch: BranchId, after: number, limit: number): Job<Freed> {
    return {
      locks: [{ branch }, { pins: "take" }],
      steps: () => this.#cut(branch, after, limit),
      refused: () => false,
      removes: true,
    };
  }

  *#cut(branch: BranchId, after: number, limit: number): Procedure<Freed> {
    const found = yield* row(this.#sql.branch, this.#tenant, branch);
    if (found === undefined || found[2] === 1) return { count: 0, bytes: 0 };
    const no = found[0] as number;
    const forked = (yield* row(this.#sql.lastForkPoint, this.#tenant, branch))?.[0] as number;
    const pinned = (yield* row(this.#sql.lastPin, this.#tenant, branch))?.[0] as number;
    const last = yield* rowsOf(this.#sql.lastSaves, no, Math.max(after, forked, pinned, 0), limit);
    const asks = this.#dialect.notesCuts ? [change(this.#sql.noteCut, this.#tenant, branch)] : [];
    const lowest = last.at(-1)?.[0] as number | undefined;
    if (lowest !== undefined)
      asks.push(
        change(this.#sql.deleteRefs, no, lowest, MAX_SEQ),
        change(this.#sql.deleteSaves, no, lowest, MAX_SEQ),
        ...this.#notes.cut(no),
      );
    if (after === -1 && forked === 0 && pinned === 0) {
      if (this.#sql.spendBranch) asks.push(change(this.#sql.spendBranch, no));
      asks.push(change(this.#sql.deleteBranch, no, no));
    }
    if (asks.length > 0) yield asks;
    return freedOf(last);
  }

  /** Of blobs that had no use when they were looked for, removes those that have none now. */
  sweep(unused: readonly Row[]): Job<Freed> {
    return {
      locks: [{ blobs: "sweep" }],
      steps: () => this.#sweep(unused),
      refused: () => false,
      removes: true,
    };
  }

  *#sweep(unused: readonly Row[]): Procedure<Freed> {
    const gone = yield unused.map(([digest]) =>
      change(this.#sql.deleteBlob, this.#tenant, digest as string),
    );
    return freedOf(unused.filter((_, i) => gone[i]?.[0]?.[0] === 1));
  }
}

function areAsRead(there: readonly Row[], was: readonly Save[]): boolean {
  return (
    there.length === was.length &&
    there.every(([seq, head, note, noItems, noState, noMark], i) => {
      const read = was[i] as Save;
      const gone = [read.items === null, read.state === null, read.mark === null].map(Number);
      return (
        seq === read.seq &&
        head === pack(read) &&
        note === read.note &&
        noItems === gone[0] &&
        noState === gone[1] &&
        noMark === gone[2]
      );
    })
  );
}

/**
 * Whether a save that stands for itself alone may stay in its row. Other texts in it come as a row
 * anew: an index reads what is new.
 */
function staysInRow({ save, was }: Replacement): boolean {
  const [before, ...more] = was;
  return (
    more.length === 0 &&
    before?.seq === save.seq &&
    (save.items === null || save.items === before.items)
  );
}

/** Records whose texts are not there any more, or are others, as ranges of their numbers. */
function goneTexts(
  replacements: readonly Replacement[],
): readonly (readonly [first: number, last: number])[] {
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
