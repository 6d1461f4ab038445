/**
 * The fold: the state of a session at a place, built from records in their order.
 *
 * The live session and the loader apply the same operations to the same class, so a resumed run sees what the live one saw.
 * It also keeps count of what loading this place would read, which decides when a base pays.
 */
import type { Digest } from "./digest.js";
import { HoldfastError, quote } from "./errors.js";
import { deepFreeze, type Json, type JsonObject, put } from "./json.js";
import { List } from "./list.js";
import { type Message, type MessageInput, tokensOf } from "./message.js";
import { type Base, bodyBytes, type JournalRecord } from "./record.js";
import { firstSeq, recordBytes, type Save } from "./save.js";
import { nextStatus, type SessionStatus, type StatusEvent } from "./status.js";

/** The save a message stands in. Filled when the save is sealed. */
export interface Row {
  bytes: number;
}

interface Entry {
  readonly message: Message;
  readonly bytes: number;
  /** Counts messages in the order of their records: neighbours by this number have no dead message between them. */
  readonly born: number;
  readonly row: Row;
  readonly blob: boolean;
}

interface Kept {
  readonly value: Json | List<Json>;
  readonly bytes: number;
  readonly blob: Digest | undefined;
}

/** Where a big body is kept; the rest of a value's bytes stand in its row. */
export interface Body {
  readonly bytes: number;
  readonly blob: Digest | undefined;
}

/** Below this much waste a base is never worth a record. Tests make it small, to meet bases in short histories. */
export const baseTuning = { slackBytes: 64 * 1024 };

export class Fold {
  seq = 0;
  /** The newest checkpoint at or before this place. */
  prior = 0;
  base = 0;
  status: SessionStatus = "in-progress";
  reason: string | undefined;
  output: Json | undefined;
  step = 0;
  tokens = 0;
  tasks: number | undefined;
  /** Bytes of text that loading this place reads, without blobs. */
  readBytes = 0;
  /** Of these, what stood there right after the newest base. */
  #readAtBase = 0;
  #messages = new List<Entry>();
  #born = 0;
  #kept = new Map<string, Kept>();
  #inline = 0;
  #blobs = 0;
  #messageView: readonly Message[] | undefined;
  #stateView: JsonObject | undefined;
  readonly #sized: boolean;

  /** Without sizes it only shows a place; a session that goes on from there needs them. */
  constructor({ sized }: { readonly sized: boolean }) {
    this.#sized = sized;
  }

