/** What an index has found by numbers, and the rows that these are of. */
import { firstSeq } from "../../core/journal/save.js";
import type { FindOptions, Hit } from "../search-port.js";
import type { Param, Row } from "./database.js";
import { branchRow, saveRow, sessionRow } from "./rows.js";
import { columnsOf } from "./statements.js";

/**
 * A document that was found. `owner` is the number of a branch, or, below zero, that of the session
 * whose title it is.
 */
export interface Numbered {
  readonly owner: number;
  readonly seq: number;
  readonly passage: number;
  readonly score: number;
}

/** Whether a place is within what was asked for: a branch is shared up to a number. */
export function isFoundWithin({ within }: FindOptions): (owner: number, seq: number) => boolean {
  if (within === undefined) return () => true;
  const upTo = new Map([...within.branches.values()].map((branch) => [branch.no, branch.upTo]));
  return (owner, seq) => owner < 0 || seq <= (upTo.get(owner) ?? 0);
}

/**
 * The parameters of the statement that reads what was found: `recordOf`, or `sessionWith` for a
 * title.
 */
export const hitParams = ({ owner, seq }: Numbered, tenant: string): Param[] =>
  owner < 0 ? [tenant, -owner] : [seq, tenant, owner];

/**
 * What was read for another in the same save: it may hold thousands of messages, and is large then.
 */
export function againOf(
  read: readonly (Hit | undefined)[],
  { owner, seq, passage, score }: Numbered,
): Hit | undefined {
  const hit = read.find(
    (known) =>
      known?.kind === "message" &&
      known.branch.no === owner &&
      known.save &&
      firstSeq(known.save) <= seq &&
      seq <= known.save.seq,
  );
  return hit?.kind === "message" ? { ...hit, seq, passage, score } : undefined;
}

/** So many of each branch, and of titles. */
export function firstOfEach(places: readonly Numbered[], most: number): readonly Numbered[] {
  const counts = new Map<number, number>();
  return places.filter(({ owner }) => {
    const count = (counts.get(owner) ?? 0) + 1;
    counts.set(owner, count);
    return count <= most;
  });
}

/** What that statement answered. Undefined where it is not there any more. */
export function hitOf(
  { owner, seq, passage, score }: Numbered,
  row: Row | undefined,
): Hit | undefined {
  if (row === undefined) return undefined;
  if (owner < 0) return { kind: "title", session: sessionRow(row), score };
  const branch = branchRow(row.slice(0, columnsOf.branch));
  const save = row.slice(columnsOf.branch);
  return {
    kind: "message",
    branch,
    save: save[0] === null ? undefined : saveRow(branch.id, [...save, null]),
    seq,
    passage,
    score,
  };
}
