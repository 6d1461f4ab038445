/**
 * A session in the hands of its holder: operations are staged, shown at once, and durable when the next checkpoint resolves.
 *
 * S1  every save goes through one conditional append: this epoch, this line, this end. Nothing else writes the journal.
 * S2  a save that failed is unknown. It stays sealed as it is and is sent again before anything newer, so it lands once (D4).
 * S3  once superseded, nothing this object does changes anything (D5).
 */
import {
  type Checkpoint,
  type CheckpointOptions,
  checkOptions,
  checkpointOf,
  checkText,
  MAX_REASON,
  type Mark,
} from "../core/checkpoint.js";
import { content } from "../core/diff.js";
import type { Digest } from "../core/digest.js";
import { HoldfastError, quote } from "../core/errors.js";
import { type Fold, revive } from "../core/fold.js";
import { checkName, checkpointPlace, type LineId, MAX_SEQ, type Place, placeId, type SessionId } from "../core/ids.js";
import { type Encoded, encode, equal, type Json, type JsonObject, type Storable } from "../core/json.js";
import { type Lease, releaseLease } from "../core/lease.js";
import { type EncodedMessage, encodeMessage, type Message, type MessageInput, titleOf } from "../core/message.js";
import { record } from "../core/record.js";
import { seal } from "../core/save.js";
import type { SessionStatus, StatusEvent } from "../core/status.js";
import type { Change, NewSave } from "../store/port.js";
import type { Ground } from "./ground.js";
import { historyOf } from "./history.js";
import { readMail } from "./inbox.js";
import { lineAt, type Segment } from "./journal.js";
import { type Holder, superseded } from "./lease-keeper.js";
import { limitOf, options, type Page, wholeNumber } from "./options.js";
import { type HeadDoc, headRow, type LabelDoc, leaseRow, newLine } from "./rows.js";
import { Staging } from "./staging.js";

/** A save on its way: sealed, and kept until the store has said that it is there. */
interface Sealed {
  readonly save: NewSave;
  readonly head: HeadDoc | undefined;
  readonly checkpoint: Checkpoint | undefined;
  readonly drained: readonly string[];
}

export interface Opening {
  readonly head: HeadDoc;
  readonly label: LabelDoc;
  readonly lease: Lease;
  readonly leaseMs: number;
  readonly fold: Fold;
  readonly end: Digest;
  readonly segments: readonly Segment[];
  readonly latest: Checkpoint | undefined;
}

/** Opens a fork that has just been made, in this process's hands. */
export type ForkOpener = (at: Place, id: unknown, from: { readonly fold: Fold; readonly end: Digest } | undefined) => Promise<Session>;

type Keys<S> = keyof S & string;

export class Session<S extends object = Record<string, Json>> implements Holder, AsyncDisposable {
  readonly id: SessionId;
  readonly leaseMs: number;
  readonly #ground: Ground;
  readonly #openFork: ForkOpener;
  readonly #abort = new AbortController();
  readonly #label: LabelDoc;
  lease: Lease;
  #head: HeadDoc;
  #headChanged = false;
  #fold: Fold;
  #end: Digest;
  #segments: readonly Segment[];
  #latest: Checkpoint | undefined;
  #staging = new Staging();
  #pending: Sealed[] = [];
  #sending: Promise<void> | undefined;
  #ids: Map<string, Message> | undefined;
  #ended: HoldfastError | undefined;

  /** Made by `hold.session` and `session.fork`, not by hand. */
  constructor(ground: Ground, opening: Opening, openFork: ForkOpener) {
    this.#ground = ground;
    this.#openFork = openFork;
    this.id = opening.head.id;
    this.leaseMs = opening.leaseMs;
    this.lease = opening.lease;
    this.#head = opening.head;
    this.#label = opening.label;
    this.#fold = opening.fold;
    this.#end = opening.end;
    this.#segments = opening.segments;
    this.#latest = opening.latest;
    ground.keeper.add(this);
  }

  // ---- what it holds

  get messages(): readonly Message[] {
    return this.#fold.messages;
  }

  get state(): Readonly<S> {
    return this.#fold.state as Readonly<S>;
  }

  get status(): SessionStatus {
    return this.#fold.status;
  }

  get reason(): string | undefined {
    return this.#fold.reason;
  }

  /** What `complete` was given. */
  get output(): Json | undefined {
    return this.#fold.output;
  }

