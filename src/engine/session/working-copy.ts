/**
 * The state a holder works on: the fold, what is staged on top of it, and the head that goes with
 * it. All of it in memory; sealing turns what is staged into a save.
 */
import type { InFlightRecord, Turn } from "../../core/effects/in-flight.js";
import type { Checkpoint, CheckpointOptions } from "../../core/journal/checkpoint.js";
import { messageView } from "../../core/journal/message-view.js";
import type { StateFold } from "../../core/journal/session-state.js";
import type { TranscriptChange } from "../../core/journal/transcript-change.js";
import {
  type Blob,
  type EncodedMessage,
  encodeMessage,
  type MessageInput,
} from "../../core/messages/message.js";
import { titleOf } from "../../core/messages/truncate.js";
import { isUnderWay, type StatusEvent } from "../../core/sessions/status.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type BranchId, MAX_SEQ, placeId, type SessionId } from "../../core/values/ids.js";
import { type Encoded, encode, freeze, itemsOf, type Json } from "../../core/values/json.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import type { HeadDoc } from "../records/rows.js";
import { options, wholeNumber } from "../util/validate.js";
import { answeredReplies } from "./answered-replies.js";
import { MessageIds } from "./message-ids.js";
import { filesNotBrought, isNamedIn, notStored } from "./named-files.js";
import type { Sealed } from "./save-queue.js";
import { sealStaged } from "./seal-staged.js";
import { Staging } from "./staging.js";
import { checkKey, entriesOf } from "./state-keys.js";
import { sameMessages, stateChanges } from "./whole-changes.js";
import { WorkingHead } from "./working-head.js";

/** Where a session stands. */
export interface Standing {
  readonly head: HeadDoc;
  readonly fold: StateFold;
  readonly end: Digest;
  /** Known down to the newest checkpoint: the next one names it. */
  readonly past: Past;
  readonly latest: Checkpoint | undefined;
}

export class WorkingCopy {
  readonly #ctx: StoreContext;
  readonly #head: WorkingHead;
  readonly #fold: StateFold;
  #end: Digest;
  readonly #past: Past;
  #latest: Checkpoint | undefined;
  readonly #staging = new Staging();
  readonly #ids: MessageIds;
  /** How many calls were given an id since the last save. */
  #intents = 0;

  constructor(ctx: StoreContext, { head, fold, end, past, latest }: Standing) {
    this.#ctx = ctx;
    this.#head = new WorkingHead(head);
    this.#fold = fold;
    this.#end = end;
    this.#past = past;
    this.#latest = latest;
    this.#ids = new MessageIds(fold, head);
  }

  get fold(): StateFold {
    return this.#fold;
  }

