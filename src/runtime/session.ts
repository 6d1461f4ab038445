/** A session by hand: operations are staged, shown at once, and durable when the next checkpoint resolves. */
import { type Checkpoint, type CheckpointOptions, checkOptions, checkText, MAX_REASON } from "../core/checkpoint.js";
import { HoldfastError, quote } from "../core/errors.js";
import { checkpointPlace, MAX_SEQ, type Place, type SessionId } from "../core/ids.js";
import { encode, type Json, type JsonObject, type Storable } from "../core/json.js";
import type { Message, MessageInput } from "../core/message.js";
import type { SessionStatus, StatusEvent } from "../core/status.js";
import { historyOf } from "./history.js";
import { type Holding, unsaved } from "./holding.js";
import { lineAt } from "./journal.js";
import { flag, limitOf, numberOf, options, type Page, wholeNumber } from "./options.js";
import { newLine } from "./rows.js";
import type { Standing } from "./workspace.js";

/** Opens a fork that has just been made, in this process's hands. */
export type ForkOpener = (at: Place, id: unknown, from: Omit<Standing, "head"> | undefined) => Promise<Session>;

type Keys<S> = keyof S & string;

export class Session<S extends object = Record<string, Json>> implements AsyncDisposable {
  readonly id: SessionId;
  readonly #held: Holding;
  readonly #openFork: ForkOpener;

  /** Made by `hold.session` and `session.fork`, not by hand. */
  constructor(held: Holding, openFork: ForkOpener) {
    this.id = held.id;
    this.#held = held;
    this.#openFork = openFork;
  }

  /** Rises with every holder: what others may fence by, too. */
  get epoch(): number {
    return this.#held.lease.epoch;
  }

