/**
 * Reading journals: which lines a line goes back to, its end, its checkpoints, and the state at a place. Everything that is handed on
 * has been verified.
 */
import { type Checkpoint, checkpointOf, type Mark } from "../core/checkpoint.js";
import { type Digest, digest } from "../core/digest.js";
import { HoldfastError } from "../core/errors.js";
import { type Bodies, Fold } from "../core/fold.js";
import { type LineId, MAX_SEQ, type Place, placeId, type SessionId } from "../core/ids.js";
import type { Base } from "../core/record.js";
import { firstSeq, isGap, type Need, type Opened, open, type Parsed, priorOf, type Save } from "../core/save.js";
import type { Anchor, Store } from "../store/port.js";
import { type LineDoc, lineOf } from "./rows.js";

/** A stretch of a line that belongs to another line's past, or to its own. */
export interface Segment {
  readonly line: LineId;
  readonly from: number;
  readonly to: number;
  /** The session that owns the line; null where it was deleted. */
  readonly session: string | null;
}

export interface Loaded {
  readonly fold: Fold;
  /** The digest at the place: what the next save follows. */
  readonly end: Digest;
}

const ROWS = 1_000;
const HEADER = { items: false, state: false } as const;
const ALL = { items: true, state: true } as const;

export class Journal {
  readonly #store: Store;
  readonly #docs = new Map<string, LineDoc>();
  #anchors: Promise<ReadonlyMap<string, Anchor>> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  // ---- lines

  /** A line and who owns it now, or undefined. */
  async line(id: LineId): Promise<{ readonly doc: LineDoc; readonly session: string | null } | undefined> {
    const row = await this.#store.line(id);
    return row && { doc: this.#remember(lineOf(row)), session: row.session };
  }

  /** What never changes about a line. */
  async #doc(id: LineId): Promise<LineDoc> {
    const found = this.#docs.get(id) ?? (await this.line(id))?.doc;
    if (found === undefined) throw lost(id);
    return found;
  }

  #remember(doc: LineDoc): LineDoc {
    if (this.#docs.size > 10_000) this.#docs.clear();
    this.#docs.set(doc.id, doc);
    return doc;
  }

  /** The line and those it goes back to, newest first, each as far as it belongs to this past. */
  async segments(line: LineId, to = MAX_SEQ): Promise<readonly Segment[]> {
    const segments: Segment[] = [];
    for (let place: Place | null = { line, seq: to }; place !== null; ) {
      const found = await this.line(place.line);
      if (found === undefined) throw lost(place.line);
      const { origin }: LineDoc = found.doc;
      segments.push({ line: place.line, from: (origin?.seq ?? 0) + 1, to: place.seq, session: found.session });
      place = origin;
    }
    return segments;
  }

  // ---- ends and places

  /** The last save of a line, without its sections, or undefined where it has none. */
  async tail(line: LineId): Promise<Save | undefined> {
    const [save] = await this.#store.saves(line, { from: 1, to: MAX_SEQ, limit: 1, newestFirst: true, ...HEADER });
    await this.#checkAnchor(line, save);
    if (save !== undefined) open(save, {});
    return save;
  }

  async #checkAnchor(line: LineId, tail: Save | undefined): Promise<void> {
    this.#anchors ??= this.#store.anchors().then((anchors) => new Map(anchors.map((anchor) => [anchor.line, anchor])));
    const anchor = (await this.#anchors).get(line);
    if (anchor === undefined) return;
    if (tail === undefined || tail.seq < anchor.seq || (tail.seq === anchor.seq && tail.digest !== anchor.digest)) {
      throw new HoldfastError(
        "CORRUPT",
        `Line ${line} was at ${anchor.seq} when the store was last closed, and now ends at ${tail?.seq ?? 0}: its end was lost, or an older copy was put back. Restore the newest backup, or delete the anchors file to accept what is there.`,
        { line, seq: anchor.seq },
      );
    }
  }

  /** The save that ends at exactly this place, or undefined. */
  async saveAt({ line, seq }: Place, sections: { readonly items: boolean; readonly state: boolean } = HEADER): Promise<Save | undefined> {
    const [save] = await this.#store.saves(line, { from: seq, to: seq, limit: 1, ...sections });
    return save?.seq === seq ? save : undefined;
  }

