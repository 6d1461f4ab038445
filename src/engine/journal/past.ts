/**
 * The past of a place: the branches it goes back to, newest first. A session that is rewound again
 * and again has a long one. So branches are read only as far back as the caller asks, and a base
 * says on which branches its messages stand (`Base.branches`).
 */
import type { Base } from "../../core/journal/record.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { BranchId, Place } from "../../core/values/ids.js";
import type { BranchRow } from "../../store/port/rows.js";
import type { BranchDoc } from "../records/rows.js";

/** A stretch of a branch that belongs to another branch's past, or to its own. */
export interface Segment {
  readonly branch: BranchId;
  readonly from: number;
  readonly to: number;
  /** The session that owns the branch; null where none does. */
  readonly session: string | null;
}

type Stretch = Omit<Segment, "session">;

export interface Branches {
  /** Read a branch and those it goes back to, newest first, so many at most. */
  readonly read: (branch: BranchId, limit: number) => Promise<readonly BranchRow[]>;
  /** Verify a row. */
  readonly verified: (row: BranchRow) => BranchDoc;
}

/** Most pasts have fewer branches than this. The rest of a longer one is read in growing steps. */
export const FIRST_BRANCHES = 32;
const MOST_BRANCHES = 1_024;

export class Past {
  readonly #branches: Branches;
  /** Newest first, without a gap. */
  readonly #segments: Segment[];
  /** Stretches of older branches that a base has named. */
  #named: readonly Stretch[];
  /** Where the past goes on behind the segments. */
  #next: Place | null;
  /** What was read of that, and not verified yet. */
  #rows: BranchRow[];
  #limit = FIRST_BRANCHES;
  #reading: Promise<void> | undefined;

  /** `from` is where it goes on behind what is `known`. `rows`: what was read of that already. */
  constructor(
    branches: Branches,
    from: Place | null,
    {
      known = [],
      named = [],
      rows = [],
    }: {
      readonly known?: readonly Segment[];
      readonly named?: readonly Stretch[];
      readonly rows?: readonly BranchRow[];
    } = {},
  ) {
    this.#branches = branches;
    this.#segments = [...known];
    this.#named = named;
    this.#next = from;
    this.#rows = [...rows];
  }

