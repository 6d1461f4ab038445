/** Lines that begin on others. */
import type { LineRow } from "../store/port.js";
import type { Ground } from "./ground.js";

/** Lines and all that began on them, however far. */
export async function descendants({ store }: Ground, lines: readonly LineRow[]): Promise<readonly LineRow[]> {
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
