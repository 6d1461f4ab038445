/**
 * Whether what comes in can be loaded: the little that a load depends on, followed record by
 * record. A journal that was sealed by another hand may change a list that is not there, or keep a
 * checkpoint and leave out what it needs.
 */
import type { KnownBlob } from "../journal/blob-body.js";
import type { Base, JournalRecord } from "../journal/record.js";
import { firstSeq, type Save } from "../journal/save.js";
import { isGap } from "../journal/save-note.js";
import type { Digest } from "../values/digest.js";

type Range = readonly [from: number, to: number];

export interface Outline {
  /** The state keys that hold lists. */
  readonly lists: ReadonlySet<string>;
  /** Whether all is there that a load of this place reads. */
  readonly isWhole: boolean;
  /** Records whose messages were dropped, oldest first. */
  readonly lost: readonly Range[];
}

export const emptyOutline: Outline = { lists: new Set(), isWhole: true, lost: [] };

/** The outline after a save; undefined where its records cannot follow. */
export function outlineAfter(
  before: Outline,
  save: Save,
  records: readonly JournalRecord[],
  known: (name: Digest) => KnownBlob | undefined,
): Outline | undefined {
  const lacks =
    isGap(save) ||
    (save.nItems > 0 && save.items === null) ||
    (save.nState > 0 && save.state === null);
  const lost =
    save.nMessages > 0 && save.items === null
      ? joined(before.lost, [firstSeq(save), save.seq])
      : before.lost;
  let isWhole = before.isWhole && !lacks;
  let { lists } = before;
  const has = (key: string, isList: boolean) => {
    if (lists.has(key) === isList) return;
    const next = new Set(lists);
    if (isList) next.add(key);
    else next.delete(key);
    lists = next;
  };
  const isList = (value: unknown, blob: Digest | undefined) =>
    blob === undefined ? Array.isArray(value) : known(blob)?.is === "list";
  for (const { set, unset, list, value, blob, base } of records) {
    if (set !== undefined) has(set, isList(value, blob));
    else if (unset !== undefined) has(unset, false);
    else if (list !== undefined && isWhole && !lists.has(list)) return undefined;
    if (base === undefined) continue;
    lists = new Set(base.state.flatMap(([key, kept, name]) => (isList(kept, name) ? [key] : [])));
    isWhole = base.ranges.every(([, to]) => to <= save.seq) && !meets(base.ranges, lost);
  }
  // What is called a base and was dropped: nothing behind it can be loaded.
  if (save.base === save.seq && save.state === null) isWhole = false;
  return save.mark !== null && !isWhole ? undefined : { lists, isWhole, lost };
}

function joined(ranges: readonly Range[], [from, to]: Range): readonly Range[] {
  const last = ranges.at(-1);
  return last !== undefined && last[1] + 1 === from
    ? [...ranges.slice(0, -1), [last[0], to]]
    : [...ranges, [from, to]];
}

/** Whether ranges that are apart from one another meet ranges in their order. */
function meets(ranges: Base["ranges"], lost: readonly Range[]): boolean {
  if (lost.length === 0) return false;
  const sorted = ranges.toSorted(([a], [b]) => a - b);
  let at = 0;
  for (const [from, to] of lost) {
    while ((sorted[at]?.[1] ?? Number.POSITIVE_INFINITY) < from) at += 1;
    if ((sorted[at]?.[0] ?? Number.POSITIVE_INFINITY) <= to) return true;
  }
  return false;
}
