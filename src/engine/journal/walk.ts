/**
 * The one way to read saves. A walk goes along stretches of branches, a page at a time. It opens
 * each save, and checks that nothing is missing:
 *
 * WALK-1  every record of a stretch is in a save that was answered. Otherwise the walk throws
 *         CORRUPT and names the first record that is not.
 * WALK-2  each save goes on from the one before it: its `prev` is the digest of that one.
 * WALK-3  a branch that a session owns does not end before the place that its anchor knows.
 *
 * A walk answers what stands before damage, and then throws. One that its reader ends early has
 * checked what it answered.
 */

import { type Need, open } from "../../core/journal/open-save.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import type { TailAnchors } from "../../store/port/copies.js";
import type { SaveQuery } from "../../store/port/queries.js";
import type { Store } from "../../store/port.js";
import type { SharedReads } from "../util/shared-reads.js";
import { yieldToEventLoop } from "../util/yield-to-event-loop.js";

/** Records of one branch. With `to` at MAX_SEQ the stretch goes to the end of the branch. */
export interface Stretch {
  readonly branch: BranchId;
  readonly from: number;
  readonly to: number;
  /**
   * The session that owns the branch. Null: none does, so the end of the branch may have been
   * freed.
   */
  readonly session: string | null;
}

type Sections = Pick<SaveQuery, "items" | "state">;

export interface PageOptions extends Partial<Sections> {
  readonly newestFirst?: boolean;
  /** How many saves are read at once. A function is asked before each page. */
  readonly rows?: number | (() => number);
  /** Share reads with others that ask for the same at the same moment. */
  readonly shared?: SharedReads;
}

export interface WalkOptions extends PageOptions {
  /** Leave out records before, or behind, a number. */
  readonly from?: number;
  readonly to?: number;
  /**
   * Which sections of a save must be there, and are opened. Otherwise those that were read: a
   * dropped one has no records.
   */
  readonly opens?: (save: Save) => Need;
  /**
   * Take all that retention has dropped for damage, and a save that begins before the first stretch
   * too.
   */
  readonly whole?: boolean;
}

/** A save, verified. A gap has no digest and no records. */
export interface Walked {
  readonly save: Save;
  readonly digest: Digest | undefined;
  readonly items: readonly JournalRecord[];
  readonly state: readonly JournalRecord[];
}

/** How the next save must be chained to those that a walk has passed. */
interface Link {
  /** Oldest first: what the `prev` of the next save begins with. */
  before?: string | undefined;
  /** Newest first: the save that goes on from the next one. */
  after?: Save | undefined;
}

const ROWS = 500;

/** Pages that grow, for readers that mostly end early: each page is verified whole. */
export function growingRows(first: number, most: number): () => number {
  let next = Math.min(first, most);
  return () => {
    const rows = next;
    next = Math.min(2 * rows, most);
    return rows;
  };
}

/**
 * Where saves come over a wire, some pages of so many records are on their way while one is looked
 * at.
 */
const AWAY = { records: 400, pages: 4, rows: 1_000 };
const nothing: readonly JournalRecord[] = [];

export class SaveReader {
  readonly #store: Store;
  readonly #ends: () => TailAnchors | Promise<TailAnchors>;

  /** `ends` says where branches ended when their anchors were written. */
  constructor(store: Store, ends: () => TailAnchors | Promise<TailAnchors>) {
    this.#store = store;
    this.#ends = ends;
  }

  /**
   * Go along stretches, in the order in which they are given, and verify. Each page has one save at
   * least.
   */
  async *walk(
    stretches: Iterable<Stretch> | AsyncIterable<Stretch>,
    o: WalkOptions = {},
  ): AsyncGenerator<readonly Walked[]> {
    const { from: low = 1, to: high = MAX_SEQ, newestFirst = false } = o;
    const link: Link = {};
    for await (const stretch of stretches) {
      const part = {
        ...stretch,
        from: Math.max(stretch.from, low),
        to: Math.min(stretch.to, high),
      };
      if (part.from <= part.to)
        yield* newestFirst ? this.#down(part, o, link) : this.#up(part, o, link);
      if (newestFirst && stretch.from <= low) return;
    }
  }

