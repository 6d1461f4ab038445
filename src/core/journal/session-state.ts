/**
 * The fold: the state of a session at a place, built from records in their order.
 *
 * The live session and the loader apply the same operations to the same class, so a resumed run
 * sees what the live one saw. It also keeps count of what loading this place would read, which
 * decides when a base pays.
 */
import { bodyIn, InFlight } from "../effects/in-flight.js";
import type { Message } from "../messages/message.js";
import {
  addCost,
  type Cost,
  costOf,
  noCost,
  type Sums,
  sumsOf,
  tokensIn,
} from "../messages/usage.js";
import {
  isUnderWay,
  nextStatus,
  onNewBranch,
  type SessionStatus,
  type StatusEvent,
} from "../sessions/status.js";
import { ChunkedList } from "../values/chunked-list.js";
import { type Digest, digest } from "../values/digest.js";
import { HoldfastError, quote } from "../values/errors.js";
import {
  deepFreeze,
  type Json,
  type JsonObject,
  jsonBytes,
  put,
  textBytes,
} from "../values/json.js";
import { jsonIn, listIn } from "./blob-body.js";
import { viewOfRecord } from "./message-view.js";
import { type Base, bodyBytes, type JournalRecord } from "./record.js";
import { firstSeq, type Save } from "./save.js";
import { recordBytes } from "./save-section.js";

/** The save a message stands in. Filled when the save is sealed. */
export interface Row {
  bytes: number;
}

interface Entry {
  /** Of a body that is still to be fetched only the number is true. */
  message: Message;
  later: ((text: string) => Message) | undefined;
  readonly bytes: number;
  /**
   * Counts messages in the order of their records: neighbours by this number have no dead message
   * between them.
   */
  readonly born: number;
  readonly row: Row;
  readonly blob: Digest | undefined;
}

interface Kept {
  readonly value: Json | ChunkedList<Json>;
  readonly bytes: number;
  readonly blob: Digest | undefined;
  /** A digest of its text, once one was asked for. */
  digest?: Digest;
  /** For a value that is still to be fetched: what is to be done to the list it will be. */
  readonly later: readonly ListChange[] | undefined;
}

interface ListChange {
  readonly start: number;
  readonly remove: number;
  readonly items: readonly Json[];
}

/** Where a big body is kept; the rest of a value's bytes stand in its row. */
export interface Body {
  readonly bytes: number;
  readonly blob: Digest | undefined;
}

/**
 * Below this much waste a base is never worth a record. Tests make it small, to meet bases in short
 * histories.
 */
export const baseTuning = {
  slackBytes: 64 * 1024,
  /** To go on to another branch takes a load as long as to read some thousand bytes. */
  branchBytes: 4 * 1024,
};

export class StateFold {
  seq = 0;
  /** The newest checkpoint at or before this place. */
  prior = 0;
  base = 0;
  status: SessionStatus = "in-progress";
  reason: string | undefined;
  output: Json | undefined;
  step = 0;
  /** How many replies there have been, and what they cost. */
  replies = 0;
  cost: Cost = noCost;
  /** What was begun and is not finished. */
  inFlight = new InFlight();
  tasks: number | undefined;
  /** Bytes of text that loading this place reads, without blobs. */
  readBytes = 0;
  /** Of these, what stood there right after the newest base. */
  #readAtBase = 0;
  #messages = new ChunkedList<Entry>();
  #born = 0;
  #kept = new Map<string, Kept>();
  #inline = 0;
  #blobs = 0;
  #messageView: readonly Message[] | undefined;
  /** The same, growing with the transcript: a view of it is then one copy of pointers. */
  #flat: Message[] | undefined;
  #stateView: JsonObject | undefined;
  #stateDigest: Digest | undefined;
  readonly #sized: boolean;

  /** Without sizes it only shows a place; a session that goes on from there needs them. */
  constructor({ sized }: { readonly sized: boolean }) {
    this.#sized = sized;
  }