  /** The newest checkpoint. */
  get head(): Checkpoint | undefined {
    return this.#latest;
  }

  get agent(): string | undefined {
    return this.#head.agent;
  }

  /** As they were when the session was opened. */
  get tags(): readonly string[] {
    return this.#label.tags;
  }

  get metadata(): JsonObject {
    return this.#label.metadata;
  }

  /** Aborts when the lease is lost or the session cancelled; the reason says which. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  // ---- staging

  /** Stages messages. One whose id is known already is passed over; the same id with other content is a CONFLICT. */
  append(...messages: readonly MessageInput[]): void {
    this.#usable();
    this.#stageMessages(
      messages.map((message, i) => encodeMessage(message, `messages[${this.#fold.messageCount + i}]`)),
      undefined,
    );
  }

  set<K extends Keys<S>>(key: K, value: S[K] & Storable<S[K]>): void {
    this.#usable();
    this.#set(checkKey(key), encode(value, `state.${key}`));
  }

  #set(key: string, encoded: Encoded): void {
    this.#staging.reserve(1, encoded.bytes);
    this.#work();
    this.#fold.set(key, encoded.value, this.#staging.set(key, encoded));
  }

  unset<K extends Keys<S>>(key: K): void {
    this.#usable();
    if (!this.#fold.has(checkKey(key))) return;
    this.#staging.reserve(1, 0);
    this.#work();
    this.#fold.unset(key);
    this.#staging.unset(key);
  }

  /** Removes and puts in items of a list: the transcript under `messages`, or a list under a state key. */
  splice(key: string, start: number, deleteCount: number, ...items: readonly (Json | MessageInput)[]): void {
    this.#usable();
    const length = key === "messages" ? this.#fold.messageCount : this.#fold.listLength(checkKey(key));
    if (length === undefined)
      throw new HoldfastError("INVALID_VALUE", `state.${key}: there is no list to splice. Set one first.`, { path: `state.${key}` });
    wholeNumber(start, "splice start", 0, length);
    wholeNumber(deleteCount, "splice deleteCount", 0, length - start);
    if (key === "messages") {
      const messages = items.map((item, i) => encodeMessage(item, `messages[${start + i}]`));
      if (messages.length > 0 || deleteCount > 0) this.#stageMessages(messages, [start, deleteCount]);
      return;
    }
    const encoded = encode(items, `state.${key}`);
    if (items.length > 0 || deleteCount > 0) this.#splice(key, start, deleteCount, encoded);
  }

  #splice(key: string, start: number, remove: number, items: Encoded): void {
    this.#staging.reserve(1, items.bytes);
    this.#work();
    this.#fold.spliceList(key, start, remove, items.value as readonly Json[]);
    this.#staging.list(key, start, remove, items);
  }

  /** Takes a whole state and stages what differs from the present one. Parts that are not given stay as they are. */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: Partial<S> }): void {
    this.#usable();
    const { messages, state } = options(whole, "save", ["messages", "state"]);
    const encodedMessages = messages?.map((message, i) => encodeMessage(message, `messages[${i}]`));
    const encodedState =
      state === undefined
        ? undefined
        : Object.entries(state)
            .filter(([, value]) => value !== undefined)
            .map(([key, value]) => [checkKey(key), encode(value, `state.${key}`)] as const);
    if (encodedMessages) this.#saveMessages(encodedMessages);
    if (encodedState) this.#saveState(encodedState);
  }

  #saveMessages(messages: readonly EncodedMessage[]): void {
    const present = this.#fold.messages;
    let same = 0;
    while (
      same < messages.length &&
      same < present.length &&
      sameMessage(present[same] as Message, (messages[same] as EncodedMessage).value)
    )
      same++;
    if (same === present.length) this.#stageMessages(messages.slice(same), undefined);
    else this.#stageMessages(messages.slice(same), [same, present.length - same]);
  }

  #saveState(state: readonly (readonly [string, Encoded])[]): void {
    const present = this.#fold.state;
    const given = new Set(state.map(([key]) => key));
    for (const key of Object.keys(present)) if (!given.has(key)) this.unset(key as Keys<S>);
    for (const [key, encoded] of state) {
      const before = Object.hasOwn(present, key) ? present[key] : undefined;
      if (before !== undefined && equal(before, encoded.value)) continue;
      if (Array.isArray(before) && Array.isArray(encoded.value) && before.length > 0) this.#saveList(key, before, encoded.value, encoded);
      else this.#set(key, encoded);
    }
  }

  /** A list that shares its beginning and end with the one before is spliced, so that a growing list costs what is new. */
  #saveList(key: string, before: readonly Json[], after: readonly Json[], whole: Encoded): void {
    const most = Math.min(before.length, after.length);
    let start = 0;
    while (start < most && equal(before[start], after[start])) start++;
    let end = 0;
    while (end < most - start && equal(before[before.length - 1 - end], after[after.length - 1 - end])) end++;
    if (start + end === 0) this.#set(key, whole);
    else this.#splice(key, start, before.length - start - end, encode(after.slice(start, after.length - end), `state.${key}`));
  }

  #stageMessages(messages: readonly EncodedMessage[], splice: readonly [start: number, remove: number] | undefined): void {
    const leaving = new Set(splice === undefined ? [] : this.#fold.messages.slice(splice[0], splice[0] + splice[1]).map(({ id }) => id));
    const fresh = messages.filter((message, i) => !this.#isKnown(message, messages.slice(0, i), leaving, splice !== undefined));
    if (fresh.length === 0 && (splice === undefined || splice[1] === 0)) return;
    this.#staging.reserve(
      fresh.length + 1,
      fresh.reduce((sum, { bytes }) => sum + bytes, 0),
    );
    if (this.#fold.seq + this.#staging.itemCount + fresh.length + 2 > MAX_SEQ)
      throw new HoldfastError("TOO_LARGE", `Session ${this.id} has reached ${MAX_SEQ} records.`, { limit: MAX_SEQ });
    this.#work();
    const at = this.#ground.wallMs();
    if (splice !== undefined && fresh.length === 0) {
      this.#staging.removeMessages(...splice);
      this.#fold.spliceMessages(...splice);
    }
    fresh.forEach((encoded, i) => {
      const seq = this.#fold.seq + this.#staging.itemCount + 1;
      const message = revive({ ...encoded.value }, placeId(this.#line, seq), seq, at);
      const row = this.#staging.row;
      if (splice === undefined) this.#fold.append(message, this.#staging.message(encoded, at), row);
      else {
        const place = [splice[0] + i, i === 0 ? splice[1] : 0] as const;
        this.#fold.spliceMessages(...place, { message, body: this.#staging.message(encoded, at, place), row });
      }
      if (splice === undefined) this.#ids?.set(message.id, message);
      this.#title(message);
    });
    if (splice !== undefined) this.#ids = undefined;
  }

  #isKnown({ value }: EncodedMessage, before: readonly EncodedMessage[], leaving: ReadonlySet<string>, placed: boolean): boolean {
    if (value.id === undefined || leaving.has(value.id)) return false;
    this.#ids ??= new Map(this.#fold.messages.map((message) => [message.id, message]));
    const known = this.#ids.get(value.id) ?? before.find((other) => other.value.id === value.id)?.value;
    if (known === undefined) return false;
    if (!placed && equal(content(known), content(value))) return true;
    throw new HoldfastError(
      "CONFLICT",
      `A message with id ${quote(value.id)} is in session ${quote(this.id)} already, ${placed ? "at another place" : "with other content"}.`,
      { sessionId: this.id },
    );
  }

  #title(message: MessageInput): void {
    if (this.#head.title !== undefined) return;
    const title = titleOf(message);
    if (title === undefined) return;
    this.#head = { ...this.#head, title };
    this.#headChanged = true;
  }

  /** Something new on a session that had come to rest sets it going again. */
  #work(): void {
    this.#event("work");
  }

  #event(event: StatusEvent, reason?: string, output?: Json): void {
    const next = this.#fold.transition(event);
    if (next === undefined && reason === undefined && output === undefined) return;
    const status = next ?? this.#fold.status;
    const fields: (readonly [string, string])[] = [["status", `"${status}"`]];
    if (reason !== undefined) fields.push(["reason", JSON.stringify(reason)]);
    if (output !== undefined) fields.push(["output", JSON.stringify(output)]);
    this.#staging.status(fields);
    this.#fold.setStatus(status, reason, output);
    const { reason: _before, ...head } = this.#head;
    this.#head = { ...head, status, ...(reason === undefined ? {} : { reason }) };
    this.#headChanged = true;
  }

  // ---- saving

  /** Makes everything staged durable, with a checkpoint at its end. */
  async checkpoint(label?: string | CheckpointOptions): Promise<Checkpoint> {
    this.#usable();
    const sealed = this.#seal(checkOptions(label), []);
    await this.#send(sealed);
    return sealed.checkpoint as Checkpoint;
  }

  async complete(output?: Json): Promise<void> {
    this.#usable();
    await this.#finish("complete", undefined, output === undefined ? undefined : encode(output, "output").value);
  }

  async fail(reason: string): Promise<void> {
    this.#usable();
    await this.#finish("fail", checkText(reason, "reason", MAX_REASON));
  }

  async halt(reason: string): Promise<void> {
    this.#usable();
    await this.#finish("halt", checkText(reason, "reason", MAX_REASON));
  }

  async #finish(event: StatusEvent, reason?: string, output?: Json): Promise<void> {
    this.#event(event, reason, output);
    await this.#send(this.#seal({ kind: "automatic" }, []));
  }

  #seal(given: CheckpointOptions, drained: readonly string[]): Sealed {
    const fold = this.#fold;
    const at = this.#ground.wallMs();
    const row = this.#staging.row;
    const { items, state, nMessages, refs, blobs } = this.#staging.take(at);
    row.bytes = textBytes(items);
    let baseBytes = 0;
    let allRefs = refs;
    if (fold.basePays()) {
      const base = fold.toBase();
      const text = record([["base", JSON.stringify(base)]]);
      baseBytes = Buffer.byteLength(text);
      state.push(text);
      allRefs = [...new Set([...refs, ...base.state.flatMap(([, , blob]) => blob ?? [])])];
    }
    const seq = fold.seq + items.length + state.length + 1;
    fold.step = given.step ?? fold.step + 1;
    fold.tasks = given.tasksCompleted ?? fold.tasks;
    const { save, digest } = seal({
      salt: () => this.#ground.salts.next(),
      line: this.#line,
      after: fold.seq,
      at,
      prior: fold.prior,
      base: baseBytes > 0 ? seq : fold.base,
      prev: this.#end,
      items,
      nMessages,
      state,
      mark: record([
        ["checkpoint", JSON.stringify(this.#mark(given))],
        ["salt", `"${this.#ground.salts.next()}"`],
      ]),
    });
    fold.readBytes += row.bytes + textBytes(state);
    if (baseBytes > 0) fold.markBase(seq, fold.costAfterBase(textBytes(state)));
    fold.seq = seq;
    fold.prior = seq;
    this.#end = digest;
    const checkpoint = checkpointOf(save, digest, this.id, (at) => lineAt(this.#segments, at) ?? this.#line);
    this.#latest = checkpoint;
    const sealed = { save: { save, refs: allRefs, blobs }, head: this.#headChanged ? this.#head : undefined, checkpoint, drained };
    this.#headChanged = false;
    this.#pending.push(sealed);
    return sealed;
  }

  #mark(given: CheckpointOptions): Mark {
    const fold = this.#fold;
    const tokens = given.tokenCount ?? (fold.tokens > 0 ? fold.tokens : undefined);
    const { label, description, metadata } = given;
    return {
      step: fold.step,
      ...(given.kind === undefined || given.kind === "manual" ? undefined : { kind: given.kind }),
      ...(label === undefined ? undefined : { label }),
      ...(description === undefined ? undefined : { description }),
      ...(fold.status === "in-progress" ? undefined : { status: fold.status }),
      ...(fold.reason === undefined ? undefined : { reason: fold.reason }),
      messages: fold.messageCount,
      bytes: fold.sizeBytes,
      ...(tokens === undefined ? undefined : { tokens }),
      ...(fold.tasks === undefined ? undefined : { tasks: fold.tasks }),
      ...(metadata === undefined ? undefined : { metadata }),
    };
  }

  /** Resolves when this save, and all before it, are in the store. */
  async #send(sealed: Sealed | undefined): Promise<void> {
    while (sealed === undefined ? this.#pending.length > 0 : this.#pending.includes(sealed)) {
      this.#sending ??= this.#sendPending().finally(() => {
        this.#sending = undefined;
      });
      await this.#sending;
    }
  }

  async #sendPending(): Promise<void> {
    if (this.#ended) throw this.#ended;
    const batch = this.#pending.slice();
    const head = batch.findLast((sealed) => sealed.head !== undefined)?.head;
    const drained = batch.flatMap((sealed) => sealed.drained);
    const change: Change = {
      session: this.id,
      when: { epoch: this.lease.epoch },
      saves: batch.map(({ save }) => save),
      ...(head === undefined ? undefined : { head: headRow(head) }),
      ...(drained.length === 0 ? undefined : { drained }),
    };
    const applied = await this.#ground.store.apply([change]);
    if (!applied.ok) {
      this.superseded(superseded(this.id));
      throw this.#ended as unknown as HoldfastError;
    }
    this.#pending.splice(0, batch.length);
    this.#ground.watchers.changed(this.id);
    if (applied.mail) this.mailWaits();
  }

  // ---- history

  /** Every message ever appended on this session's past, newest first: also those that a splice has taken out. */
  async history(o?: { readonly before?: number; readonly limit?: number }): Promise<Page<Message>> {
    const { before, limit } = options(o, "history", ["before", "limit"]);
    const from = before === undefined ? MAX_SEQ : wholeNumber(before, "before", 1, MAX_SEQ + 1) - 1;
    return historyOf(this.#ground, this.#segments, from, limitOf(limit, "limit"));
  }

  // ---- lines

  /** A new session that begins at one of this session's checkpoints, or at any other. Nothing is copied. */
  async fork(at: string, o: { readonly id: string }): Promise<Session<S>> {
    this.#usable();
    const { id } = options(o, "fork", ["id"]);
    const place = await this.#requirePlace(at);
    // The state at the newest checkpoint is in memory already, unless something was staged since.
    const here = place.line === this.#line && place.seq === this.#fold.seq && this.#staging.isEmpty && this.#pending.length === 0;
    return (await this.#openFork(place, id, here ? { fold: this.#fold.copy(), end: this.#end } : undefined)) as unknown as Session<S>;
  }

  /** Puts this session back to one of its checkpoints, on a new line. What came after is kept, on the old one. */
  async rewind(at: string): Promise<{ readonly passed: readonly [] }> {
    await this.#settled();
    const place = await this.#requirePlace(at);
    const segments = await this.#ground.journal.segments(place.line, place.seq);
    if (!(await this.#isOwnPast(place))) throw foreign(at, this.id, "fork from it instead");
    const { fold, end } = await this.#ground.loader.place(place, { sized: true });
    const line = this.#ground.newLineId();
    await this.#moveTo(line, fold, end, newLine({ id: line, origin: place, prev: end }));
    this.#segments = [{ line, from: place.seq + 1, to: MAX_SEQ, session: this.id }, ...segments];
    this.#latest = (await this.#ground.journal.checkpointAt(place))?.checkpoint;
    return { passed: [] };
  }

  /** Makes the line of one of this session's checkpoints the main one, at its end. */
  async adopt(at: string): Promise<void> {
    await this.#settled();
    const place = await this.#requirePlace(at);
    const owner = (await this.#ground.journal.line(place.line))?.session;
    if (owner !== this.id) throw foreign(at, this.id, "only a line of the session itself can be adopted");
    const { fold, end } = await this.#ground.loader.tail(place.line, { sized: true });
    await this.#moveTo(place.line, fold, end, undefined);
    this.#segments = await this.#ground.journal.segments(place.line);
    this.#latest = await this.#ground.journal.latest(place.line, this.id);
  }

  async #moveTo(line: LineId, fold: Fold, end: Digest, begun: Change["line"]): Promise<void> {
    const { reason: _before, ...rest } = this.#head;
    const head: HeadDoc = { ...rest, line, status: fold.status, ...(fold.reason === undefined ? undefined : { reason: fold.reason }) };
    const applied = await this.#ground.store.apply([
      { session: this.id, when: { epoch: this.lease.epoch }, head: headRow(head), ...(begun === undefined ? undefined : { line: begun }) },
    ]);
    if (!applied.ok) {
      if (applied.why === "origin") throw notFound(begun?.origin ? placeId(begun.origin.line, begun.origin.seq) : line);
      this.superseded(superseded(this.id));
      throw this.#ended as unknown as HoldfastError;
    }
    this.#head = head;
    this.#headChanged = false;
    this.#fold = fold;
    this.#end = end;
    this.#ids = undefined;
    this.#ground.watchers.changed(this.id);
  }

  async #isOwnPast(place: Place): Promise<boolean> {
    if ((await this.#ground.journal.line(place.line))?.session === this.id) return true;
    return lineAt(this.#segments, place.seq) === place.line;
  }

  async #requirePlace(at: string): Promise<Place> {
    const place = checkpointPlace(at);
    const found = place && (await this.#ground.journal.saveAt(place));
    if (place === undefined || found === undefined || found.save.mark === null) throw notFound(at);
    return place;
  }

  /** Going to another line needs everything staged to be saved, and everything sealed to be sent. */
  async #settled(): Promise<void> {
    this.#usable();
    if (!this.#staging.isEmpty) throw unsaved(this.id, "Checkpoint first, or close with { discard: true } and open it again.");
    await this.#send(undefined);
  }

  // ---- the inbox

  mailWaits(): void {
    void this.takeMail().catch(() => {
      // Left in the inbox: the next save or beat tries again.
    });
  }

  /** Takes in what others have posted. The holder's own saves and heartbeats call it. */
  async takeMail(): Promise<void> {
    const mail = await readMail(this.#ground.store, this.id);
    const cancel = mail.find(({ doc }) => doc.kind === "cancel");
    if (cancel === undefined || this.#ended) return;
    const reason = cancel.doc.reason ?? "cancelled";
    this.#event("cancel", this.#fold.transition("cancel") === undefined ? undefined : reason);
    await this.#send(
      this.#seal(
        { kind: "automatic" },
        mail.filter(({ doc }) => doc.kind === "cancel").map(({ id }) => id),
      ),
    );
    this.#ended = new HoldfastError(
      "BAD_STATUS",
      `Session ${quote(this.id)} was cancelled: ${quote(reason)}. Open it again to go on with it.`,
      { sessionId: this.id, found: "cancelled" },
    );
    this.#abort.abort(this.#ended);
  }

  // ---- the end

  superseded(error: HoldfastError): void {
    this.#ended ??= error;
    this.#ground.keeper.remove(this);
    this.#abort.abort(this.#ended);
  }

  /** Lets go of the session. Staged work that was not saved throws, unless it is to be discarded. */
  async close(o?: { readonly discard?: boolean }): Promise<void> {
    const { discard } = options(o, "close", ["discard"]);
    const stale = this.#ended?.code === "STALE_LEASE";
    if (this.#ended?.code === "CLOSED") return;
    if (!discard && !stale && !this.#ended) {
      if (!this.#staging.isEmpty) throw unsaved(this.id, "Checkpoint first, or close with { discard: true }.");
      await this.#send(undefined);
    }
    this.#ground.keeper.remove(this);
    this.#ended = new HoldfastError("CLOSED", `Session ${quote(this.id)} has been closed. Open it again.`, { sessionId: this.id });
    if (!stale)
      await this.#ground.store.apply([
        { session: this.id, when: { epoch: this.lease.epoch }, lease: leaseRow(this.id, releaseLease(this.lease)) },
      ]);
    this.#ground.watchers.changed(this.id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const lost = !this.#ended && (!this.#staging.isEmpty || this.#pending.length > 0);
    await this.close({ discard: true });
    if (lost) throw unsaved(this.id, "It was discarded with the session.");
  }

  get #line(): LineId {
    return this.#head.line;
  }

  #usable(): void {
    if (this.#ended) throw this.#ended;
  }
}

function checkKey(key: unknown): string {
  const name = checkName(key, "state key");
  if (name === "messages")
    throw new HoldfastError("INVALID_OPTION", "state key: `messages` is the transcript. Use append, splice or save.", {
      path: "state.messages",
    });
  return name;
}

/** The same message: by id where both were given one, and by content. */
function sameMessage(present: Message, given: MessageInput): boolean {
  if (given.id !== undefined && given.id !== present.id) return false;
  return equal(content(present), content(given));
}

function textBytes(texts: readonly string[]): number {
  return texts.reduce((sum, text, i) => sum + Buffer.byteLength(text) + (i === 0 ? 0 : 2), 0);
}

export function notFound(id: string): HoldfastError {
  return new HoldfastError("NOT_FOUND", `There is no checkpoint ${quote(id)}. List those of its session.`, { checkpointId: id });
}

function foreign(at: string, session: string, advice: string): HoldfastError {
  return new HoldfastError("CONFLICT", `Checkpoint ${quote(at)} is not in the past of session ${quote(session)}: ${advice}.`, {
    sessionId: session,
    checkpointId: at,
  });
}

function unsaved(session: string, advice: string): HoldfastError {
  return new HoldfastError("UNSAVED", `Session ${quote(session)} has staged work that was not saved. ${advice}`, { sessionId: session });
}