  async *#up(stretch: Stretch, o: WalkOptions, link: Link): AsyncGenerator<readonly Walked[]> {
    const { branch, from, to, session } = stretch;
    // Before the first read: branches only go on, and so do anchors.
    const ends = to === MAX_SEQ && session !== null ? await this.#ends() : undefined;
    let next = from;
    let last: Save | undefined;
    for await (const saves of this.pages(stretch, o)) {
      yield* verified(saves, (save) => {
        const first = firstSeq(save);
        // The first save may begin before the walk does, and a gap may have grown since the page
        // before it was read.
        const isFirst = last === undefined && link.before === undefined;
        const reachesBack = first < next && (isGap(save) || (isFirst && !o.whole));
        if ((first !== next && !reachesBack) || save.seq < next) throw hole(branch, next);
        const walked = opened(save, o);
        if (first === next && link.before !== undefined && !save.prev.startsWith(link.before))
          throw broken(save);
        link.before = walked.digest ?? save.check;
        next = save.seq + 1;
        last = save;
        return walked;
      });
    }
    if (to !== MAX_SEQ && next <= to) throw hole(branch, next);
    if (to !== MAX_SEQ && next > to + 1) link.before = undefined;
    if (ends !== undefined) await this.#checkEnd(ends, branch, last, o);
  }

  async *#down(stretch: Stretch, o: WalkOptions, link: Link): AsyncGenerator<readonly Walked[]> {
    const { branch, from, to, session } = stretch;
    const ends = to === MAX_SEQ && session !== null ? await this.#ends() : undefined;
    let at = to;
    let isAtEnd = ends !== undefined;
    for await (const saves of this.pages(stretch, { ...o, newestFirst: true })) {
      if (isAtEnd) checkAnchor(ends as TailAnchors, branch, saves[0]);
      isAtEnd = false;
      yield* verified(saves, (save) => {
        // The end of a branch is wherever it is. Any other place must be there.
        const { after } = link;
        const isFirst = at === to && after === undefined;
        const reachesOn = save.seq > at && (isGap(save) || isFirst);
        if (at !== MAX_SEQ && ((save.seq !== at && !reachesOn) || firstSeq(save) > at))
          throw hole(branch, at);
        const walked = opened(save, o);
        if (
          save.seq === at &&
          after !== undefined &&
          !after.prev.startsWith(walked.digest ?? save.check)
        )
          throw broken(after);
        link.after = save;
        at = firstSeq(save) - 1;
        return walked;
      });
    }
    if (isAtEnd) await this.#checkEnd(ends as TailAnchors, branch, undefined, o);
    if (at >= from && at !== MAX_SEQ) throw hole(branch, at);
  }

  /**
   * Read the saves of a stretch, a page at a time, and check nothing but that the reading moves on.
   * For readers that name damage and go on: `verify`, an export, an index.
   */
  async *pages(
    stretch: Omit<Stretch, "session">,
    o: PageOptions = {},
  ): AsyncGenerator<readonly Save[]> {
    const { branch, from, to } = stretch;
    const { newestFirst = false, items = false, state = false, rows = ROWS } = o;
    const isAway = !this.#store.traits.oneMachine && to !== MAX_SEQ && typeof rows === "number";
    if (isAway && !newestFirst) return yield* this.#ahead(branch, { from, to, items, state });
    for (let [low, high] = [from, to]; low <= high; ) {
      // Those who share reads must ask in the same moment.
      if (o.shared === undefined) await yieldToEventLoop();
      const limit = typeof rows === "number" ? rows : rows();
      const order = newestFirst ? { newestFirst } : undefined;
      const read = () =>
        this.#store.saves(branch, { from: low, to: high, limit, ...order, items, state });
      const saves = await (o.shared?.share(`saves ${branch} ${low} ${high} ${limit}`, read) ??
        read());
      if (saves.length > 0) yield saves;
      const last = saves.at(-1);
      if (last === undefined || saves.length < limit) return;
      // Where damage has changed numbers, a page could be read again for ever.
      if (newestFirst ? firstSeq(last) > high : last.seq < low)
        throw hole(branch, newestFirst ? high : low);
      if (newestFirst) high = firstSeq(last) - 1;
      else low = last.seq + 1;
    }
  }

  /** The same over a wire: the next pages are on their way while one is looked at. */
  async *#ahead(
    branch: BranchId,
    query: Omit<SaveQuery, "limit">,
  ): AsyncGenerator<readonly Save[]> {
    const { from, to } = query;
    const { records, pages, rows } = AWAY;
    const coming: Promise<readonly Save[]>[] = [];
    for (let asked = from, seen = from - 1; seen < to; ) {
      for (; asked <= to && coming.length < pages; asked += records) {
        const page = this.#store.saves(branch, {
          ...query,
          from: asked,
          to: Math.min(to, asked + records - 1),
          limit: rows,
        });
        // A reader that stops in between has a reason of its own.
        page.catch(() => {});
        coming.push(page);
      }
      await yieldToEventLoop();
      const saves = (await coming.shift()) ?? [];
      // A save that reaches over the end of its page comes with the next page too.
      const fresh = saves.filter(({ seq }) => seq > seen);
      if (saves.length === 0) throw hole(branch, seen + 1);
      seen = fresh.at(-1)?.seq ?? seen;
      if (saves.length === rows) {
        asked = seen + 1;
        coming.length = 0;
      }
      if (fresh.length > 0) yield fresh;
    }
  }

  /** WALK-3. If the walk found no save, it looks up the last one of the branch. */
  async #checkEnd(
    ends: TailAnchors,
    branch: BranchId,
    last: Save | undefined,
    { shared }: WalkOptions,
  ): Promise<void> {
    if (ends.of(branch) === undefined) return;
    const read = () => this.last(branch);
    checkAnchor(ends, branch, last ?? (await (shared?.share(`last ${branch}`, read) ?? read())));
  }

  /** The save that holds a record, as it stands in the store; or undefined. */
  async holding(
    branch: BranchId,
    seq: number,
    sections?: Partial<Sections>,
  ): Promise<Save | undefined> {
    return this.#one(branch, { from: seq, to: seq, ...sections });
  }

  /** The first save that ends at a record or behind it; or undefined. */
  async firstFrom(
    branch: BranchId,
    seq: number,
    sections?: Partial<Sections>,
  ): Promise<Save | undefined> {
    return this.#one(branch, { from: seq, to: MAX_SEQ, ...sections });
  }

  /** The last save of a branch, as it stands in the store; or undefined. */
  async last(branch: BranchId, sections?: Partial<Sections>): Promise<Save | undefined> {
    return this.#one(branch, { from: 1, to: MAX_SEQ, newestFirst: true, ...sections });
  }

  async #one(
    branch: BranchId,
    query: Omit<SaveQuery, "limit" | "items" | "state"> & Partial<Sections>,
  ): Promise<Save | undefined> {
    const [save] = await this.#store.saves(branch, {
      items: false,
      state: false,
      ...query,
      limit: 1,
    });
    return save;
  }
}

