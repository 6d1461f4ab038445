/**
 * The state a holder works on: the fold, what is staged on top of it, and the head that goes with it. All of it in memory; sealing turns
 * what is staged into a save.
 */
import type { CourseRecord, Turn } from "../../core/effects/course.js";
import { type Checkpoint, type CheckpointOptions, checkpointFrom, type Mark, markText } from "../../core/journal/checkpoint.js";
import { content } from "../../core/journal/diff.js";
import type { Fold } from "../../core/journal/fold.js";
import { record } from "../../core/journal/record.js";
import { baseRefs } from "../../core/journal/refs.js";
import { revive } from "../../core/journal/revive.js";
import { seal } from "../../core/journal/seal-save.js";
import type { TranscriptChange } from "../../core/journal/transcript-change.js";
import { type Blob, blobsOf, type EncodedMessage, encodeMessage, type Message, type MessageInput } from "../../core/messages/message.js";
import { titleOf } from "../../core/messages/title.js";
import { isUnderWay, type StatusEvent } from "../../core/sessions/status.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, type LineId, MAX_SEQ, parsePlace, placeId, type SessionId } from "../../core/values/ids.js";
import { type Encoded, encode, equal, freeze, itemsOf, type Json, type JsonObject, textBytes } from "../../core/values/json.js";
import type { NewSave } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import type { Ground } from "../journal/ground.js";
import type { Past } from "../journal/past.js";
import type { HeadDoc } from "../records/rows.js";
import { options, wholeNumber } from "../util/options.js";
import { Staging } from "./staging.js";

/** A save on its way: sealed, and kept until the store has said that it is there. */
export interface Sealed {
  readonly save: NewSave;
  /** The head, where it changed. */
  readonly head: HeadDoc | undefined;
  readonly checkpoint: Checkpoint | undefined;
  readonly drained: readonly string[];
  /** What else is changed in the same step. */
  readonly docs?: readonly DocChange[];
}

/** Where a session stands. */
export interface Standing {
  readonly head: HeadDoc;
  readonly fold: Fold;
  readonly end: Digest;
  /** Known down to the newest checkpoint: the next one names it. */
  readonly past: Past;
  readonly latest: Checkpoint | undefined;
}

export class Workspace {
  readonly #ground: Ground;
  #head: HeadDoc;
  #headChanged = false;
  readonly #fold: Fold;
  #end: Digest;
  readonly #past: Past;
  #latest: Checkpoint | undefined;
  readonly #staging = new Staging();
  #ids: Map<string, Message> | undefined;
  /** How many calls were given an id since the last save. */
  #intents = 0;

  constructor(ground: Ground, { head, fold, end, past, latest }: Standing) {
    this.#ground = ground;
    this.#head = head;
    this.#fold = fold;
    this.#end = end;
    this.#past = past;
    this.#latest = latest;
  }

  get fold(): Fold {
    return this.#fold;
  }

  get head(): HeadDoc {
    return this.#head;
  }

  get end(): Digest {
    return this.#end;
  }

  get past(): Past {
    return this.#past;
  }

  get latest(): Checkpoint | undefined {
    return this.#latest;
  }

  /** Whether the store was put back from a copy since the session was last set going: what the original did with it is not known. */
  get isOfBefore(): boolean {
    return (this.#head.incarnation ?? "") !== this.#ground.incarnation;
  }

  /** Whatever is begun from here on is begun in this incarnation of the store. */
  joins(): void {
    if (!this.isOfBefore) return;
    const { incarnation: _before, ...head } = this.#head;
    const { incarnation } = this.#ground;
    this.#head = incarnation === "" ? head : { ...head, incarnation };
    this.#headChanged = true;
  }

  /** Files that staged messages name without bringing them. */
  foreignFiles(): readonly Digest[] {
    return this.#staging.foreignFiles();
  }

  /** A file that is kept, and that a staged message names. */
  bringsFile(file: Blob): void {
    this.#staging.brings(file);
  }

  /**
   * A file that is not kept. What a tool answered may look like one of ours and is stored as it is; a message of the caller's own that
   * names it is refused.
   */
  missesFile(name: Digest): void {
    const named = this.#fold.messages.some(
      ({ content: parts }) =>
        typeof parts !== "string" && parts.some((part) => part.type === "file" && "digest" in part.data && part.data.digest === name),
    );
    if (named) throw notStored(name);
    this.#staging.notAFile(name);
  }

