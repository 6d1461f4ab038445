/** What an index has found by numbers, with the rows that these are of. */
import type { Hit } from "../search-port.js";
import type { Database } from "./database.js";
import { lineRow, sessionRow } from "./rows.js";
import type { Statements } from "./statements.js";

/** `owner` is the number of a line, or, below zero, that of the session whose title it is. */
export interface Numbered {
  readonly owner: number;
  readonly seq: number;
  readonly passage: number;
  readonly score: number;
}

export function hitsOf(db: Database, sql: Statements, tenant: string, found: readonly Numbered[]): Promise<readonly (Hit | undefined)[]> {
  return Promise.all(
    found.map(async ({ owner, seq, passage, score }): Promise<Hit | undefined> => {
      const [row] = await db.read(owner < 0 ? sql.sessionByNo : sql.lineByNo, [tenant, Math.abs(owner)]);
      if (row === undefined) return undefined;
      return owner < 0 ? { kind: "title", session: sessionRow(row), score } : { kind: "message", line: lineRow(row), seq, passage, score };
    }),
  );
}