/** The saves of a page, each checked. What stands before damage is answered first. */
function* verified(
  saves: readonly Save[],
  check: (save: Save) => Walked,
): Generator<readonly Walked[]> {
  const page: Walked[] = [];
  try {
    for (const save of saves) page.push(check(save));
  } catch (error) {
    if (page.length > 0) yield page;
    throw error;
  }
  yield page;
}

function opened(save: Save, { items = false, state = false, opens, whole }: WalkOptions): Walked {
  if (isGap(save)) {
    if (whole) throw hole(save.branch, firstSeq(save));
    return { save, digest: undefined, items: nothing, state: nothing };
  }
  const isThere = { items: items && save.items !== null, state: state && save.state !== null };
  const found = open(save, opens?.(save) ?? (whole ? { items, state } : isThere));
  return { save, digest: found.digest, items: found.items, state: found.state };
}

/** Throw where a branch, whose last save is given, ends before its anchor, or in another save. */
export function checkAnchor(anchors: TailAnchors, branch: BranchId, last: Save | undefined): void {
  const anchor = anchors.of(branch);
  if (anchor === undefined) return;
  const end = last?.seq ?? 0;
  if (end > anchor.seq || (end === anchor.seq && last?.check === anchor.check)) return;
  throw new HoldfastError(
    "CORRUPT",
    `Branch ${branch} was at ${anchor.seq} when its anchor was written, and now ends at ${end}: its end was lost, or an older copy was put back. Restore the newest backup, or delete the anchors file to accept what is there.`,
    { branch, seq: anchor.seq },
  );
}

export function hole(branch: BranchId, seq: number): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `Record ${seq} of branch ${branch} is missing. Run verify to see what else is; other sessions are not touched.`,
    { branch, seq },
  );
}

function broken({ branch, seq }: Save): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The save at ${branch}-${seq} does not follow the one before it: something in between is missing or was exchanged. Run verify to see what else is damaged; other sessions are not touched.`,
    { branch, seq },
  );
}