  get head(): HeadDoc {
    return this.#head.doc;
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

  /**
   * Whether the store was put back from a copy since the session was last set going: what the
   * original did with it is not known.
   */
  get isOfBefore(): boolean {
    return !this.#head.isOf(this.#ctx.generation);
  }

  /** Whatever is begun from here on is begun in this generation of the store. */
  joins(): void {
    if (this.isOfBefore) this.#head.joins(this.#ctx.generation);
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
   * A file that is not kept. What a tool answered may look like one of ours and is stored as it is;
   * a message of the caller's own that names it is refused.
   */
  missesFile(name: Digest): void {
    if (isNamedIn(this.#fold.messages, name)) throw notStored(name);
    this.#staging.notAFile(name);
  }

  get isSaved(): boolean {
    return this.#staging.isEmpty;
  }

  get #branch(): BranchId {
    return this.head.branch;
  }

  get #id(): SessionId {
    return this.head.id;
  }

  // ---- staging

  append(messages: readonly MessageInput[]): void {
    const encoded = messages.map((message, i) =>
      this.encode(message, `messages[${this.#fold.messageCount + i}]`),
    );
    this.#stageMessages(encoded, undefined);
  }

  /**
   * Messages that came from outside a run. They set nothing going: what has come to rest stays so.
   */
  appendFromOutside(messages: readonly MessageInput[]): void {
    const encoded = messages.map((message, i) => this.encode(message, `messages[${i}]`));
    this.#stageMessages(encoded, undefined, { isWork: false });
  }

  /**
   * Puts messages in the place of others, from outside a run: nothing is set going by it. The
   * changes come in order; where each begins is counted in the transcript as it stands before all
   * of them.
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
    this.#stageMessages([this.#ctx.redactor?.message(message, "message") ?? message], undefined);
  }

  /** A message as it will be stored. */
  encode(message: unknown, path: string): EncodedMessage {
    const encoded = encodeMessage(message, path);
    return this.#ctx.redactor?.message(encoded, path) ?? encoded;
  }

  #encodeState(key: string, value: unknown): Encoded {
    const path = `state.${key}`;
    const encoded = encode(value, path);
    return this.#ctx.redactor?.encoded(encoded, { in: "state", key }, path) ?? encoded;
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
      throw new HoldfastError(
        "INVALID_VALUE",
        `state.${name}: there is no list to splice. Set one first.`,
        { path: `state.${name}` },
      );
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
      throw new HoldfastError("INVALID_VALUE", "messages: it must be a list of messages.", {
        path: "messages",
      });
    const encodedMessages = items?.map((message, i) => this.encode(message, `messages[${i}]`));
    const encodedState =
      state === undefined
        ? undefined
        : entriesOf(state).map(([key, value]) => [key, this.#encodeState(key, value)] as const);
    if (encodedMessages) this.#saveMessages(encodedMessages);
    if (encodedState) this.#saveState(encodedState);
  }

  #saveMessages(messages: readonly EncodedMessage[]): void {
    const present = this.#fold.messages;
    const same = sameMessages(present, messages);
    this.#stageMessages(
      messages.slice(same),
      same === present.length ? undefined : [same, present.length - same],
    );
  }

  #saveState(state: readonly (readonly [string, Encoded])[]): void {
    for (const change of stateChanges(this.#fold.state, state)) {
      if (change.kind === "unset") this.unset(change.key);
      else if (change.kind === "set") this.#set(change.key, change.value);
      else this.#splice(change.key, change.start, change.remove, change.items);
    }
  }

  #stageMessages(
    messages: readonly EncodedMessage[],
    splice: readonly [start: number, remove: number] | undefined,
    { isWork = true } = {},
  ): void {
    const fresh = this.#ids.fresh(messages, splice);
    if (fresh.length === 0 && (splice === undefined || splice[1] === 0)) return;
    const replies = splice === undefined ? [] : answeredReplies(this.#fold, this.#id, ...splice);
    const at = this.#ctx.wallMs();
    let bytes = 0;
    for (const message of fresh) bytes += message.bytes;
    this.#staging.reserve(fresh.length + 1, bytes);
    if (this.#fold.seq + this.#staging.itemCount + fresh.length + 2 > MAX_SEQ) {
      throw new HoldfastError(
        "TOO_LARGE",
        `Session ${quote(this.#id)} has reached ${MAX_SEQ} records.`,
        { limit: MAX_SEQ },
      );
    }
    if (isWork) this.event("work");
    if (splice !== undefined) {
      this.#ids.forget();
      if (fresh.length === 0) {
        this.#staging.removeMessages(...splice);
        this.#fold.spliceMessages(...splice);
      }
    }
    for (let i = 0; i < fresh.length; i++) {
      const encoded = fresh[i] as EncodedMessage;
      const seq = this.#nextSeq;
      const message = messageView(encoded.value, placeId(this.#branch, seq), seq, at);
      const { row } = this.#staging;
      if (splice === undefined) {
        this.#fold.append(message, this.#staging.message(encoded, at), row);
        this.#ids.add(message);
      } else {
        const place = [splice[0] + i, i === 0 ? splice[1] : 0] as const;
        this.#fold.spliceMessages(...place, {
          message,
          body: this.#staging.message(encoded, at, place),
          row,
        });
      }
      if (this.head.title === undefined) this.#title(message);
    }
    // Nothing is left to be told of their calls.
    for (const answered of replies) this.inFlight({ answered });
  }

  #title(message: MessageInput): void {
    const title = titleOf(message);
    if (title !== undefined) this.#head.title(title);
  }

