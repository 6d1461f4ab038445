/**
 * What may be dropped when checkpoints go, and how far branches are needed when sessions go. Pure,
 * and the only place that decides it.
 *
 * RETENTION-1  loading a place reads the newest base before it, the rows of that base's live
 *              messages, and all that follows the base.
 * RETENTION-2  the places that must load for ever: checkpoints that are kept, the end of every
 *              branch, the fork point of every branch, and what is pinned.
 * RETENTION-3  what a fork needs of its fork point's branch is what loading its fork point needs,
 *              so RETENTION-2 covers every descendant.
 * RETENTION-4  a checkpoint at which a fork begins is kept, whatever a policy says (core/policy).
 */

export interface KeptPlace {
  readonly seq: number;
  /** The save with the newest base at or before the place; 0 where there is none. */
  readonly base: number;
  /** That base's live messages. */
  readonly ranges: readonly (readonly [from: number, to: number])[];
}

type Interval = readonly [from: number, to: number];

export interface Keep {
  readonly items: readonly Interval[];
  readonly state: readonly Interval[];
}

/** The records, by number, that the kept places need. */
export function needed(places: readonly KeptPlace[]): Keep {
  const items: Interval[] = [];
  const state: Interval[] = [];
  for (const { seq, base, ranges } of places) {
    for (const range of ranges) items.push(range);
    // A place whose own save holds the base is followed by nothing.
    if (base < seq) items.push([base + 1, seq]);
    state.push([base, seq]);
  }
  return { items: merge(items), state: merge(state) };
}

function merge(intervals: readonly Interval[]): readonly Interval[] {
  const merged: [number, number][] = [];
  for (const [from, to] of intervals.toSorted((a, b) => a[0] - b[0])) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** Whether any number from first to last lies in the intervals, which are sorted and apart. */
export function touches(intervals: readonly Interval[], first: number, last: number): boolean {
  let low = 0;
  let high = intervals.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((intervals[middle] as Interval)[1] < first) low = middle + 1;
    else high = middle;
  }
  const next = intervals[low];
  return next !== undefined && next[0] <= last;
}

export interface BranchNode {
  readonly id: string;
  readonly owned: boolean;
  readonly forkPoint: { readonly branch: string; readonly seq: number } | null;
}

/**
 * How far each branch that no session owns any more is still needed: up to the last fork from it
 * that is needed itself. A branch that is not in the answer is needed by nobody.
 */
export function reach(branches: readonly BranchNode[]): ReadonlyMap<string, number> {
  const byId = new Map(branches.map((branch) => [branch.id, branch]));
  const upTo = new Map<string, number>();
  const todo = branches.filter((branch) => branch.owned);
  for (const branch of todo) {
    const forkPoint = branch.forkPoint;
    if (forkPoint === null) continue;
    const parent = byId.get(forkPoint.branch);
    const known = upTo.get(forkPoint.branch);
    upTo.set(forkPoint.branch, Math.max(known ?? 0, forkPoint.seq));
    // An orphan branch is walked through once, when its first needed child is met.
    if (parent !== undefined && !parent.owned && known === undefined) todo.push(parent);
  }
  return new Map([...upTo].filter(([id]) => byId.get(id)?.owned === false));
}