  /** The checkpoint at a place, with the session its line belongs to. */
  async checkpointAt(
    place: Place,
  ): Promise<{ readonly checkpoint: Checkpoint; readonly save: Save; readonly session: string } | undefined> {
    const line = await this.line(place.line);
    if (line === undefined || line.session === null) return undefined;
    const save = await this.saveAt(place);
    if (save === undefined) return undefined;
    open(save, { mark: true });
    const segments = save.prior > 0 && save.prior <= (line.doc.origin?.seq ?? 0) ? await this.segments(place.line, place.seq) : [];
    const checkpoint = checkpointOf(save, line.session as SessionId, (seq) => lineAt(segments, seq) ?? place.line);
    return checkpoint && { checkpoint, save, session: line.session };
  }

  /**
   * Checkpoints along a past, newest first, from a record number on. Saves without a checkpoint are jumped over by the pointer every
   * save has to the checkpoint before it.
   */
  async *checkpoints(
    segments: readonly Segment[],
    from: number,
    atOnce: number,
  ): AsyncGenerator<{ readonly checkpoint: Checkpoint; readonly save: Save; readonly segment: Segment }> {
    let seq = from;
    while (seq > 0) {
      const segment = segments.find((candidate) => seq >= candidate.from && seq <= candidate.to);
      if (segment === undefined) return;
      const saves = await this.#store.saves(segment.line, { from: segment.from, to: seq, limit: atOnce, newestFirst: true, ...HEADER });
      // A line with no saves yet goes on at its origin.
      let next = segment.from - 1;
      for (const save of saves) {
        open(save, { mark: !isGap(save) });
        next = priorOf(save);
        const checkpoint =
          save.seq <= segment.to
            ? checkpointOf(save, (segment.session ?? "") as SessionId, (at) => lineAt(segments, at) ?? segment.line)
            : undefined;
        if (checkpoint) yield { checkpoint, save, segment };
      }
      seq = next;
    }
  }

  /** The newest checkpoint of a line's past. */
  async latest(line: LineId, session: SessionId): Promise<Checkpoint | undefined> {
    const tail = await this.tail(line);
    if (tail !== undefined && tail.mark !== null) {
      const { origin } = await this.#doc(line);
      const segments = tail.prior > 0 && tail.prior <= (origin?.seq ?? 0) ? await this.segments(line) : [];
      return checkpointOf(tail, session, (seq) => lineAt(segments, seq) ?? line);
    }
    const segments = await this.segments(line);
    for await (const { checkpoint } of this.checkpoints(segments, MAX_SEQ, 1)) return checkpoint;
    return undefined;
  }

  // ---- state at a place

  /** The state at the end of a line. */
  async loadTail(line: LineId): Promise<Loaded> {
    const tail = await this.tail(line);
    if (tail !== undefined) return this.#load(line, tail);
    const { origin, prev } = await this.#doc(line);
    return origin === null ? { fold: new Fold(), end: prev } : this.load(origin);
  }

  /** The state at a save's place. */
  async load(place: Place): Promise<Loaded> {
    const save = await this.saveAt(place);
    if (save === undefined)
      throw new HoldfastError("CORRUPT", `There is no save at ${placeId(place.line, place.seq)}, and something refers to it.`, place);
    open(save, {});
    return this.#load(place.line, save);
  }

  async #load(line: LineId, end: Save): Promise<Loaded> {
    const fold = new Fold();
    const segments = (await this.segments(line, end.seq)).toReversed();
    let mark: string | null = null;
    if (end.base > 0) await this.#loadBase(fold, segments, end.base);
    let follows: Digest | undefined;
    let next = end.base + 1;
    for (const { line: part, from, to } of segments) {
      for (let at = Math.max(from, next); at <= to; ) {
        const saves = await this.#store.saves(part, { from: at, to, limit: ROWS, ...ALL });
        const opened = saves.map((save) => this.#opened(save, ALL));
        const bodies = await this.#bodies(opened);
        for (const [i, save] of saves.entries()) {
          const { items, state } = opened[i] as Opened;
          if (firstSeq(save) !== next || (follows !== undefined && save.prev !== follows)) throw hole(part, next);
          fold.applyItems(items, save, bodies);
          fold.applyState(state, bodies);
          fold.readBytes += textBytes(save.items) + textBytes(save.state);
          if (save.mark !== null) mark = save.mark;
          follows = save.digest;
          next = save.seq + 1;
        }
        if (saves.length === 0 || next <= at) throw hole(part, at);
        at = next;
      }
    }
    if (next !== end.seq + 1) throw hole(line, next);
    if (mark !== null) {
      const { step, tasks } = (JSON.parse(mark) as { checkpoint: Mark }).checkpoint;
      fold.step = step;
      fold.tasks = tasks;
    }
    fold.seq = end.seq;
    fold.prior = end.nMark > 0 ? end.seq : end.prior;
    return { fold, end: end.digest };
  }

