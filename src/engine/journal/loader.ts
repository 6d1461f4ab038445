/**
 * The state at a place: the newest base before it, the live messages that base names, and all records since. What was read is verified,
 * numbered without a hole, and chained save to save.
 */
import { bodyIn, Course } from "../../core/effects/course.js";
import { markOf } from "../../core/journal/checkpoint.js";
import { type Bodies, Fold } from "../../core/journal/fold.js";
import { type Base, changesState, type JournalRecord } from "../../core/journal/record.js";
import { firstSeq, isGap, type Need, type Opened, open, type Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type LineId, type Place, placeId } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import type { SaveQuery, Store } from "../../store/port.js";
import { breathe } from "../util/breathe.js";
import { Gate } from "../util/gate.js";
import { hole, type Journal, type Read, type Standpoint } from "./journal.js";
import type { Past } from "./past.js";

export interface Loaded {
  readonly fold: Fold;
  /** The digest at the place: what the next save follows. */
  readonly end: Digest;
}

export interface LoadOptions {
  /** Whether the sizes of values are wanted: only a session that goes on from here needs them. */
  readonly sized: boolean;
}

const ROWS = 1_000;
/**
 * How many loads are under way at once. A thousand side by side are no faster, and what each needs for a moment stays for as long as all of
 * them last: a third more memory was measured. Over a wire some must wait for answers.
 */
const AT_ONCE = { here: 2, away: 16 };
/** Where saves come over a wire, some pages of so many records are on their way while one is verified. */
const AWAY = { records: 400, pages: 4 };

export class Loader {
  readonly #store: Store;
  readonly #journal: Journal;
  readonly #gate: Gate;

  constructor(store: Store, journal: Journal) {
    this.#store = store;
    this.#journal = journal;
    this.#gate = new Gate(store.traits.oneMachine ? AT_ONCE.here : AT_ONCE.away);
  }

  /** The state at the end of a line. Its past is looked up where the caller has not done so. */
  async tail({ line, tail }: Pick<Standpoint, "line" | "tail">, options: LoadOptions, past?: Past): Promise<Loaded> {
    if (tail !== undefined) return this.at(tail, options, past);
    const { origin, prev } = line;
    if (origin === null) return { fold: new Fold(options), end: prev };
    const loaded = await this.place(origin, options, past);
    loaded.fold.leaveLine();
    return loaded;
  }

  /** The state at a place where a save ends. */
  async place(place: Place, options: LoadOptions, past?: Past): Promise<Loaded> {
    return this.at(await this.#required(place), options, past);
  }

  async #required(place: Place): Promise<Read> {
    const read = await this.#journal.saveAt(place);
    if (read !== undefined) return read;
    throw new HoldfastError("CORRUPT", `There is no save at ${placeId(place.line, place.seq)}, and something refers to it.`, place);
  }

  /** The state at a save. Its past is looked up where the caller has not done so. */
  at(end: Read, options: LoadOptions, past?: Past): Promise<Loaded> {
    return this.#gate.pass(() => this.#at(end, options, past));
  }