  /**
   * Moves the status, where the event changes it or has something to say. Work on a session that
   * had come to rest sets it going again.
   */
  event(event: StatusEvent, why?: string, what?: Json): void {
    const { redactor } = this.#ctx;
    const reason = why === undefined ? why : (redactor?.text(why, { in: "reason" }) ?? why);
    const output =
      what === undefined || redactor === undefined
        ? what
        : freeze(redactor.json(what, { in: "output" }), "output");
    // Whoever goes on with a session that is being cancelled takes that back.
    const next =
      event === "work" && this.#fold.isCancelling
        ? this.#fold.status
        : this.#fold.transition(event);
    if (next === undefined && reason === undefined && output === undefined) return;
    // What has come to its end is over in every copy: work after that is new.
    if (
      event === "work" &&
      (this.#fold.status === "completed" || this.#fold.status === "cancelled")
    )
      this.joins();
    const status = next ?? this.#fold.status;
    this.#staging.status(status, reason, output === undefined ? undefined : JSON.stringify(output));
    this.#fold.setStatus(status, reason, output);
    this.#head.status(status, reason);
  }

  /** Stages what is to be known of the in-flight work of a run. */
  inFlight(given: InFlightRecord, carries?: Encoded): void {
    const { redactor } = this.#ctx;
    const { record, body } = redactor?.inFlight(
      given,
      carries,
      (id) => this.#fold.inFlight.get(id)?.name,
    ) ?? { record: given, body: carries };
    this.#staging.reserve(1, body?.bytes ?? 0);
    const at = this.#ctx.wallMs();
    this.#fold.inFlight.apply(record, this.#staging.inFlight(record, body, at), at);
  }

  /**
   * Stages what the model is given before the transcript, where it differs from what it was given
   * before.
   */
  prefix(prefix: Encoded): void {
    this.#staging.reserve(1, prefix.bytes);
    const since = this.#nextSeq;
    this.#fold.inFlight.apply({ prefix: this.#staging.prefix(prefix, since), since }, undefined, 0);
  }

  /** The number that the next message will have. */
  get #nextSeq(): number {
    return this.#fold.seq + this.#staging.itemCount + 1;
  }

  /**
   * Throws where messages could not be appended; stages nothing. Answers the files that they name
   * and do not bring: what a tool answered may only look like one.
   */
  tryMessages(messages: readonly EncodedMessage[]): readonly Digest[] {
    this.#ids.fresh(messages, undefined);
    return filesNotBrought(messages);
  }

  /** Begins a turn with its input, which is staged next. */
  turn(turn: Omit<Turn, "from" | "steps" | "tokens">): void {
    const { replies, tokens } = this.#fold;
    this.joins();
    this.event("work");
    this.inFlight({ turn: { ...turn, from: this.#nextSeq, steps: replies, tokens } });
  }

  /** Notes a session that a call of this one runs. */
  adopts(child: SessionId): void {
    this.inFlight({ child });
    this.#head.hasChildren();
  }

  /** From when on a worker may take the session up; undefined where there is nothing to do. */
  due(at: number | undefined): void {
    this.#head.due(at);
  }

  /**
   * Sets when there is something to do: at once, when a wait runs out, or not at all. Children are
   * run by their parents.
   */
  redue(): void {
    const { status, inFlight, isCancelling } = this.#fold;
    if (
      !isUnderWay(status) ||
      isCancelling ||
      inFlight.turn === undefined ||
      this.head.parent !== undefined
    )
      return this.due(undefined);
    const now = this.#ctx.wallMs();
    const at = inFlight.goesOnAt(now);
    // One that is due already keeps its place among those that wait for a worker.
    this.due(at === now ? Math.min(this.head.due ?? now, now) : at);
  }

  /** Where the next call that is begun will stand: unlike any other's, also on other branches. */
  newEffectId(): string {
    this.#intents += 1;
    return `${this.#branch}-${this.#fold.seq + 1}.${this.#intents}`;
  }

  /** The head, where it changed since it was last taken. */
  takeHead(): HeadDoc | undefined {
    return this.#head.take();
  }

  /** What was taken could not be written. */
  headAgain(): void {
    this.#head.again();
  }

  // ---- sealing

  /** Turns what is staged into a save, with a checkpoint at its end where one is wanted. */
  seal(wanted: CheckpointOptions | undefined, drained: readonly string[]): Sealed {
    const to = { session: this.#id, branch: this.#branch, end: this.#end, past: this.#past };
    const { save, digest, checkpoint } = sealStaged(
      this.#ctx,
      this.#fold,
      this.#staging,
      to,
      wanted,
    );
    this.#intents = 0;
    this.#end = digest;
    if (checkpoint !== undefined) this.#latest = checkpoint;
    return { save, head: this.takeHead(), checkpoint, drained };
  }
}
