/** Find a branch, and a save on it, inside a transaction. */
import type { Save } from "../../core/journal/save.js";
import type { Procedure } from "./database.js";
import { row } from "./procedure.js";
import { checkOf } from "./rows.js";
import type { Statements } from "./statements.js";

export interface BranchKey {
  readonly no: number;
  readonly forkSeq: number;
}

export function* findBranch(
  sql: Statements,
  tenant: string,
  branch: string,
): Procedure<BranchKey | undefined> {
  const found = yield* row(sql.branchKey, tenant, branch);
  return found && { no: found[0] as number, forkSeq: found[1] as number };
}

export function* isThere(sql: Statements, { no }: BranchKey, save: Save): Procedure<boolean> {
  const [head] = (yield* row(sql.headAt, no, save.seq)) ?? [];
  return checkOf(head) === save.check;
}