  copy(): StateFold {
    const twin = new StateFold({ sized: this.#sized });
    Object.assign(twin, this);
    twin.inFlight = this.inFlight.copy();
    twin.#readAtBase = this.#readAtBase;
    twin.#messages = this.#messages.copy();
    twin.#born = this.#born;
    twin.#kept = new Map(
      [...this.#kept].map(([key, kept]) => [
        key,
        kept.value instanceof ChunkedList ? { ...kept, value: kept.value.copy() } : kept,
      ]),
    );
    twin.#inline = this.#inline;
    twin.#blobs = this.#blobs;
    return twin;
  }

  // ---- what it holds

  get messageCount(): number {
    return this.#messages.length;
  }

  get tokens(): number {
    return tokensIn(this.cost);
  }

  get usage(): Sums {
    return sumsOf(this.cost);
  }

  get sizeBytes(): number {
    return this.#inline + this.#blobs;
  }

  get messages(): readonly Message[] {
    if (this.#messageView === undefined) {
      this.#flat ??= this.#messages.toArray().map((entry) => entry.message);
      this.#messageView = Object.freeze(this.#flat.slice());
    }
    return this.#messageView;
  }

  /**
   * One message, counted from the first; from the last where the index is negative. Costs the same
   * at any length.
   */
  messageAt(index: number): Message | undefined {
    const at = index < 0 ? this.#messages.length + index : index;
    return at < 0 || at >= this.#messages.length ? undefined : this.#messages.at(at).message;
  }

  get state(): JsonObject {
    if (this.#stateView === undefined) {
      const view: Record<string, Json> = {};
      for (const [key, { value }] of this.#kept)
        put(
          view,
          key,
          value instanceof ChunkedList ? Object.freeze(value.toArray().slice()) : value,
        );
      this.#stateView = Object.freeze(view);
    }
    return this.#stateView;
  }

  /**
   * The same for states that are equal, live and loaded. Costs what changed since it was last asked
   * for, and a hash of all keys.
   */
  get stateDigest(): Digest {
    this.#stateDigest ??= digest(
      [...this.#kept]
        .map(([key, kept]) => `${JSON.stringify(key)}:${digestOf(kept)}`)
        .sort()
        .join("\n"),
    );
    return this.#stateDigest;
  }

  /** The record number of the last message; 0 where there is none. */
  get lastMessage(): number {
    return this.messageAt(-1)?.seq ?? 0;
  }

  has(key: string): boolean {
    return this.#kept.has(key);
  }

  // ---- operations

  append(message: Message, body: Body, row: Row): void {
    this.inFlight.placeChanges();
    this.#push(this.#entry(message, body, row, costOf(message), undefined));
  }

  #push(entry: Entry): void {
    this.#messages.push(entry);
    this.#messageView = undefined;
    if (entry.later === undefined) this.#flat?.push(entry.message);
    else this.#flat = undefined;
  }