  async #at({ save: end, digest }: Read, options: LoadOptions, past = this.#journal.past(end.line, end.seq)): Promise<Loaded> {
    const fold = new Fold(options);
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
    if (options.sized && fold.prior > 0) await past.lineAt(fold.prior);
    return { fold, end: digest };
  }

  /** What was begun and not finished at a save: of the transcript nothing is read. */
  async course({ save: end }: Read): Promise<Course> {
    const course = new Course();
    const past = this.#journal.past(end.line, end.seq);
    if (end.base > 0) {
      const { base } = await this.base(past, end.base);
      if (base.course !== undefined) course.applyBase(base.course);
    }
    let next = end.base + 1;
    for (const { line, from, to } of await since(past, end)) {
      if (to < next) continue;
      if (from > 1 && from > end.base) course.leaveLine();
      for await (const saves of this.#pages(line, { from: next, to, items: false, state: true })) {
        for (const save of saves) {
          if (firstSeq(save) !== next) throw hole(line, next);
          if (save.nMessages > 0) course.placeChanges();
          for (const record of openHere(save, { state: true }).state) {
            if (changesState(record)) course.placeChanges();
            course.apply(record, bodyIn(record), save.at - (record.ago ?? 0));
          }
          course.saveEnds();
          next = save.seq + 1;
        }
      }
    }
    return course;
  }

  /** The same at the end of a line. */
  async courseAt({ line, tail }: Pick<Standpoint, "line" | "tail">): Promise<Course> {
    if (tail !== undefined) return this.course(tail);
    const origin = line.origin && (await this.#required(line.origin));
    const course = origin ? await this.course(origin) : new Course();
    course.leaveLine();
    return course;
  }

  /** Applies all that follows the base. Answers the newest checkpoint met on the way. */
  async #loadSince(fold: Fold, past: Past, end: Save): Promise<string | null> {
    let mark: string | null = null;
    let follows: Digest | undefined;
    let next = end.base + 1;
    for (const { line, from, to } of await since(past, end)) {
      if (to < next) continue;
      if (from > next) throw hole(line, next);
      if (from > 1 && from > end.base) fold.leaveLine();
      for await (const saves of this.#pages(line, { from: next, to, items: true, state: true })) {
        const opened = saves.map((save) => openHere(save, { items: true, state: true }));
        const bodies = await this.#bodies(opened.flatMap(({ state }) => listBlobs(state)));
        for (const [i, save] of saves.entries()) {
          const { digest, items, state } = opened[i] as Opened;
          if (firstSeq(save) !== next || (follows !== undefined && save.prev !== follows)) throw hole(line, next);
          fold.applyItems(items, save);
          fold.applyState(state, save, bodies);
          if (save.mark !== null) mark = save.mark;
          fold.course.saveEnds();
          follows = digest;
          next = save.seq + 1;
        }
      }
    }
    if (next !== end.seq + 1) throw hole(end.line, next);
    return mark;
  }

  /** The saves from..to, page by page. That all are there is for the caller to see; that something is, is seen here. */
  async *#pages(line: LineId, query: Omit<SaveQuery, "limit">): AsyncGenerator<readonly Save[]> {
    const { from, to } = query;
    const step = this.#store.traits.oneMachine ? to - from + 1 : AWAY.records;
    const coming: Promise<readonly Save[]>[] = [];
    for (let asked = from, seen = from - 1; seen < to; ) {
      for (; asked <= to && coming.length < AWAY.pages; asked += step) {
        const page = this.#store.saves(line, { ...query, from: asked, to: Math.min(to, asked + step - 1), limit: ROWS });
        // Whoever stops in between has a reason of its own.
        page.catch(() => {});
        coming.push(page);
      }
      await breathe();
      const saves = (await coming.shift()) ?? [];
      // One that reaches over the end of its page comes with the next one too.
      const fresh = saves.filter(({ seq }) => seq > seen);
      const end = fresh.at(-1)?.seq ?? seen;
      if (saves.length === 0) throw hole(line, seen + 1);
      if (saves.length === ROWS) {
        asked = end + 1;
        coming.length = 0;
      }
      seen = end;
      if (fresh.length > 0) yield fresh;
    }
  }

  async #loadBase(fold: Fold, past: Past, seq: number): Promise<void> {
    const { base, bytes } = await this.base(past, seq);
    past.learn(base);
    fold.readBytes = bytes;
    fold.applyBase(base);
    for (const [from, to] of base.ranges) {
      let at = from;
      for (const { line, to: last } of await past.stretches(from, to)) {
        for await (const saves of this.#pages(line, { from: at, to: last, items: true, state: false })) {
          for (const save of saves) {
            if (firstSeq(save) > at || save.seq < at) throw hole(line, at);
            // Between live messages there may be saves that hold none: of those nothing is needed, and some may have been dropped.
            if (!isGap(save)) fold.applyRange(open(save, { items: save.nMessages > 0 }).items, save, from, to);
            at = save.seq + 1;
          }
        }
      }
      if (at <= to) throw hole((await past.lineAt(seq)) as LineId, at);
      fold.endRange();
    }
    fold.countAtBase(base);
    fold.markBase(seq, fold.readBytes);
  }

  /** The base in a save, and the bytes read to get it. */
  async base(past: Past, seq: number): Promise<{ readonly base: Base; readonly bytes: number }> {
    const line = await past.lineAt(seq);
    const [save] = line === undefined ? [] : await this.#store.saves(line, { from: seq, to: seq, limit: 1, items: false, state: true });
    const base = save && openHere(save, { state: true }).state.find((record) => record.base !== undefined)?.base;
    if (save === undefined || base === undefined)
      throw new HoldfastError("CORRUPT", `The base at ${seq} of line ${line ?? "?"} is missing.`, { seq });
    return { base, bytes: textBytes(save.state) };
  }

  async #bodies(wanted: readonly Digest[]): Promise<Bodies> {
    if (wanted.length === 0) return noBodies;
    const texts = new Map<Digest, string>();
    for (const name of new Set(wanted)) texts.set(name, Buffer.from(await this.#journal.blob(name)).toString("utf8"));
    return { text: (name) => texts.get(name) as string };
  }
}

/** The segments that a load reads behind the base of a save, oldest first. */
const since = async (past: Past, { base, seq }: Save) =>
  (await past.downTo(base + 1))
    .filter(({ from, to }) => to > base && from <= seq)
    .map(({ line, from, to }) => ({ line, from, to: Math.min(to, seq) }))
    .toReversed();

function openHere(save: Save, need: Need): Opened {
  if (isGap(save)) throw hole(save.line, save.seq);
  return open(save, need);
}

/** Items of list changes are needed on the way; all other bodies only if they are still there at the end. */
function listBlobs(records: readonly JournalRecord[]): Digest[] {
  const found: Digest[] = [];
  for (const { list, blob } of records) if (list !== undefined && blob !== undefined) found.push(blob);
  return found;
}

const noBodies: Bodies = {
  text(name) {
    throw new HoldfastError("CORRUPT", `The blob ${name} is missing.`, { found: name });
  },
};
