/**
 * The state at a place: the newest base before it, the live messages that base names, and all
 * records since. What was read is verified, numbered without a hole, and chained save to save.
 */
import { bodyIn, InFlight } from "../../core/effects/in-flight.js";
import { markOf } from "../../core/journal/checkpoint.js";
import { type Need, type Opened, open } from "../../core/journal/open-save.js";
import { type Base, changesState, type JournalRecord } from "../../core/journal/record.js";
import type { Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import { type Bodies, StateFold } from "../../core/journal/session-state.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type BranchId, type Place, placeId } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import type { Store } from "../../store/port.js";
import { Semaphore } from "../util/semaphore.js";
import type { Journal, Read, Standpoint } from "./journal.js";
import type { Past, Segment } from "./past.js";
import { hole } from "./walk.js";

export interface Loaded {
  readonly fold: StateFold;
  /** The digest at the place: what the next save follows. */
  readonly end: Digest;
}

export interface LoadOptions {
  /** Whether the sizes of values are wanted: only a session that goes on from here needs them. */
  readonly sized: boolean;
}

const ROWS = 1_000;
/**
 * How many loads are under way at once. A thousand side by side are no faster, and what each needs
 * for a moment stays for as long as all of them last: a third more memory was measured. Over a wire
 * some must wait for answers.
 */
const AT_ONCE = { here: 2, away: 16 };

export class Loader {
  readonly #journal: Journal;
  readonly #semaphore: Semaphore;

  constructor(store: Store, journal: Journal) {
    this.#journal = journal;
    this.#semaphore = new Semaphore(store.traits.oneMachine ? AT_ONCE.here : AT_ONCE.away);
  }

  /** The state at the end of a branch. Its past is looked up where the caller has not done so. */
  async tail(
    { branch, tail }: Pick<Standpoint, "branch" | "tail">,
    options: LoadOptions,
    past?: Past,
  ): Promise<Loaded> {
    if (tail !== undefined) return this.at(tail, options, past);
    const { forkPoint, prev } = branch;
    if (forkPoint === null) return { fold: new StateFold(options), end: prev };
    const loaded = await this.place(forkPoint, options, past);
    loaded.fold.leaveBranch();
    return loaded;
  }

  /** The state at a place where a save ends. */
  async place(place: Place, options: LoadOptions, past?: Past): Promise<Loaded> {
    return this.at(await this.#required(place), options, past);
  }

  async #required(place: Place): Promise<Read> {
    const read = await this.#journal.saveAt(place);
    if (read !== undefined) return read;
    throw new HoldfastError(
      "CORRUPT",
      `There is no save at ${placeId(place.branch, place.seq)}, and something refers to it.`,
      place,
    );
  }

  /** The state at a save. Its past is looked up where the caller has not done so. */
  at(end: Read, options: LoadOptions, past?: Past): Promise<Loaded> {
    return this.#semaphore.pass(() => this.#at(end, options, past));
  }

  async #at(
    { save: end, digest }: Read,
    options: LoadOptions,
    past = this.#journal.past(end.branch, end.seq),
  ): Promise<Loaded> {
    const fold = new StateFold(options);
    if (end.base > 0) await this.#loadBase(fold, past, end.base);
    const mark = await this.#loadSince(fold, past, end);
    const missing = fold.missing();
    if (missing.length > 0) fold.fill(await this.#bodies(missing));
    if (mark !== null) {
      const { step, tasks } = markOf(mark);
      fold.step = step;
      fold.tasks = tasks;
    }
    fold.seq = end.seq;
    fold.prior = end.nMark > 0 ? end.seq : end.prior;
    // A session that goes on from here names it in its next checkpoint.
    if (options.sized && fold.prior > 0) await past.branchAt(fold.prior);
    return { fold, end: digest };
  }

  /** What was begun and not finished at a save: of the transcript nothing is read. */
  async inFlight({ save: end }: Read): Promise<InFlight> {
    const inFlight = new InFlight();
    const past = this.#journal.past(end.branch, end.seq);
    if (end.base > 0) {
      const { base } = await this.base(past, end.base);
      if (base.inFlight !== undefined) inFlight.applyBase(base.inFlight);
    }
    let branch: BranchId | undefined;
    const stretches = await since(past, end);
    for await (const page of this.#journal.saves.walk(stretches, {
      from: end.base + 1,
      state: true,
      whole: true,
      rows: ROWS,
    })) {
      for (const { save, state } of page) {
        if (save.branch !== branch && leavesBranch(stretches, save, end)) inFlight.leaveBranch();
        branch = save.branch;
        if (save.nMessages > 0) inFlight.placeChanges();
        for (const record of state) {
          if (changesState(record)) inFlight.placeChanges();
          inFlight.apply(record, bodyIn(record), save.at - (record.ago ?? 0));
        }
        inFlight.saveEnds();
      }
    }
    return inFlight;
  }

  /** The same at the end of a branch. */
  async inFlightAt({ branch, tail }: Pick<Standpoint, "branch" | "tail">): Promise<InFlight> {
    if (tail !== undefined) return this.inFlight(tail);
    const forkPoint = branch.forkPoint && (await this.#required(branch.forkPoint));
    const inFlight = forkPoint ? await this.inFlight(forkPoint) : new InFlight();
    inFlight.leaveBranch();
    return inFlight;
  }

  /** Applies all that follows the base. Answers the newest checkpoint met on the way. */
  async #loadSince(fold: StateFold, past: Past, end: Save): Promise<string | null> {
    let mark: string | null = null;
    let branch: BranchId | undefined;
    const stretches = await since(past, end);
    const walk = { from: end.base + 1, items: true, state: true, whole: true, rows: ROWS };
    for await (const page of this.#journal.saves.walk(stretches, walk)) {
      const bodies = await this.#bodies(page.flatMap(({ state }) => listBlobs(state)));
      for (const { save, items, state } of page) {
        if (save.branch !== branch && leavesBranch(stretches, save, end)) fold.leaveBranch();
        branch = save.branch;
        fold.applyItems(items, save);
        fold.applyState(state, save, bodies);
        if (save.mark !== null) mark = save.mark;
        fold.inFlight.saveEnds();
      }
    }
    return mark;
  }

  async #loadBase(fold: StateFold, past: Past, seq: number): Promise<void> {
    const { base, bytes } = await this.base(past, seq);
    past.learn(base);
    fold.readBytes = bytes;
    fold.applyBase(base);
    for (const [from, to] of base.ranges) {
      let at = from;
      for (const { branch, to: last } of await past.stretches(from, to)) {
        // Between live messages there may be saves that hold none: of those nothing is needed, and
        // some may have been dropped.
        const opens = (save: Save): Need => ({ items: save.nMessages > 0 });
        const stretch = { branch, from: at, to: last, session: null };
        for await (const page of this.#journal.saves.walk([stretch], {
          items: true,
          rows: ROWS,
          opens,
        }))
          for (const { save, digest, items } of page)
            if (digest !== undefined) fold.applyRange(items, save, from, to);
        at = last + 1;
      }
      if (at <= to) throw hole((await past.branchAt(seq)) as BranchId, at);
      fold.endRange();
    }
    fold.countAtBase(base);
    fold.markBase(seq, fold.readBytes);
  }

  /** The base in a save, and the bytes read to get it. */
  async base(past: Past, seq: number): Promise<{ readonly base: Base; readonly bytes: number }> {
    const branch = await past.branchAt(seq);
    const save = branch && (await this.#journal.saves.holding(branch, seq, { state: true }));
    const base =
      save &&
      openHere(save, { state: true }).state.find((record) => record.base !== undefined)?.base;
    if (save === undefined || base === undefined)
      throw new HoldfastError(
        "CORRUPT",
        `The base at ${seq} of branch ${branch ?? "?"} is missing.`,
        {
          seq,
        },
      );
    return { base, bytes: textBytes(save.state) };
  }

  async #bodies(wanted: readonly Digest[]): Promise<Bodies> {
    if (wanted.length === 0) return noBodies;
    const texts = new Map<Digest, string>();
    for (const name of new Set(wanted))
      texts.set(name, Buffer.from(await this.#journal.blob(name)).toString("utf8"));
    return { text: (name) => texts.get(name) as string };
  }
}

/** The segments that a load reads behind the base of a save, oldest first. */
const since = async (past: Past, { base, seq }: Save) =>
  (await past.downTo(base + 1))
    .filter(({ from, to }) => to > base && from <= seq)
    .map((segment) => ({ ...segment, to: Math.min(segment.to, seq) }))
    .toReversed();

/**
 * Whether a save that is the first one read of its branch stands behind a place where a branch was
 * left.
 */
const leavesBranch = (stretches: readonly Segment[], { branch }: Save, { base }: Save): boolean =>
  stretches.some(({ branch: id, from }) => id === branch && from > 1 && from > base);

function openHere(save: Save, need: Need): Opened {
  if (isGap(save)) throw hole(save.branch, save.seq);
  return open(save, need);
}

/**
 * Items of list changes are needed on the way; all other bodies only if they are still there at the
 * end.
 */
function listBlobs(records: readonly JournalRecord[]): Digest[] {
  const found: Digest[] = [];
  for (const { list, blob } of records)
    if (list !== undefined && blob !== undefined) found.push(blob);
  return found;
}

const noBodies: Bodies = {
  text(name) {
    throw new HoldfastError("CORRUPT", `The blob ${name} is missing.`, { found: name });
  },
};
