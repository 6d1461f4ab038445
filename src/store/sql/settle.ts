/**
 * Looks whether changes are made already: an earlier try was committed perhaps, and its answer
 * lost.
 */
import type { Applied, Change } from "../port/changes.js";
import type { Decision } from "../port/documents.js";
import type { Procedure } from "./database.js";
import type { Docs } from "./docs.js";
import { findBranch, isThere } from "./find-save.js";
import { row, rowsOf } from "./procedure.js";
import { sessionRow } from "./rows.js";
import type { Statements } from "./statements.js";

/** More than any number or time there is. */
const ALL = Number.MAX_SAFE_INTEGER;

export class Settling {
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #docs: Docs;

  constructor(sql: Statements, tenant: string, docs: Docs) {
    this.#sql = sql;
    this.#tenant = tenant;
    this.#docs = docs;
  }

  *settle({ changes, docs }: Decision): Procedure<Applied | undefined> {
    for (const one of changes) if (!(yield* this.#isDone(one))) return undefined;
    for (const one of docs) if (!(yield* this.#docs.isDone(one))) return undefined;
    return changes.length + docs.length === 0 ? undefined : done;
  }

  /**
   * Whether everything in a change is as it was asked for. Of a change that asks for nothing that
   * lasts this cannot be told.
   */
  *#isDone({
    session,
    branch,
    loose,
    claims = [],
    saves = [],
    head,
    label,
    lease,
    drained = [],
    remove,
  }: Change): Procedure<boolean> {
    const now = yield* row(this.#sql.session, this.#tenant, session);
    if (remove) return now === undefined;
    const there = now && sessionRow(now);
    const rows = [
      [head, there?.head],
      [label, there?.label],
      [lease, there?.lease],
    ] as const;
    if (!(head ?? label ?? lease ?? branch ?? loose ?? saves[0] ?? claims[0])) return false;
    if (rows.some(([wanted, found]) => wanted !== undefined && wanted.text !== found?.text))
      return false;
    for (const wanted of [branch, loose]) {
      const found = wanted && (yield* row(this.#sql.branch, this.#tenant, wanted.id));
      if (wanted && (found?.[6] !== wanted.text || (wanted === branch && found?.[3] !== session)))
        return false;
    }
    for (const id of claims)
      if ((yield* row(this.#sql.branch, this.#tenant, id))?.[3] !== session) return false;
    for (const { save } of saves) {
      const key = yield* findBranch(this.#sql, this.#tenant, save.branch);
      if (key === undefined || !(yield* isThere(this.#sql, key, save))) return false;
    }
    const waiting =
      drained.length === 0 ? [] : yield* rowsOf(this.#sql.inbox, this.#tenant, session, ALL, ALL);
    return !waiting.some(([id]) => drained.includes(id as string));
  }
}

const done: Applied = { ok: true };
