/** Find a line, and a save on it, inside a transaction. */
import type { Save } from "../../core/journal/save.js";
import type { Procedure } from "./database.js";
import { row } from "./procedure.js";
import { checkOf } from "./rows.js";
import type { Statements } from "./statements.js";

export interface LineKey {
  readonly no: number;
  readonly originSeq: number;
}

export function* findLine(
  sql: Statements,
  tenant: string,
  line: string,
): Procedure<LineKey | undefined> {
  const found = yield* row(sql.lineKey, tenant, line);
  return found && { no: found[0] as number, originSeq: found[1] as number };
}

export function* isThere(sql: Statements, { no }: LineKey, save: Save): Procedure<boolean> {
  const [head] = (yield* row(sql.headAt, no, save.seq)) ?? [];
  return checkOf(head) === save.check;
}