  get #work() {
    return this.#held.work;
  }

  // ---- what it holds

  get messages(): readonly Message[] {
    return this.#work.fold.messages;
  }

  get state(): Readonly<S> {
    return this.#work.fold.state as Readonly<S>;
  }

  get status(): SessionStatus {
    return this.#work.fold.status;
  }

  get reason(): string | undefined {
    return this.#work.fold.reason;
  }

  /** What `complete` was given. */
  get output(): Json | undefined {
    return this.#work.fold.output;
  }

  /** The newest checkpoint. */
  get head(): Checkpoint | undefined {
    return this.#work.latest;
  }

  get agent(): string | undefined {
    return this.#work.head.agent;
  }

  /** As they were when the session was opened. */
  get tags(): readonly string[] {
    return this.#held.label.tags;
  }

  get metadata(): JsonObject {
    return this.#held.label.metadata;
  }

  /** Aborts when the lease is lost or the session cancelled; the reason says which. */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  // ---- staging

  /** Stages messages. One whose id is known already is passed over; the same id with other content is a CONFLICT. */
  append(...messages: readonly MessageInput[]): void {
    this.#held.usable();
    this.#work.append(messages);
  }

  set<K extends Keys<S>>(key: K, value: S[K] extends Json ? S[K] : S[K] & Storable<S[K]>): void {
    this.#held.usable();
    this.#work.set(key, value);
  }

  unset<K extends Keys<S>>(key: K): void {
    this.#held.usable();
    this.#work.unset(key);
  }

  /** Removes and puts in items of a list: the transcript under `messages`, or a list under a state key. */
  splice(key: string, start: number, deleteCount: number, ...items: readonly (Json | MessageInput)[]): void {
    this.#held.usable();
    this.#work.splice(key, start, deleteCount, items);
  }

  /** Takes a whole state and stages what differs from the present one. Parts that are not given stay as they are. */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: Partial<S> }): void {
    this.#held.usable();
    this.#work.save(whole);
  }

  // ---- saving

  /** Makes everything staged durable, with a checkpoint at its end. */
  async checkpoint(label?: string | CheckpointOptions): Promise<Checkpoint> {
    this.#held.usable();
    return this.#held.checkpoint(checkOptions(label));
  }

  async complete(output?: Json): Promise<void> {
    await this.#finish("complete", undefined, output === undefined ? undefined : encode(output, "output").value);
  }

  async fail(reason: string): Promise<void> {
    await this.#finish("fail", checkText(reason, "reason", MAX_REASON));
  }

  async halt(reason: string): Promise<void> {
    await this.#finish("halt", checkText(reason, "reason", MAX_REASON));
  }

  async #finish(event: StatusEvent, reason?: string, output?: Json): Promise<void> {
    this.#held.usable();
    this.#work.event(event, reason, output);
    await this.#held.checkpoint({ kind: "automatic" });
  }

  // ---- history

  /** Every message ever appended on this session's past, newest first: also those that a splice has taken out. */
  async history(o?: { readonly before?: number; readonly limit?: number; readonly cursor?: string }): Promise<Page<Message>> {
    const { before, limit, cursor } = options(o, "history", ["before", "limit", "cursor"]);
    const upTo = Math.min(
      // What is on its way to the store is not there yet.
      this.#held.storedUpTo,
      before === undefined ? MAX_SEQ : wholeNumber(before, "before", 1, MAX_SEQ + 1) - 1,
      cursor === undefined ? MAX_SEQ : numberOf(cursor, "m") - 1,
    );
    return historyOf(this.#held.ground, this.#work.segments, upTo, limitOf(limit, "limit"));
  }

  // ---- lines

  /** A new session that begins at one of this session's checkpoints, or at any other. Nothing is copied. */
  async fork(at: string, o: { readonly id: string }): Promise<Session<S>> {
    this.#held.usable();
    const { id } = options(o, "fork", ["id"]);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    // The state at the newest checkpoint is in memory already, unless something was staged since.
    const { fold, end, segments, latest } = this.#work;
    const here = place.line === this.#held.line && place.seq === fold.seq && this.#held.isQuiet;
    const from = here ? { fold: fold.copy(), end, segments, latest } : undefined;
    return (await this.#openFork(place, id, from)) as unknown as Session<S>;
  }

  /** Puts this session back to one of its checkpoints, on a new line. What came after is kept, on the old one. */
  async rewind(at: string): Promise<{ readonly passed: readonly [] }> {
    await this.#move(at, async (place) => {
      const segments = await this.#held.ground.journal.segments(place.line, place.seq);
      if (!(await this.#isOwnPast(place))) throw foreign(at, this.id, "fork from it instead");
      const { fold, end } = await this.#held.ground.loader.place(place, { sized: true });
      const line = this.#held.ground.newLineId();
      const latest = (await this.#held.ground.journal.checkpointAt(place))?.checkpoint;
      const here = { line, from: place.seq + 1, to: MAX_SEQ, session: this.id };
      const begun = newLine({ id: line, origin: place, prev: end });
      fold.course.leaveLine();
      if (!(await this.#held.moveTo(line, { fold, end, segments: [here, ...segments], latest }, begun))) throw notFound(at);
    });
    return { passed: [] };
  }

  /** Makes the line of one of this session's checkpoints the main one, at its end. */
  async adopt(at: string): Promise<void> {
    await this.#move(at, async ({ line }) => {
      const found = await this.#held.ground.journal.line(line);
      if (found?.session !== this.id) throw foreign(at, this.id, "only a line of the session itself can be adopted");
      const tail = await this.#held.ground.journal.tail(line);
      const { fold, end } = await this.#held.ground.loader.tail({ line: found.doc, tail }, { sized: true });
      const segments = await this.#held.ground.journal.segments(line);
      const latest = await this.#held.ground.journal.latest(tail, found.doc, this.id);
      await this.#held.moveTo(line, { fold, end, segments, latest }, undefined);
    });
  }

  async #move(at: string, go: (place: Place) => Promise<void>): Promise<void> {
    await this.#held.move(async () => go(await this.#requirePlace(at)));
  }

  async #isOwnPast(place: Place): Promise<boolean> {
    if ((await this.#held.ground.journal.line(place.line))?.session === this.id) return true;
    return lineAt(this.#work.segments, place.seq) === place.line;
  }

  async #requirePlace(at: string): Promise<Place> {
    const place = checkpointPlace(at);
    const found = place && (await this.#held.ground.journal.saveAt(place));
    if (place === undefined || found === undefined || found.save.mark === null) throw notFound(at);
    return place;
  }

  // ---- the end

  /** Lets go of the session. Staged work that was not saved throws, unless it is to be discarded. */
  async close(o?: { readonly discard?: boolean }): Promise<void> {
    const discard = flag(options(o, "close", ["discard"]).discard, "discard") ?? false;
    await this.#held.close({ discard });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const lost = !this.#held.ended && !this.#held.isQuiet;
    await this.close({ discard: true });
    if (lost) throw unsaved(this.id, "It was discarded with the session.");
  }
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