  get isSaved(): boolean {
    return this.#staging.isEmpty;
  }

  get #line(): LineId {
    return this.#head.line;
  }

  get #id(): SessionId {
    return this.#head.id;
  }

  // ---- staging

  append(messages: readonly MessageInput[]): void {
    const encoded = messages.map((message, i) => this.encode(message, `messages[${this.#fold.messageCount + i}]`));
    this.#stageMessages(encoded, undefined);
  }

  /** Messages that came from outside a run. They set nothing going: what has come to rest stays so. */
  appendFromOutside(messages: readonly MessageInput[]): void {
    const encoded = messages.map((message, i) => this.encode(message, `messages[${i}]`));
    this.#stageMessages(encoded, undefined, { isWork: false });
  }

  /**
   * Puts messages in the place of others, from outside a run: nothing is set going by it. The changes come in order; where each begins is
   * counted in the transcript as it stands before all of them.
   */
  spliceFromOutside(changes: readonly TranscriptChange<EncodedMessage>[]): void {
    let moved = 0;
    for (const { start, remove, add } of changes) {
      const at = start + moved;
      const isAppend = remove === 0 && at === this.#fold.messageCount;
      this.#stageMessages(add, isAppend ? undefined : [at, remove], { isWork: false });
      moved += add.length - remove;
    }
  }

  /** A message that was checked already. It is taken over. */
  appendEncoded(message: EncodedMessage): void {
    this.#stageMessages([this.#ground.redactor?.message(message, "message") ?? message], undefined);
  }

  /** A message as it will be stored. */
  encode(message: unknown, path: string): EncodedMessage {
    const encoded = encodeMessage(message, path);
    return this.#ground.redactor?.message(encoded, path) ?? encoded;
  }

  #encodeState(key: string, value: unknown): Encoded {
    const path = `state.${key}`;
    const encoded = encode(value, path);
    return this.#ground.redactor?.encoded(encoded, { in: "state", key }, path) ?? encoded;
  }

  set(key: unknown, value: unknown): void {
    const name = checkKey(key);
    this.#set(name, this.#encodeState(name, value));
  }

  #set(key: string, encoded: Encoded): void {
    this.#staging.reserve(1, encoded.bytes);
    this.event("work");
    this.#fold.set(key, encoded.value, this.#staging.set(key, encoded));
  }

  unset(key: unknown): void {
    const name = checkKey(key);
    if (!this.#fold.has(name)) return;
    this.#staging.reserve(1, 0);
    this.event("work");
    this.#fold.unset(name);
    this.#staging.unset(name);
  }

  splice(key: unknown, start: unknown, deleteCount: unknown, items: readonly unknown[]): void {
    const name = key === "messages" ? key : checkKey(key);
    const length = name === "messages" ? this.#fold.messageCount : this.#fold.listLength(name);
    if (length === undefined) {
      throw new HoldfastError("INVALID_VALUE", `state.${name}: there is no list to splice. Set one first.`, { path: `state.${name}` });
    }
    const from = wholeNumber(start, "splice start", 0, length);
    const remove = wholeNumber(deleteCount, "splice deleteCount", 0, length - from);
    if (name === "messages") {
      const messages = items.map((item, i) => this.encode(item, `messages[${from + i}]`));
      if (messages.length > 0 || remove > 0) this.#stageMessages(messages, [from, remove]);
      return;
    }
    const encoded = this.#encodeState(
      name,
      items.map((item, i) => freeze(item, `state.${name}[${from + i}]`)),
    );
    if (items.length > 0 || remove > 0) this.#splice(name, from, remove, encoded);
  }

  #splice(key: string, start: number, remove: number, items: Encoded): void {
    this.#staging.reserve(1, items.bytes);
    this.event("work");
    this.#fold.spliceList(key, start, remove, items.value as readonly Json[]);
    this.#staging.list(key, start, remove, items);
  }

  /** Stages what differs between the present state and a whole one. */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: object }): void {
    const { messages, state } = options(whole, "save", ["messages", "state"]);
    const items = messages === undefined ? undefined : itemsOf(messages, "messages");
    if (messages !== undefined && items === undefined)
      throw new HoldfastError("INVALID_VALUE", "messages: it must be a list of messages.", { path: "messages" });
    const encodedMessages = items?.map((message, i) => this.encode(message, `messages[${i}]`));
    const encodedState =
      state === undefined ? undefined : entriesOf(state).map(([key, value]) => [key, this.#encodeState(key, value)] as const);
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
    for (const key of Object.keys(present)) if (!given.has(key)) this.unset(key);
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

  /**
   * The numbers of replies in a stretch whose calls are over and have no tool message. A reply with a call that is not over stays: without it
   * nothing could answer the call, and the agent would wait for it for ever.
   */
  #repliesIn(start: number, remove: number): readonly number[] {
    const { course } = this.#fold;
    if (course.open.length + course.doneCount === 0) return [];
    const replies: number[] = [];
    for (let i = start; i < start + remove; i++) {
      const seq = this.#fold.messageAt(i)?.seq ?? 0;
      const calls = [...course.ofReply(seq).values()];
      const open = calls.find(({ phase }) => phase !== "done");
      if (open !== undefined)
        throw new HoldfastError(
          "BAD_STATUS",
          `messages[${i}] of session ${quote(this.#id)} asks for a call of ${quote(open.name)} (${open.id}) that is not over: it cannot be removed before. Let it finish, decide about it, or settle it.`,
          { sessionId: this.#id, effectId: open.id },
        );
      if (calls.length > 0) replies.push(seq);
    }
    return replies;
  }

  #stageMessages(
    messages: readonly EncodedMessage[],
    splice: readonly [start: number, remove: number] | undefined,
    { isWork = true } = {},
  ): void {
    const fresh = messages.some(({ value }) => value.id !== undefined) ? this.#unknown(messages, splice) : messages;
    if (fresh.length === 0 && (splice === undefined || splice[1] === 0)) return;
    const replies = splice === undefined ? [] : this.#repliesIn(...splice);
    const at = this.#ground.wallMs();
    let bytes = 0;
    for (const message of fresh) bytes += message.bytes;
    this.#staging.reserve(fresh.length + 1, bytes);
    if (this.#fold.seq + this.#staging.itemCount + fresh.length + 2 > MAX_SEQ) {
      throw new HoldfastError("TOO_LARGE", `Session ${quote(this.#id)} has reached ${MAX_SEQ} records.`, { limit: MAX_SEQ });
    }
    if (isWork) this.event("work");
    if (splice !== undefined) {
      this.#ids = undefined;
      if (fresh.length === 0) {
        this.#staging.removeMessages(...splice);
        this.#fold.spliceMessages(...splice);
      }
    }
    for (let i = 0; i < fresh.length; i++) {
      const encoded = fresh[i] as EncodedMessage;
      const seq = this.#nextSeq;
      const message = revive(encoded.value, placeId(this.#line, seq), seq, at);
      const { row } = this.#staging;
      if (splice === undefined) {
        this.#fold.append(message, this.#staging.message(encoded, at), row);
        this.#ids?.set(message.id, message);
      } else {
        const place = [splice[0] + i, i === 0 ? splice[1] : 0] as const;
        this.#fold.spliceMessages(...place, { message, body: this.#staging.message(encoded, at, place), row });
      }
      if (this.#head.title === undefined) this.#title(message);
    }
    // Nothing is left to be told of their calls.
    for (const answered of replies) this.course({ answered });
  }

  /** Those that are not in the transcript already. Only a message that says the same may come twice. */
  #unknown(messages: readonly EncodedMessage[], splice: readonly [start: number, remove: number] | undefined): readonly EncodedMessage[] {
    const leaving = new Set(splice && this.#fold.messages.slice(splice[0], splice[0] + splice[1]).map(({ id }) => id));
    this.#ids ??= new Map(this.#fold.messages.map((message) => [message.id, message]));
    const known = this.#ids;
    const given = new Map<string, MessageInput>();
    return messages.filter(({ value }) => {
      const { id } = value;
      if (id === undefined) return true;
      this.#refuseReserved(id);
      const twin = given.get(id) ?? (leaving.has(id) ? undefined : known.get(id));
      given.set(id, value);
      if (twin === undefined) return true;
      if (splice === undefined && equal(content(twin), content(value))) return false;
      throw new HoldfastError(
        "CONFLICT",
        `A message with id ${quote(id)} is in session ${quote(this.#id)} already, ${splice ? "at another place" : "with other content"}.`,
        { sessionId: this.#id },
      );
    });
  }

  /** The id of a record to come must not be taken by another message before it. */
  #refuseReserved(id: string): void {
    const place = parsePlace(id);
    if (place?.line === this.#line && place.seq > this.#fold.seq && !this.#ids?.has(id)) {
      throw new HoldfastError("INVALID_ID", `${quote(id)} is the id that a later message of this session will be given. Choose another.`, {
        path: "messages.id",
      });
    }
  }

  #title(message: MessageInput): void {
    const title = titleOf(message);
    if (title === undefined) return;
    this.#head = { ...this.#head, title };
    this.#headChanged = true;
  }

  /** Moves the status, where the event changes it or has something to say. Work on a session that had come to rest sets it going again. */
  event(event: StatusEvent, why?: string, what?: Json): void {
    const { redactor } = this.#ground;
    const reason = why === undefined ? why : (redactor?.text(why, { in: "reason" }) ?? why);
    const output = what === undefined || redactor === undefined ? what : freeze(redactor.json(what, { in: "output" }), "output");
    // Whoever goes on with a session that is being cancelled takes that back.
    const next = event === "work" && this.#fold.isCancelling ? this.#fold.status : this.#fold.transition(event);
    if (next === undefined && reason === undefined && output === undefined) return;
    // What has come to its end is over in every copy: work after that is new.
    if (event === "work" && (this.#fold.status === "completed" || this.#fold.status === "cancelled")) this.joins();
    const status = next ?? this.#fold.status;
    this.#staging.status(status, reason, output === undefined ? undefined : JSON.stringify(output));
    this.#fold.setStatus(status, reason, output);
    const { reason: _before, ...head } = this.#head;
    this.#head = { ...head, status, ...(reason === undefined ? {} : { reason }) };
    this.#headChanged = true;
  }

  /** Stages what is to be known of the course of a run. */
  course(given: CourseRecord, carries?: Encoded): void {
    const { redactor } = this.#ground;
    const { record, body } = redactor?.course(given, carries, (id) => this.#fold.course.get(id)?.name) ?? { record: given, body: carries };
    this.#staging.reserve(1, body?.bytes ?? 0);
    const at = this.#ground.wallMs();
    this.#fold.course.apply(record, this.#staging.course(record, body, at), at);
  }

  /** Stages what the model is given before the transcript, where it differs from what it was given before. */
  prefix(prefix: Encoded): void {
    this.#staging.reserve(1, prefix.bytes);
    const since = this.#nextSeq;
    this.#fold.course.apply({ prefix: this.#staging.prefix(prefix, since), since }, undefined, 0);
  }

  /** The number that the next message will have. */
  get #nextSeq(): number {
    return this.#fold.seq + this.#staging.itemCount + 1;
  }

  /**
   * Throws where messages could not be appended; stages nothing. Answers the files that they name and do not bring: what a tool answered may
   * only look like one.
   */
  tryMessages(messages: readonly EncodedMessage[]): readonly Digest[] {
    if (messages.some(({ value }) => value.id !== undefined)) this.#unknown(messages, undefined);
    return messages.flatMap(({ value: { content: parts }, blobs }) => {
      const named = typeof parts === "string" ? [] : parts.flatMap((part) => (part.type === "tool-result" ? [] : blobsOf([part])));
      return named.filter((name) => !blobs.some(({ digest }) => digest === name));
    });
  }

  /** Begins a turn with its input, which is staged next. */
  turn(turn: Omit<Turn, "from" | "steps" | "tokens">): void {
    const { replies, tokens } = this.#fold;
    this.joins();
    this.event("work");
    this.course({ turn: { ...turn, from: this.#nextSeq, steps: replies, tokens } });
  }

  /** Notes a session that a call of this one runs. */
  adopts(child: SessionId): void {
    this.course({ child });
    if (this.#head.children) return;
    this.#head = { ...this.#head, children: true };
    this.#headChanged = true;
  }

  /** From when on a worker may take the session up; undefined where there is nothing to do. */
  due(at: number | undefined): void {
    if (this.#head.due === at) return;
    const { due: _before, ...head } = this.#head;
    this.#head = at === undefined ? head : { ...head, due: at };
    this.#headChanged = true;
  }

  /** Sets when there is something to do: at once, when a wait runs out, or not at all. Children are run by their parents. */
  redue(): void {
    const { status, course, isCancelling } = this.#fold;
    if (!isUnderWay(status) || isCancelling || course.turn === undefined || this.#head.parent !== undefined) return this.due(undefined);
    const now = this.#ground.wallMs();
    const at = course.goesOnAt(now);
    // One that is due already keeps its place among those that wait for a worker.
    this.due(at === now ? Math.min(this.#head.due ?? now, now) : at);
  }

  /** Where the next call that is begun will stand: unlike any other's, also on other lines. */
  newEffectId(): string {
    this.#intents += 1;
    return `${this.#line}-${this.#fold.seq + 1}.${this.#intents}`;
  }

  /** The head, where it changed since it was last taken. */
  takeHead(): HeadDoc | undefined {
    const head = this.#headChanged ? this.#head : undefined;
    this.#headChanged = false;
    return head;
  }

  /** What was taken could not be written. */
  headAgain(): void {
    this.#headChanged = true;
  }

  // ---- sealing

  /** Turns what is staged into a save, with a checkpoint at its end where one is wanted. */
  seal(wanted: CheckpointOptions | undefined, drained: readonly string[]): Sealed {
    const fold = this.#fold;
    // Before anything is taken from what is staged: the hook may throw.
    const given = wanted && (this.#ground.redactor?.mark(wanted) ?? wanted);
    const at = this.#ground.wallMs();
    const row = this.#staging.row;
    const { items, state, nMessages, refs, blobs, ascii } = this.#staging.take(at);
    let allRefs = refs;
    const withBase = fold.basePays();
    if (withBase) {
      const base = fold.toBase((ranges) => this.#past.linesOf(ranges));
      state.push(record([["base", JSON.stringify(base)]]));
      allRefs = [...refs, ...baseRefs(base)];
    }
    const seq = fold.seq + items.length + state.length + (given === undefined ? 0 : 1);
    const mark = given && this.#mark(given);
    const salt = () => this.#ground.salts.next();
    const { save, digest } = seal({
      line: this.#line,
      after: fold.seq,
      at,
      prior: fold.prior,
      base: withBase ? seq : fold.base,
      prev: this.#end,
      items,
      nMessages,
      state,
      mark: mark === undefined ? null : markText(mark, salt),
      salt,
    });
    row.bytes = ascii ? (save.items?.length ?? 0) : textBytes(save.items);
    const stateBytes = textBytes(save.state);
    fold.readBytes += row.bytes + stateBytes;
    if (withBase) fold.markBase(seq, fold.costAfterBase(stateBytes));
    fold.seq = seq;
    this.#intents = 0;
    this.#end = digest;
    const checkpoint = mark && checkpointFrom(mark, save, digest, this.#id, (before) => this.#past.knownLineAt(before) ?? this.#line);
    fold.course.saveEnds();
    if (checkpoint !== undefined) {
      fold.prior = seq;
      this.#latest = checkpoint;
    }
    const head = this.takeHead();
    return { save: { save, refs: allRefs, blobs }, head, checkpoint, drained };
  }

  #mark(given: CheckpointOptions): Mark {
    const fold = this.#fold;
    fold.step = given.step ?? fold.step + 1;
    fold.tasks = given.tasksCompleted ?? fold.tasks;
    const mark: { -readonly [K in keyof Mark]: Mark[K] } = { step: fold.step, messages: fold.messageCount, bytes: fold.sizeBytes };
    if (given.kind !== undefined && given.kind !== "manual") mark.kind = given.kind;
    if (given.label !== undefined) mark.label = given.label;
    if (given.description !== undefined) mark.description = given.description;
    if (fold.status !== "in-progress") mark.status = fold.status;
    if (fold.reason !== undefined) mark.reason = fold.reason;
    if (given.tokenCount !== undefined) mark.tokens = given.tokenCount;
    else if (fold.tokens > 0) mark.tokens = fold.tokens;
    if (fold.tasks !== undefined) mark.tasks = fold.tasks;
    if (given.metadata !== undefined) mark.metadata = given.metadata;
    return mark;
  }
}

export function notStored(name: Digest): HoldfastError {
  return new HoldfastError("INVALID_VALUE", `messages: one names the file ${quote(name)}, which is not stored. Give its bytes instead.`, {
    path: "messages",
    found: name,
  });
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

function entriesOf(state: unknown): readonly (readonly [string, Json])[] {
  const copy = freeze(state, "state");
  if (typeof copy !== "object" || copy === null || Array.isArray(copy))
    throw new HoldfastError("INVALID_VALUE", "state: it must be an object.", { path: "state" });
  return Object.entries(copy as JsonObject).map(([key, value]) => [checkKey(key), value] as const);
}
