/** Lines that begin on others, and those that a session goes back to. */
import { type LineId, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import type { LineRow } from "../../store/port/rows.js";
import type { StoreContext } from "./store-context.js";

/** Lines and all that began on them, however far. */
export async function descendants(
  { store }: StoreContext,
  lines: readonly LineRow[],
): Promise<readonly LineRow[]> {
  const found = new Map(lines.map((line) => [line.id as string, line]));
  const todo = [...lines];
  for (const line of todo) {
    for (const child of await store.branches({ kind: "forks", of: line.id })) {
      if (found.has(child.id)) continue;
      found.set(child.id, child);
      todo.push(child);
    }
  }
  return [...found.values()];
}

/** A line, and how far a session goes along it. */
interface Along {
  readonly row: LineRow;
  to: number;
}

const ROWS = 256;

/**
 * Find the lines of a session and those they go back to. Each is read once, however many lines go
 * back to it.
 */
export async function pastOfSession(
  { store }: StoreContext,
  session: SessionId,
): Promise<ReadonlyMap<LineId, Readonly<Along>>> {
  const own = await store.branches({ kind: "session", session });
  const rows = new Map<string, LineRow>(own.map((row) => [row.id, row]));
  const found = new Map<LineId, Along>();
  for (const newest of own) {
    let to = MAX_SEQ;
    for (let row: LineRow | undefined = newest; row !== undefined; ) {
      const known = found.get(row.id);
      if (known !== undefined) known.to = Math.max(known.to, to);
      else found.set(row.id, { row, to });
      // The rest of its past was gone over before.
      if (known !== undefined || row.origin === null) break;
      const { line, seq }: Place = row.origin;
      if (!rows.has(line))
        for (const older of await store.branches({ kind: "past", id: line, limit: ROWS }))
          rows.set(older.id, older);
      row = rows.get(line);
      to = seq;
    }
  }
  return found;
}