  /** The past of a branch that begins on the newest branch of this one. */
  followedBy(own: Segment): Past {
    const to = own.from - 1;
    const [newest, ...older] = this.#segments;
    const known = newest === undefined ? [own] : [own, { ...newest, to }, ...older];
    const next =
      newest === undefined && this.#next !== null ? { ...this.#next, seq: to } : this.#next;
    return new Past(this.#branches, next, { known, named: this.#named, rows: this.#rows });
  }

  /**
   * All segments down to the one that holds a record, newest first; those behind it that are known
   * come too.
   */
  async downTo(seq: number): Promise<readonly Segment[]> {
    while ((this.#segments.at(-1)?.from ?? Number.POSITIVE_INFINITY) > seq && (await this.#more()));
    return this.#segments;
  }

  all(): Promise<readonly Segment[]> {
    return this.downTo(1);
  }

  /** Newest first, read as far as the caller goes. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Segment> {
    for (let i = 0; i < this.#segments.length || (await this.#more()); ) {
      const segment = this.#segments[i];
      if (segment === undefined) continue;
      yield segment;
      i += 1;
    }
  }

  /** The branch that a record stands on, along this past. */
  async branchAt(seq: number): Promise<BranchId | undefined> {
    return this.knownBranchAt(seq) ?? branchAt(await this.downTo(seq), seq);
  }

  /** The same, from what was read before. */
  knownBranchAt(seq: number): BranchId | undefined {
    return branchAt(this.#segments, seq) ?? branchAt(this.#named, seq);
  }

  /** What a base says of the branches that its messages stand on. */
  learn({ branches = [] }: Pick<Base, "branches">): void {
    this.#named = branches.map(([branch, from, to]) => ({ branch: branch as BranchId, from, to }));
  }

  /** The branches that records stand on, oldest first. What is not on this past is left out. */
  async stretches(from: number, to: number): Promise<readonly Stretch[]> {
    const found: Stretch[] = [];
    for (let at = from; at <= to; ) {
      const stretch =
        holding(this.#segments, at) ??
        holding(this.#named, at) ??
        holding(await this.downTo(at), at);
      if (stretch === undefined) break;
      found.push({ branch: stretch.branch, from: at, to: Math.min(to, stretch.to) });
      at = stretch.to + 1;
    }
    return found;
  }

  /**
   * What a base on the newest branch says of these messages. Undefined where all stand on that
   * branch, or a branch is not known.
   */
  branchesOf(ranges: Base["ranges"]): Base["branches"] {
    const known = [...this.#segments, ...this.#named].sort(
      (a, b) => a.from - b.from || b.to - a.to,
    );
    const own = this.#segments[0]?.branch;
    const found = new Map<Stretch, readonly [branch: BranchId, from: number, to: number]>();
    for (const [from, to] of ranges) {
      for (let at = from; at <= to; ) {
        const stretch = search(known, at);
        if (stretch === undefined) return undefined;
        if (stretch.branch !== own) found.set(stretch, [stretch.branch, stretch.from, stretch.to]);
        at = stretch.to + 1;
      }
    }
    return found.size === 0 ? undefined : [...found.values()].sort(([, a], [, b]) => a - b);
  }

  /** Makes one more segment known. Answers whether there may be another. */
  async #more(): Promise<boolean> {
    if (this.#next === null) return false;
    const row = this.#rows.shift();
    if (row !== undefined) this.#take(row, this.#next);
    else {
      this.#reading ??= this.#read(this.#next.branch).finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    return true;
  }

  async #read(branch: BranchId): Promise<void> {
    const rows = await this.#branches.read(branch, this.#limit);
    if (rows.length === 0) throw lost(branch);
    this.#limit = Math.min(2 * this.#limit, MOST_BRANCHES);
    this.#rows = [...rows];
  }

  #take(row: BranchRow, { branch, seq }: Place): void {
    if (row.id !== branch) throw lost(branch);
    const { forkPoint } = this.#branches.verified(row);
    // Numbers fall along a past. Where damage has made a circle, it is not followed for ever.
    if (forkPoint !== null && forkPoint.seq >= seq) throw lost(forkPoint.branch);
    this.#segments.push({ branch, from: (forkPoint?.seq ?? 0) + 1, to: seq, session: row.session });
    this.#next = forkPoint;
  }
}

/**
 * The last record number that two pasts have in common. Both are read down to there, and no
 * further.
 */
export async function sharedUpTo(a: Past, b: Past): Promise<number> {
  const [one, other] = [a[Symbol.asyncIterator](), b[Symbol.asyncIterator]()];
  let mine = await one.next();
  let theirs = await other.next();
  while (!mine.done && !theirs.done) {
    const { branch, from, to } = mine.value;
    if (branch === theirs.value.branch) return Math.min(to, theirs.value.to);
    // Of two branches, the one that begins later is not behind the other.
    const isLater = from >= theirs.value.from;
    if (from <= theirs.value.from) theirs = await other.next();
    if (isLater) mine = await one.next();
  }
  return 0;
}

const holding = <S extends Stretch>(stretches: readonly S[], seq: number): S | undefined =>
  stretches.find(({ from, to }) => seq >= from && seq <= to);

const branchAt = (stretches: readonly Stretch[], seq: number): BranchId | undefined =>
  holding(stretches, seq)?.branch;

/** The last of these, by rising beginnings, that begins at or before a record, if it holds it. */
function search(rising: readonly Stretch[], seq: number): Stretch | undefined {
  let low = 0;
  for (let high = rising.length; low < high; ) {
    const middle = (low + high) >> 1;
    if ((rising[middle] as Stretch).from <= seq) low = middle + 1;
    else high = middle;
  }
  return holding(rising.slice(Math.max(0, low - 2), low), seq);
}

export function lost(branch: BranchId): HoldfastError {
  return new HoldfastError("CORRUPT", `Branch ${branch} is missing, and others go back to it.`, {
    branch,
  });
}
