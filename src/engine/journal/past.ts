/**
 * The past of a place: the lines it goes back to, newest first. A session that is rewound again and
 * again has a long one. So lines are read only as far back as the caller asks, and a base says on
 * which lines its messages stand (`Base.lines`).
 */
import type { Base } from "../../core/journal/record.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { LineId, Place } from "../../core/values/ids.js";
import type { LineRow } from "../../store/port/rows.js";
import type { LineDoc } from "../records/rows.js";

/** A stretch of a line that belongs to another line's past, or to its own. */
export interface Segment {
  readonly line: LineId;
  readonly from: number;
  readonly to: number;
  /** The session that owns the line; null where none does. */
  readonly session: string | null;
}

type Stretch = Omit<Segment, "session">;

export interface Lines {
  /** Read a line and those it goes back to, newest first, so many at most. */
  readonly read: (line: LineId, limit: number) => Promise<readonly LineRow[]>;
  /** Verify a row. */
  readonly verified: (row: LineRow) => LineDoc;
}

/** Most pasts have fewer lines than this. The rest of a longer one is read in growing steps. */
export const FIRST_LINES = 32;
const MOST_LINES = 1_024;

export class Past {
  readonly #lines: Lines;
  /** Newest first, without a gap. */
  readonly #segments: Segment[];
  /** Stretches of older lines that a base has named. */
  #named: readonly Stretch[];
  /** Where the past goes on behind the segments. */
  #next: Place | null;
  /** What was read of that, and not verified yet. */
  #rows: LineRow[];
  #limit = FIRST_LINES;
  #reading: Promise<void> | undefined;

  /** `from` is where it goes on behind what is `known`. `rows`: what was read of that already. */
  constructor(
    lines: Lines,
    from: Place | null,
    {
      known = [],
      named = [],
      rows = [],
    }: {
      readonly known?: readonly Segment[];
      readonly named?: readonly Stretch[];
      readonly rows?: readonly LineRow[];
    } = {},
  ) {
    this.#lines = lines;
    this.#segments = [...known];
    this.#named = named;
    this.#next = from;
    this.#rows = [...rows];
  }

  /** The past of a line that begins on the newest line of this one. */
  followedBy(own: Segment): Past {
    const to = own.from - 1;
    const [newest, ...older] = this.#segments;
    const known = newest === undefined ? [own] : [own, { ...newest, to }, ...older];
    const next =
      newest === undefined && this.#next !== null ? { ...this.#next, seq: to } : this.#next;
    return new Past(this.#lines, next, { known, named: this.#named, rows: this.#rows });
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

  /** The line that a record stands on, along this past. */
  async lineAt(seq: number): Promise<LineId | undefined> {
    return this.knownLineAt(seq) ?? lineAt(await this.downTo(seq), seq);
  }

  /** The same, from what was read before. */
  knownLineAt(seq: number): LineId | undefined {
    return lineAt(this.#segments, seq) ?? lineAt(this.#named, seq);
  }

  /** What a base says of the lines that its messages stand on. */
  learn({ lines = [] }: Pick<Base, "lines">): void {
    this.#named = lines.map(([line, from, to]) => ({ line: line as LineId, from, to }));
  }

  /** The lines that records stand on, oldest first. What is not on this past is left out. */
  async stretches(from: number, to: number): Promise<readonly Stretch[]> {
    const found: Stretch[] = [];
    for (let at = from; at <= to; ) {
      const stretch =
        holding(this.#segments, at) ??
        holding(this.#named, at) ??
        holding(await this.downTo(at), at);
      if (stretch === undefined) break;
      found.push({ line: stretch.line, from: at, to: Math.min(to, stretch.to) });
      at = stretch.to + 1;
    }
    return found;
  }

  /**
   * What a base on the newest line says of these messages. Undefined where all stand on that line,
   * or a line is not known.
   */
  linesOf(ranges: Base["ranges"]): Base["lines"] {
    const known = [...this.#segments, ...this.#named].sort(
      (a, b) => a.from - b.from || b.to - a.to,
    );
    const own = this.#segments[0]?.line;
    const found = new Map<Stretch, readonly [line: LineId, from: number, to: number]>();
    for (const [from, to] of ranges) {
      for (let at = from; at <= to; ) {
        const stretch = search(known, at);
        if (stretch === undefined) return undefined;
        if (stretch.line !== own) found.set(stretch, [stretch.line, stretch.from, stretch.to]);
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
      this.#reading ??= this.#read(this.#next.line).finally(() => {
        this.#reading = undefined;
      });
      await this.#reading;
    }
    return true;
  }

  async #read(line: LineId): Promise<void> {
    const rows = await this.#lines.read(line, this.#limit);
    if (rows.length === 0) throw lost(line);
    this.#limit = Math.min(2 * this.#limit, MOST_LINES);
    this.#rows = [...rows];
  }

  #take(row: LineRow, { line, seq }: Place): void {
    if (row.id !== line) throw lost(line);
    const { origin } = this.#lines.verified(row);
    // Numbers fall along a past. Where damage has made a circle, it is not followed for ever.
    if (origin !== null && origin.seq >= seq) throw lost(origin.line);
    this.#segments.push({ line, from: (origin?.seq ?? 0) + 1, to: seq, session: row.session });
    this.#next = origin;
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
    const { line, from, to } = mine.value;
    if (line === theirs.value.line) return Math.min(to, theirs.value.to);
    // Of two lines, the one that begins later is not behind the other.
    const isLater = from >= theirs.value.from;
    if (from <= theirs.value.from) theirs = await other.next();
    if (isLater) mine = await one.next();
  }
  return 0;
}

const holding = <S extends Stretch>(stretches: readonly S[], seq: number): S | undefined =>
  stretches.find(({ from, to }) => seq >= from && seq <= to);

const lineAt = (stretches: readonly Stretch[], seq: number): LineId | undefined =>
  holding(stretches, seq)?.line;

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

export function lost(line: LineId): HoldfastError {
  return new HoldfastError("CORRUPT", `Branch ${line} is missing, and others go back to it.`, {
    line,
  });
}
