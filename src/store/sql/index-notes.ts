/** Notes for an index for search: of what it has read, these texts are no more, or are others. */
import { MAX_SEQ } from "../../core/values/ids.js";
import type { SqlCall } from "./database.js";
import { change } from "./procedure.js";
import type { Statements } from "./statements.js";

/** What an index for search is known by, once there is one. */
export const indexKey = (tenant: string): string => `search:${tenant}`;

export class IndexNotes {
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #key: string;

  constructor(sql: Statements, tenant: string) {
    this.#sql = sql;
    this.#tenant = tenant;
    this.#key = indexKey(tenant);
  }

  /** A session has another label, or is no more. */
  session(no: number): readonly SqlCall[] {
    return this.#noting([change(this.#sql.noteSession, this.#tenant, no, this.#key)]);
  }

  /** Records of a branch, as ranges of their numbers. */
  records(
    branch: number,
    ranges: readonly (readonly [first: number, last: number])[],
  ): readonly SqlCall[] {
    return this.#noting(
      ranges.map(([first, last]) =>
        change(this.#sql.noteGone, this.#tenant, branch, first, last, this.#key),
      ),
    );
  }

  /** The end of a branch was cut off. */
  cut(branch: number): readonly SqlCall[] {
    return this.#noting([
      change(this.#sql.noteCutTexts, this.#tenant, branch, branch, MAX_SEQ, this.#key),
    ]);
  }

  /**
   * Where there are too many notes the index is given up instead: the next search makes it anew.
   */
  #noting(notes: readonly SqlCall[]): readonly SqlCall[] {
    if (notes.length === 0) return notes;
    const [key, tenant] = [this.#key, this.#tenant];
    return [
      ...notes,
      change(this.#sql.giveUpIndex, key, tenant, tenant, tenant),
      change(this.#sql.dropNotes, tenant, key),
    ];
  }
}