  async #loadBase(fold: Fold, oldestFirst: readonly Segment[], seq: number): Promise<void> {
    const { base, bytes: baseBytes } = await this.base(oldestFirst, seq);
    let bytes = baseBytes;
    fold.applyBase(base, await this.#blobs(base.state.flatMap(([, , blob]) => blob ?? [])));
    for (const [from, to] of base.ranges) {
      for (const segment of oldestFirst) {
        for (let at = Math.max(from, segment.from); at <= Math.min(to, segment.to); ) {
          const saves = await this.#store.saves(segment.line, {
            from: at,
            to: Math.min(to, segment.to),
            limit: ROWS,
            items: true,
            state: false,
          });
          const openedItems = saves.map((found) => this.#opened(found, { items: true }));
          const bodies = await this.#bodies(openedItems, from, to, saves);
          for (const [i, found] of saves.entries()) {
            fold.applyRange((openedItems[i] as Opened).items, found, bodies, from, to);
            bytes += textBytes(found.items);
          }
          const last = saves.at(-1);
          if (last === undefined || firstSeq(saves[0] as Save) > at) throw hole(segment.line, at);
          at = last.seq + 1;
        }
      }
      fold.endRange();
    }
    fold.tokens = base.tokens;
    fold.markBase(seq, bytes);
  }

  #opened(save: Save, need: Need): Opened {
    if (isGap(save)) throw hole(save.line, save.seq);
    return open(save, need);
  }

  /** Bodies that are kept as blobs, of records whose numbers lie in a range. */
  async #bodies(opened: readonly Opened[], from = 0, to = MAX_SEQ, saves: readonly Save[] = []): Promise<Bodies> {
    const wanted = opened.flatMap(({ items, state }, i) => {
      const first = saves[i] === undefined ? 0 : firstSeq(saves[i]);
      return [...items.filter((_, n) => first + n >= from && first + n <= to), ...state].flatMap(blobOf);
    });
    return this.#blobs(wanted);
  }

  async #blobs(wanted: readonly Digest[]): Promise<Bodies> {
    if (wanted.length === 0) return noBodies;
    const texts = new Map<Digest, string>();
    for (const name of new Set(wanted)) texts.set(name, Buffer.from(await this.blob(name)).toString("utf8"));
    return { text: (name) => texts.get(name) as string };
  }

  /** A blob, verified. */
  async blob(name: Digest): Promise<Uint8Array> {
    const bytes = await this.#store.blob(name);
    if (bytes === undefined || digest(bytes) !== name)
      throw new HoldfastError("CORRUPT", `The blob ${name} is ${bytes === undefined ? "missing" : "damaged"}.`, { found: name });
    return bytes;
  }

  /** The base in a save, and the bytes read to get it. */
  async base(segments: readonly Segment[], seq: number): Promise<{ readonly base: Base; readonly bytes: number }> {
    const line = lineAt(segments, seq);
    const save = line && (await this.saveAt({ line, seq }, { items: false, state: true }));
    const base = save && this.#opened(save, { state: true }).state.find(({ record }) => record.base !== undefined)?.record.base;
    if (save === undefined || base === undefined)
      throw new HoldfastError("CORRUPT", `The base at ${seq} of line ${line ?? "?"} is missing.`, { seq });
    return { base, bytes: textBytes(save.state) };
  }
}

export const lineAt = (segments: readonly Segment[], seq: number): LineId | undefined =>
  segments.find(({ from, to }) => seq >= from && seq <= to)?.line;

const blobOf = ({ record }: Parsed): Digest[] => (record.blob === undefined ? [] : [record.blob]);
const noBodies: Bodies = {
  text(name) {
    throw new HoldfastError("CORRUPT", `The blob ${name} is missing.`, { found: name });
  },
};
const textBytes = (text: string | null): number => (text === null ? 0 : Buffer.byteLength(text));

function hole(line: LineId, seq: number): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `Record ${seq} of line ${line} is missing. Run verify to see what else is; other sessions are not touched.`,
    { line, seq },
  );
}

function lost(line: LineId): HoldfastError {
  return new HoldfastError("CORRUPT", `Line ${line} is missing, and others go back to it.`, { line });
}