  spliceMessages(
    start: number,
    remove: number,
    item?: { message: Message; body: Body; row: Row },
  ): void {
    this.inFlight.placeChanges();
    this.#splice(
      start,
      remove,
      item && this.#entry(item.message, item.body, item.row, costOf(item.message), undefined),
    );
  }

  #splice(start: number, remove: number, entry: Entry | undefined): void {
    for (const gone of this.#messages.replace(start, remove, entry === undefined ? [] : [entry]))
      this.#count(gone.bytes, gone.blob !== undefined, -1);
    this.#messageView = undefined;
    this.#flat = undefined;
  }

  #entry(
    message: Message,
    { bytes, blob }: Body,
    row: Row,
    cost: Cost | undefined,
    later: Entry["later"],
  ): Entry {
    this.#born += 1;
    if (cost !== undefined) {
      this.replies += 1;
      this.cost = addCost(this.cost, cost);
    }
    this.#count(bytes, blob !== undefined, 1);
    return { message, later, bytes, born: this.#born, row, blob };
  }

  set(key: string, value: Json, body: Body): void {
    this.#placeChangesUnless(key, () => body.blob ?? digest(JSON.stringify(value)));
    this.#set(key, value, body);
  }

  /** A program that is run again sets the same values again: that changes nothing. */
  #placeChangesUnless(key: string, newDigest: () => Digest): void {
    if (!this.inFlight.hasPassing) return;
    const kept = this.#kept.get(key);
    const isSame =
      kept !== undefined && (kept.later ?? []).length === 0 && digestOf(kept) === newDigest();
    if (!isSame) this.inFlight.placeChanges();
  }

  #set(key: string, value: Json, { bytes, blob }: Body): void {
    this.#keep(key, { value, bytes, blob, later: undefined });
  }

  #keep(key: string, kept: Kept): void {
    const before = this.#kept.get(key);
    if (before) this.#count(before.bytes, before.blob !== undefined, -1);
    this.#kept.set(key, kept);
    this.#count(kept.bytes, kept.blob !== undefined, 1);
    this.#forgetState();
  }

  #forgetState(): void {
    this.#stateView = undefined;
    this.#stateDigest = undefined;
  }

  unset(key: string): void {
    this.inFlight.placeChanges();
    const before = this.#kept.get(key);
    if (before) this.#count(before.bytes, before.blob !== undefined, -1);
    this.#kept.delete(key);
    this.#forgetState();
  }

  /** The length of the list under a key, or undefined where there is none. */
  listLength(key: string): number | undefined {
    const value = this.#kept.get(key)?.value;
    return value instanceof ChunkedList || Array.isArray(value) ? value.length : undefined;
  }

  spliceList(key: string, start: number, remove: number, items: readonly Json[]): void {
    this.inFlight.placeChanges();
    this.#spliceList(key, start, remove, items);
  }

  #spliceList(key: string, start: number, remove: number, items: readonly Json[]): void {
    const kept = this.#kept.get(key);
    if (kept?.later !== undefined) {
      this.#kept.set(key, { ...kept, later: [...kept.later, { start, remove, items }] });
      return;
    }
    if (kept === undefined || this.listLength(key) === undefined) {
      throw new HoldfastError(
        "CORRUPT",
        `The journal changes a list under ${quote(key)}, and there is none.`,
      );
    }
    const list =
      kept.value instanceof ChunkedList
        ? kept.value
        : new ChunkedList(kept.value as readonly Json[]);
    const before = list.length;
    let bytes = kept.bytes - commas(before);
    for (const item of items) bytes += jsonBytes(item);
    if (remove === 0 && start === before) for (const item of items) list.push(item);
    else for (const gone of list.replace(start, remove, items)) bytes -= jsonBytes(gone);
    bytes += commas(list.length);
    // Once it is changed in place a list no longer equals its blob: it counts as inline, as the
    // next base will write it.
    this.#keep(key, { value: list, bytes, blob: undefined, later: undefined });
  }

  #count(bytes: number, blob: boolean, sign: 1 | -1): void {
    if (blob) this.#blobs += sign * bytes;
    else this.#inline += sign * bytes;
  }

  setStatus(status: SessionStatus, reason?: string, output?: Json): void {
    this.status = status;
    this.reason = reason;
    this.output = output;
  }

  /** Another branch begins here. */
  leaveBranch(): void {
    this.inFlight.leaveBranch();
    this.readBytes += baseTuning.branchBytes;
    if (isUnderWay(this.status)) this.setStatus(onNewBranch(this.status));
  }

  /**
   * Cancelled while nobody knew what became of a call: once that is settled, the session is over.
   */
  get isCancelling(): boolean {
    return this.status === "in-doubt" && this.reason !== undefined;
  }

  /** Answers the status after an event, or undefined where it stays as it is. */
  transition(event: StatusEvent): SessionStatus | undefined {
    const next = nextStatus(this.status, event);
    return next === this.status ? undefined : next;
  }

  // ---- records

  /** Applies the items of a save. */
  applyItems(records: readonly JournalRecord[], save: Save): void {
    const row: Row = { bytes: this.#read(save.items) };
    const first = firstSeq(save);
    const sizes = this.#sizes(save.items);
    for (let i = 0; i < records.length; i++) {
      const record = records[i] as JournalRecord;
      if (record.status !== undefined)
        this.setStatus(record.status as SessionStatus, record.reason, frozen(record.output));
      const entry = isMessage(record)
        ? this.#revived(record, sizes[i] ?? 0, first + i, save, row)
        : undefined;
      if (record.splice !== undefined || entry !== undefined) this.inFlight.placeChanges();
      if (record.splice !== undefined) this.#splice(record.splice[0], record.splice[1], entry);
      else if (entry !== undefined) this.#push(entry);
    }
  }

  /**
   * Takes from a save the messages whose numbers lie in a range, and nothing else: the base says
   * what became of the rest.
   */
  applyRange(records: readonly JournalRecord[], save: Save, from: number, to: number): void {
    const row: Row = { bytes: this.#read(save.items) };
    const first = firstSeq(save);
    const sizes = this.#sizes(save.items);
    for (let i = 0; i < records.length; i++) {
      const record = records[i] as JournalRecord;
      const seq = first + i;
      if (seq >= from && seq <= to && isMessage(record))
        this.#push(this.#revived(record, sizes[i] ?? 0, seq, save, row));
    }
  }

  #revived(record: JournalRecord, bytes: number, seq: number, save: Save, row: Row): Entry {
    const body = { bytes: this.#sized ? bodyBytes(record, bytes) : 0, blob: record.blob };
    if (record.blob === undefined) {
      const message = viewOfRecord(record, undefined, seq, save);
      return this.#entry(message, body, row, costOf(message), undefined);
    }
    const later = (text: string) => viewOfRecord(record, text, seq, save);
    const { cost } = record;
    return this.#entry({ seq } as Message, body, row, cost, later);
  }

  /**
   * Applies the state of a save. `bodies` has those of list changes; values come later, if they are
   * still there at the end.
   */
  applyState(records: readonly JournalRecord[], save: Save, bodies: Bodies): void {
    const sizes = this.#sizes(save.state);
    this.#read(save.state);
    for (const [i, record] of records.entries()) {
      if (record.set !== undefined) {
        if (record.blob === undefined)
          this.set(record.set, frozen(record.value as Json), {
            bytes: bodyBytes(record, sizes[i] ?? 0),
            blob: undefined,
          });
        else {
          const { blob } = record;
          this.#placeChangesUnless(record.set, () => blob);
          this.#setLater(record.set, blob, record.size as number);
        }
      } else if (record.unset !== undefined) this.unset(record.unset);
      else if (record.list !== undefined && record.splice !== undefined) {
        this.spliceList(record.list, record.splice[0], record.splice[1], itemsOf(record, bodies));
      } else if (record.base === undefined)
        this.inFlight.apply(frozen(record), bodyIn(record), save.at - (record.ago ?? 0));
    }
  }

  #setLater(key: string, blob: Digest, bytes: number): void {
    this.#keep(key, { value: null, bytes, blob, later: [] });
  }

  /** The blobs whose bodies are still to be fetched: only what is there at the end of the fold. */
  missing(): readonly Digest[] {
    const wanted: Digest[] = [];
    for (const { later, blob } of this.#messages.toArray())
      if (later !== undefined) wanted.push(blob as Digest);
    for (const { later, blob } of this.#kept.values())
      if (later !== undefined) wanted.push(blob as Digest);
    return wanted;
  }

  fill(bodies: Bodies): void {
    for (const entry of this.#messages.toArray()) {
      if (entry.later === undefined) continue;
      entry.message = entry.later(bodies.text(entry.blob as Digest));
      entry.later = undefined;
    }
    for (const [key, { later, blob, bytes }] of [...this.#kept]) {
      if (later === undefined) continue;
      this.#keep(key, {
        value: frozen(jsonIn(bodies.text(blob as Digest), blob as Digest)),
        bytes,
        blob,
        later: undefined,
      });
      for (const { start, remove, items } of later) this.#spliceList(key, start, remove, items);
    }
    this.#messageView = undefined;
    this.#flat = undefined;
    this.#forgetState();
  }

  /**
   * Counts a text among those that loading this place reads. Answers its bytes, where sizes are
   * wanted.
   */
  #read(text: string | null): number {
    const bytes = this.#sized ? textBytes(text) : 0;
    this.readBytes += bytes;
    return bytes;
  }

  #sizes(text: string | null): readonly number[] {
    return this.#sized ? recordBytes(text) : [];
  }

  // ---- bases

  /**
   * Whether a base in the next save would spare loads more than it costs: they read twice what they
   * return, or more.
   */
  basePays(): boolean {
    const { slackBytes } = baseTuning;
    const returned = this.#inline + this.inFlight.weight;
    return (
      this.readBytes > 2 * returned + slackBytes &&
      this.readBytes - this.#readAtBase > returned / 2 + slackBytes / 2
    );
  }

  /** The live messages as ranges of record numbers, in their order. */
  ranges(): [from: number, to: number][] {
    const ranges: [number, number][] = [];
    let born = Number.NaN;
    for (const entry of this.#messages.toArray()) {
      const last = ranges.at(-1);
      if (last !== undefined && entry.born === born + 1) last[1] = entry.message.seq;
      else ranges.push([entry.message.seq, entry.message.seq]);
      born = entry.born;
    }
    return ranges;
  }

  /** `branchesOf` says on which other branches messages stand. */
  toBase(branchesOf: (ranges: Base["ranges"]) => Base["branches"] = () => undefined): Base {
    const inFlight = this.inFlight.toBase();
    const ranges = this.ranges();
    const branches = branchesOf(ranges);
    return {
      status: this.status,
      ...(this.reason === undefined ? {} : { reason: this.reason }),
      ...(this.output === undefined ? {} : { output: this.output }),
      step: this.step,
      cost: this.cost,
      replies: this.replies,
      ...(this.tasks === undefined ? {} : { tasks: this.tasks }),
      ...(inFlight === undefined ? {} : { inFlight }),
      ranges,
      ...(branches === undefined ? {} : { branches }),
      state: [...this.#kept].map(([key, { value, bytes, blob }]) =>
        blob === undefined
          ? [key, value instanceof ChunkedList ? value.toArray() : value]
          : [key, null, blob, bytes],
      ),
    };
  }

  /** Everything but the transcript, which the loader reads by the base's ranges. */
  applyBase(base: Base): void {
    this.setStatus(base.status as SessionStatus, base.reason, frozen(base.output));
    this.step = base.step;
    this.tasks = base.tasks;
    if (base.inFlight !== undefined) this.inFlight.applyBase(frozen(base.inFlight));
    for (const [key, value, blob, size] of base.state) {
      if (blob === undefined) this.#set(key, frozen(value), { bytes: jsonBytes(value), blob });
      else this.#setLater(key, blob, size as number);
    }
  }

  /** What all replies up to a base cost: those that are not live any more were not read. */
  countAtBase({ cost, replies = 0 }: Base): void {
    this.cost = cost;
    this.replies = replies;
  }

  /** Ends a range of live messages: the next one is no neighbour, whatever its number. */
  endRange(): void {
    this.#born += 1;
  }

  /** Called when a base was written or read at this place: `bytes` is what loading it took. */
  markBase(seq: number, bytes: number): void {
    this.base = seq;
    this.readBytes = bytes;
    this.#readAtBase = bytes;
  }

  /**
   * What loading would read right after a base of this size: the base, and the rows that live
   * messages stand in.
   */
  costAfterBase(baseBytes: number): number {
    const rows = new Set(this.#messages.toArray().map((entry) => entry.row));
    let bytes = baseBytes;
    for (const row of rows) bytes += row.bytes;
    return bytes;
  }
}

/** Bodies kept as blobs, fetched before the fold. */
export interface Bodies {
  text(digest: Digest): string;
}

/** A big value is kept under the digest of its text already. */
function digestOf(kept: Kept): Digest {
  const { value, blob } = kept;
  kept.digest ??=
    blob ?? digest(JSON.stringify(value instanceof ChunkedList ? value.toArray() : value));
  return kept.digest;
}

const isMessage = (record: JournalRecord): boolean =>
  record.append !== undefined || record.item !== undefined;

function itemsOf({ blob, items = [] }: JournalRecord, bodies: Bodies): readonly Json[] {
  return frozen(blob === undefined ? items : listIn(bodies.text(blob), blob));
}

const frozen = <T>(value: T): T => deepFreeze(value);
const commas = (length: number): number => Math.max(0, length - 1);
