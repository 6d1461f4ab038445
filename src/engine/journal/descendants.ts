/** Branches that begin on others, and those that a session goes back to. */
import { type BranchId, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import type { BranchRow } from "../../store/port/rows.js";
import type { StoreContext } from "./store-context.js";

/** Branches and all that began on them, however far. */
export async function descendants(
  { store }: StoreContext,
  branches: readonly BranchRow[],
): Promise<readonly BranchRow[]> {
  const found = new Map(branches.map((branch) => [branch.id as string, branch]));
  const todo = [...branches];
  for (const branch of todo) {
    for (const child of await store.branches({ kind: "forks", of: branch.id })) {
      if (found.has(child.id)) continue;
      found.set(child.id, child);
      todo.push(child);
    }
  }
  return [...found.values()];
}

/** A branch, and how far a session goes along it. */
interface Along {
  readonly row: BranchRow;
  to: number;
}

const ROWS = 256;

/**
 * Find the branches of a session and those they go back to. Each is read once, however many
 * branches go back to it.
 */
export async function pastOfSession(
  { store }: StoreContext,
  session: SessionId,
): Promise<ReadonlyMap<BranchId, Readonly<Along>>> {
  const own = await store.branches({ kind: "session", session });
  const rows = new Map<string, BranchRow>(own.map((row) => [row.id, row]));
  const found = new Map<BranchId, Along>();
  for (const newest of own) {
    let to = MAX_SEQ;
    for (let row: BranchRow | undefined = newest; row !== undefined; ) {
      const known = found.get(row.id);
      if (known !== undefined) known.to = Math.max(known.to, to);
      else found.set(row.id, { row, to });
      // The rest of its past was gone over before.
      if (known !== undefined || row.forkPoint === null) break;
      const { branch, seq }: Place = row.forkPoint;
      if (!rows.has(branch))
        for (const older of await store.branches({ kind: "past", id: branch, limit: ROWS }))
          rows.set(older.id, older);
      row = rows.get(branch);
      to = seq;
    }
  }
  return found;
}