  copy(): Fold {
    const twin = new Fold({ sized: this.#sized });
    Object.assign(twin, this);
    twin.#readAtBase = this.#readAtBase;
    twin.#messages = this.#messages.copy();
    twin.#born = this.#born;
    twin.#kept = new Map(
      [...this.#kept].map(([key, kept]) => [key, kept.value instanceof List ? { ...kept, value: kept.value.copy() } : kept]),
    );
    twin.#inline = this.#inline;
    twin.#blobs = this.#blobs;
    return twin;
  }

  // ---- what it holds

  get messageCount(): number {
    return this.#messages.length;
  }

  get sizeBytes(): number {
    return this.#inline + this.#blobs;
  }

  get messages(): readonly Message[] {
    this.#messageView ??= Object.freeze(this.#messages.toArray().map((entry) => entry.message));
    return this.#messageView;
  }

  get state(): JsonObject {
    if (this.#stateView === undefined) {
      const view: Record<string, Json> = {};
      for (const [key, { value }] of this.#kept) put(view, key, value instanceof List ? Object.freeze(value.toArray().slice()) : value);
      this.#stateView = Object.freeze(view);
    }
    return this.#stateView;
  }

  has(key: string): boolean {
    return this.#kept.has(key);
  }

  // ---- operations

  append(message: Message, body: Body, row: Row): void {
    this.#messages.push(this.#enter(message, body, row));
    this.#messageView = undefined;
  }

  spliceMessages(start: number, remove: number, item?: { message: Message; body: Body; row: Row }): void {
    const entered = item === undefined ? [] : [this.#enter(item.message, item.body, item.row)];
    for (const gone of this.#messages.splice(start, remove, ...entered)) this.#count(gone.bytes, gone.blob, -1);
    this.#messageView = undefined;
  }

  #enter(message: Message, { bytes, blob }: Body, row: Row): Entry {
    this.#born += 1;
    this.tokens += tokensOf(message);
    this.#count(bytes, blob !== undefined, 1);
    return { message, bytes, born: this.#born, row, blob: blob !== undefined };
  }

  set(key: string, value: Json, { bytes, blob }: Body): void {
    const before = this.#kept.get(key);
    if (before) this.#count(before.bytes, before.blob !== undefined, -1);
    this.#kept.set(key, { value, bytes, blob });
    this.#count(bytes, blob !== undefined, 1);
    this.#stateView = undefined;
  }

  unset(key: string): void {
    const before = this.#kept.get(key);
    if (before) this.#count(before.bytes, before.blob !== undefined, -1);
    this.#kept.delete(key);
    this.#stateView = undefined;
  }

  /** The length of the list under a key, or undefined where there is none. */
  listLength(key: string): number | undefined {
    const value = this.#kept.get(key)?.value;
    return value instanceof List || Array.isArray(value) ? value.length : undefined;
  }

  spliceList(key: string, start: number, remove: number, items: readonly Json[]): void {
    const kept = this.#kept.get(key);
    if (kept === undefined || this.listLength(key) === undefined)
      throw new HoldfastError("CORRUPT", `The journal changes a list under ${quote(key)}, and there is none.`);
    const list = kept.value instanceof List ? kept.value : new List(kept.value as readonly Json[]);
    const before = list.length;
    let bytes = kept.bytes - commas(before);
    for (const item of items) bytes += jsonBytes(item);
    if (remove === 0 && start === before) for (const item of items) list.push(item);
    else for (const gone of list.splice(start, remove, ...items)) bytes -= jsonBytes(gone);
    bytes += commas(list.length);
    this.#count(kept.bytes, kept.blob !== undefined, -1);
    // Once it is changed in place a list no longer equals its blob: it counts as inline, as the next base will write it.
    this.#kept.set(key, { value: list, bytes, blob: undefined });
    this.#count(bytes, false, 1);
    this.#stateView = undefined;
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

  /** Answers the status after an event, or undefined where it stays as it is. */
  transition(event: StatusEvent): SessionStatus | undefined {
    const next = nextStatus(this.status, event);
    return next === this.status ? undefined : next;
  }

  // ---- records

  /** Applies the items of a save. */
  applyItems(records: readonly JournalRecord[], save: Save, bodies: Bodies): void {
    const row: Row = { bytes: textBytes(save.items) };
    const first = firstSeq(save);
    const sizes = this.#sizes(save.items);
    for (let i = 0; i < records.length; i++) {
      const record = records[i] as JournalRecord;
      if (record.status !== undefined) this.setStatus(record.status as SessionStatus, record.reason, frozen(record.output));
      const item = isMessage(record) ? reviveRecord(record, sizes[i] ?? 0, first + i, save, bodies) : undefined;
      if (record.splice !== undefined) this.spliceMessages(record.splice[0], record.splice[1], item && { ...item, row });
      else if (item !== undefined) this.append(item.message, item.body, row);
    }
  }

  /** Takes from a save the messages whose numbers lie in a range, and nothing else: the base says what became of the rest. */
  applyRange(records: readonly JournalRecord[], save: Save, bodies: Bodies, from: number, to: number): void {
    const row: Row = { bytes: textBytes(save.items) };
    const first = firstSeq(save);
    const sizes = this.#sizes(save.items);
    for (let i = 0; i < records.length; i++) {
      const record = records[i] as JournalRecord;
      const seq = first + i;
      if (seq < from || seq > to || !isMessage(record)) continue;
      const { message, body } = reviveRecord(record, sizes[i] ?? 0, seq, save, bodies);
      this.append(message, body, row);
    }
  }

  applyState(records: readonly JournalRecord[], save: Save, bodies: Bodies): void {
    const sizes = this.#sizes(save.state);
    for (const [i, record] of records.entries()) {
      if (record.set !== undefined) {
        this.set(record.set, bodyOf(record, record.value, bodies), { bytes: bodyBytes(record, sizes[i] ?? 0), blob: record.blob });
      } else if (record.unset !== undefined) this.unset(record.unset);
      else if (record.list !== undefined && record.splice !== undefined) {
        this.spliceList(record.list, record.splice[0], record.splice[1], bodyOf(record, record.items, bodies) as readonly Json[]);
      }
    }
  }

  #sizes(text: string | null): readonly number[] {
    return this.#sized ? recordBytes(text) : [];
  }

  // ---- bases

  /** Whether a base in the next save would spare loads more than it costs: they read twice what they return, or more. */
  basePays(): boolean {
    const { slackBytes } = baseTuning;
    return this.readBytes > 2 * this.#inline + slackBytes && this.readBytes - this.#readAtBase > this.#inline / 2 + slackBytes / 2;
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

  toBase(): Base {
    return {
      status: this.status,
      ...(this.reason === undefined ? {} : { reason: this.reason }),
      ...(this.output === undefined ? {} : { output: this.output }),
      step: this.step,
      tokens: this.tokens,
      ...(this.tasks === undefined ? {} : { tasks: this.tasks }),
      ranges: this.ranges(),
      state: [...this.#kept].map(([key, { value, bytes, blob }]) =>
        blob === undefined ? [key, value instanceof List ? value.toArray() : value] : [key, null, blob, bytes],
      ),
    };
  }

  /** Everything but the transcript, which the loader reads by the base's ranges. */
  applyBase(base: Base, bodies: Bodies): void {
    this.setStatus(base.status as SessionStatus, base.reason, frozen(base.output));
    this.step = base.step;
    this.tasks = base.tasks;
    for (const [key, value, blob, size] of base.state) {
      if (blob === undefined) this.set(key, frozen(value), { bytes: jsonBytes(value), blob });
      else this.set(key, frozen(JSON.parse(bodies.text(blob)) as Json), { bytes: size as number, blob });
    }
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

  /** What loading would read right after a base of this size: the base, and the rows that live messages stand in. */
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

const isMessage = (record: JournalRecord): boolean => record.append !== undefined || record.item !== undefined;

function bodyOf(record: JournalRecord, inline: Json | undefined, bodies: Bodies): Json {
  return frozen(record.blob === undefined ? inline : (JSON.parse(bodies.text(record.blob)) as Json)) as Json;
}

/** The message of a record, with the size of its body. */
export function reviveRecord(
  record: JournalRecord,
  textBytes: number,
  seq: number,
  save: Save,
  bodies: Bodies,
): { message: Message; body: Body } {
  const inline = record.append !== undefined ? record.append : record.item;
  const input = (record.blob === undefined ? inline : JSON.parse(bodies.text(record.blob))) as MessageInput;
  const message = revive(input, `${save.line}-${seq}`, seq, save.at - (record.ago ?? 0));
  return { message, body: { bytes: bodyBytes(record, textBytes), blob: record.blob } };
}

/** The message as callers see it: what was stored, and what the journal assigns. Takes over `input`, which must be its own. */
export function revive(input: MessageInput, id: string, seq: number, at: number): Message {
  const message = input as { -readonly [K in keyof Message]: Message[K] };
  if (message.id === undefined) message.id = id;
  message.createdAt = isoTime(at);
  message.seq = seq;
  // Most messages are flat: freezing what is not saves the walk over what is.
  if (typeof message.content !== "string") deepFreeze(message.content);
  if (message.metadata !== undefined) deepFreeze(message.metadata);
  if (message.provider !== undefined) deepFreeze(message.provider);
  if (message.reply !== undefined) deepFreeze(message.reply);
  return Object.freeze(message);
}

let lastAt = Number.NaN;
let lastIso = "";

/** Records of one save, and of saves close together, share their time: formatting it is a third of reviving a message. */
export function isoTime(at: number): string {
  if (at !== lastAt) {
    lastIso = new Date(at).toISOString();
    lastAt = at;
  }
  return lastIso;
}

const frozen = <T extends Json | undefined>(value: T): T => deepFreeze(value);
const commas = (length: number): number => Math.max(0, length - 1);
const textBytes = (text: string | null): number => (text === null ? 0 : Buffer.byteLength(text));
const jsonBytes = (value: Json): number => Buffer.byteLength(JSON.stringify(value));
