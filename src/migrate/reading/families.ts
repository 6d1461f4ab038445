/**
 * Checkpoints in the order in which they can be written: by time, and never before the one they
 * follow.
 */
import { quote } from "../../core/values/errors.js";
import type { Step } from "./model.js";
import type { Report } from "./report.js";

interface Child {
  readonly session: string;
  readonly parent: string | undefined;
  readonly record: Step;
}

/** Takes them in order of time. Clocks that went back, and parents in a circle, end here. */
export function inFamilies<T extends Child>(inOrder: readonly T[], report: Report): readonly T[] {
  const byId = new Map<string, T>();
  for (const child of inOrder)
    if (!byId.has(key(child.session, child.record.id)))
      byId.set(key(child.session, child.record.id), child);
  const placed = new Set<T>();
  const placedInOrder: T[] = [];
  for (const child of inOrder) {
    // Upwards as far as nothing is placed, then down again. No recursion: a chain may have a
    // hundred thousand links.
    const chain: T[] = [];
    const onChain = new Set<T>();
    for (let next: T | undefined = child; next !== undefined && !placed.has(next); ) {
      if (onChain.has(next)) {
        report.note(
          `The parents of ${quote(next.record.id)} go in a circle: it is taken in order of time.`,
          next.record.path,
        );
        break;
      }
      chain.push(next);
      onChain.add(next);
      next = next.parent === undefined ? undefined : byId.get(key(next.session, next.parent));
    }
    for (const each of chain.reverse()) {
      if (placed.has(each)) continue;
      placed.add(each);
      placedInOrder.push(each);
    }
  }
  return placedInOrder;
}

const key = (session: string, id: string): string => JSON.stringify([session, id]);
