/** Lines that begin on others, and who has what a deleted session leaves to them. */
import type { LineId } from "../core/ids.js";
import type { LineRow, Store } from "../store/port.js";

/** Lines and all that began on them, however far. */
export async function descendants({ store }: { readonly store: Store }, lines: readonly LineRow[]): Promise<readonly LineRow[]> {
  const found = new Map(lines.map((line) => [line.id as string, line]));
  const todo = [...lines];
  for (const line of todo) {
    for (const child of await store.lines({ origin: line.id })) {
      if (found.has(child.id)) continue;
      found.set(child.id, child);
      todo.push(child);
    }
  }
  return [...found.values()];
}

/** Answers which session has a record of a deleted session's line, by its number. */
export type Heirs = (seq: number) => string | undefined;

/**
 * Who has what a deleted session leaves behind: of the sessions whose past has the record, the one whose line is the oldest. Undefined where
 * no session shares it.
 */
export async function heirsOf(store: Store, line: LineId): Promise<Heirs> {
  const begun = await store.lines({ origin: line });
  // Whatever begins on a line was made after it.
  const family = (await descendants({ store }, begun)).toSorted((a, b) => a.no - b.no);
  return (seq) => {
    const shares = new Set<string>([line]);
    for (const { id, origin, session } of family) {
      if (origin === null || !shares.has(origin.line) || (origin.line === line && origin.seq < seq)) continue;
      if (session !== null) return session;
      shares.add(id);
    }
    return undefined;
  };
}
