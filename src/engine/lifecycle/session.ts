/**
 * A session by hand: operations are staged, shown at once, and durable when the next checkpoint
 * resolves.
 */
import { acts, type Effect } from "../../core/effects/effect.js";
import {
  type Checkpoint,
  type CheckpointOptions,
  checkOptions,
  checkText,
  MAX_REASON,
} from "../../core/journal/checkpoint.js";
import type { Message, MessageInput } from "../../core/messages/message.js";
import { placement, type Strategy } from "../../core/retention/strategy.js";
import type { SessionStatus, StatusEvent } from "../../core/sessions/status.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkpointPlace, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import { encode, type Json, type JsonObject, type Storable } from "../../core/values/json.js";
import { ByHand, type EffectOptions, type ModelOptions } from "../calls/by-hand.js";
import { type Pending, pendingOf } from "../calls/pending.js";
import type { EffectPolicy } from "../calls/repeats.js";
import { historyOf } from "../journal/history.js";
import { type Holding, unsaved } from "../session/holding.js";
import { restate } from "../session/settle-calls.js";
import { SinceCheckpoint } from "../session/since-checkpoint.js";
import type { Standing } from "../session/workspace.js";
import { notFound } from "../util/not-found.js";
import {
  flag,
  limitOf,
  numberOf,
  options,
  type Page,
  type PageOptions,
  wholeNumber,
} from "../util/options.js";
import {
  checkPolicy,
  type RewindOptions,
  type RewindReport,
  rewind,
  switchBranch,
} from "./lines.js";
import { idOrDrawn } from "./session-ids.js";

/** Opens a fork that has just been made, in this process's hands. */
export type ForkOpener = (
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  from: Omit<Standing, "head"> | undefined,
) => Promise<Session>;

export interface ForkOptions {
  /** The new session's id; one is drawn where it is left out. */
  readonly id?: string;
  /**
   * What becomes of a call that the session it comes from has made since: wait for somebody's word
   * (`ask`), or not.
   */
  readonly effects?: EffectPolicy;
}

/** Which messages of a session's past are wanted. */
export interface HistoryOptions extends PageOptions {
  /** Only those before this record number. */
  readonly before?: number;
}

export interface CloseOptions {
  /** Whether staged work that was not saved is given up; otherwise it is an error. */
  readonly discard?: boolean;
}

type Keys<S> = keyof S & string;

export class Session<S extends object = Record<string, Json>> implements AsyncDisposable {
  readonly id: SessionId;
  readonly #held: Holding;
  readonly #openFork: ForkOpener;
  readonly #byHand: ByHand;

  /** Made by `hold.session` and `session.fork`, not by hand. */
  constructor(held: Holding, openFork: ForkOpener) {
    this.id = held.id;
    this.#held = held;
    this.#openFork = openFork;
    this.#byHand = new ByHand(held);
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

  /**
   * Aborts when the lease is lost, the session cancelled or the store closed; the reason says
   * which.
   */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  // ---- staging

  /**
   * Stages messages. One whose id is known already is passed over; the same id with other content
   * is a CONFLICT.
   */
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

  /**
   * Removes and puts in items of a list: the transcript under `messages`, or a list under a state
   * key.
   */
  splice(
    key: string,
    start: number,
    deleteCount: number,
    ...items: readonly (Json | MessageInput)[]
  ): void {
    this.#held.usable();
    this.#work.splice(key, start, deleteCount, items);
  }

  /**
   * Takes a whole state and stages what differs from the present one. Parts that are not given stay
   * as they are.
   */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: Partial<S> }): void {
    this.#held.usable();
    this.#work.save(whole);
  }

  // ---- calls

  /**
   * Makes a call that survives: what it answered is in the journal before this resolves (with the
   * next commit, where repeating it does no harm), and is not asked for again. One of which nobody
   * knows what became is IN_DOUBT until somebody settles it.
   */
  effect<A, R>(
    name: string,
    input: A & Storable<A>,
    o: EffectOptions<A, R>,
    run: (
      input: A,
      context: { readonly key: string; readonly signal: AbortSignal },
    ) => Promise<R & Storable<R>> | (R & Storable<R>),
  ): Promise<R> {
    return this.#byHand.effect(
      name,
      input,
      o as EffectOptions<never, unknown>,
      run as never,
    ) as Promise<R>;
  }

  /**
   * Asks a model. The answer is durable when this resolves. After a crash a program that asks again
   * at the same place is given that answer. The place is the line, the last message, the state, and
   * how many answers this holder was given there. Once a later save has changed messages or state,
   * the model is asked again. With a `key` the key alone decides.
   */
  model<R>(
    run: (context: {
      readonly key: string;
      readonly signal: AbortSignal;
      readonly messages: readonly Message[];
    }) => Promise<R & Storable<R>>,
    o?: ModelOptions,
  ): Promise<R> {
    return this.#byHand.model(run as never, o) as Promise<R>;
  }

  /** Calls that are not over: under way when a process ended, waiting for somebody, or in doubt. */
  async unfinished(): Promise<readonly Pending[]> {
    if (this.#held.ended?.code === "CLOSED") throw this.#held.ended;
    const { fold, past } = this.#work;
    return Promise.all(
      fold.course.open.map((effect) => pendingOf(this.#held.ground, this.id, past, effect)),
    );
  }

  // ---- saving

  /** Makes everything staged durable, with a checkpoint at its end. */
  async checkpoint(label?: string | CheckpointOptions): Promise<Checkpoint> {
    this.#held.usable();
    return this.#held.checkpoint(checkOptions(label));
  }

  /**
   * Tells whether a strategy wants a checkpoint here, in a loop of your own. It answers from what
   * came since the last checkpoint, staged work included, and so the same after a crash. Where
   * nothing came since, it answers false.
   *
   * @example
   * if (session.shouldCheckpoint({ everyMessages: 10 })) await session.checkpoint();
   */
  shouldCheckpoint(strategy: Strategy = "after-tool"): boolean {
    this.#held.usable();
    const wanted = placement(strategy);
    const since = new SinceCheckpoint(this.#held.ground, this.#work, this.#work.fold.step + 1);
    return since.isAny && wanted.isDue(since);
  }

  /**
   * Ends the session's work, with a checkpoint. `at` is a label for that checkpoint, or options.
   */
  async complete(output?: Json, at?: string | CheckpointOptions): Promise<void> {
    await this.#finish("complete", at, {
      output: output === undefined ? undefined : encode(output, "output").value,
    });
  }

  async fail(reason: string, at?: string | CheckpointOptions): Promise<void> {
    await this.#finish("fail", at, { reason: checkText(reason, "reason", MAX_REASON) });
  }

  async halt(reason: string, at?: string | CheckpointOptions): Promise<void> {
    await this.#finish("halt", at, { reason: checkText(reason, "reason", MAX_REASON) });
  }

  async #finish(
    event: StatusEvent,
    at: string | CheckpointOptions | undefined,
    { reason, output }: { readonly reason?: string; readonly output?: Json | undefined },
  ): Promise<void> {
    this.#held.usable();
    const mark = checkOptions(at);
    await this.#refuseOpenCalls();
    this.#work.event(event, reason, output);
    await this.#held.checkpoint({ kind: "automatic", ...mark });
  }

  /** A session that ends must not hide a call whose outcome is unknown. */
  async #refuseOpenCalls(): Promise<void> {
    const begun = this.#work.fold.course.open.filter(
      (effect) => effect.phase === "begun" && acts(effect),
    );
    const [first] = begun;
    if (first === undefined) return;
    const isHere = ({ id }: Effect) => this.#held.ground.running.has(id);
    // From here on a person can see them and settle them. A keyed call can still be made again
    // under its key.
    const lost = begun.filter((effect) => effect.mode === "once" && !isHere(effect));
    for (const { id } of lost) this.#work.course({ effect: { id, is: "doubt", inside: true } });
    if (lost.length > 0) {
      restate(this.#work);
      await this.#held.commit();
    }
    throw stillOpen(this.id, first, isHere(first));
  }

  // ---- history

  /**
   * Every message ever appended on this session's past, newest first: also those that a splice has
   * taken out.
   */
  async history(o?: HistoryOptions): Promise<Page<Message>> {
    const { before, limit, cursor } = options(o, "history", ["before", "limit", "cursor"]);
    const upTo = Math.min(
      // What is on its way to the store is not there yet.
      this.#held.storedUpTo,
      before === undefined ? MAX_SEQ : wholeNumber(before, "before", 1, MAX_SEQ + 1) - 1,
      cursor === undefined ? MAX_SEQ : numberOf(cursor, "m") - 1,
    );
    return historyOf(this.#held.ground, this.#work.past, upTo, limitOf(limit, "limit"));
  }

  // ---- lines

  /**
   * A new session that begins at one of this session's checkpoints, or at any other. Nothing is
   * copied.
   */
  async fork(at: string, o?: ForkOptions): Promise<Session<S>> {
    this.#held.usable();
    const fields = options(o, "fork", ["id", "effects"]);
    const { effects } = fields;
    const id = idOrDrawn(fields, "id", () => this.#held.ground.newSessionId());
    const policy = checkPolicy(effects);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    // The state at the newest checkpoint is in memory already, unless something was staged since.
    const { fold, end, past, latest } = this.#work;
    const here = place.line === this.#held.line && place.seq === fold.seq && this.#held.isQuiet;
    const from = here ? { fold: fold.copy(), end, past, latest } : undefined;
    return (await this.#openFork(place, id, policy, from)) as unknown as Session<S>;
  }

  /**
   * Puts this session back to one of its checkpoints, on a new line. What came after is kept, on
   * the old one. Answers what had been done by then: a call on the new line that equals one of
   * these waits for somebody's word, unless `effects` says otherwise.
   */
  async rewind(at: string, o?: RewindOptions): Promise<RewindReport> {
    return rewind(this.#held, at, checkPolicy(options(o, "rewind", ["effects"]).effects));
  }

  /** Make the branch of one of this session's checkpoints the current one, at its end. */
  async switchBranch(at: string): Promise<void> {
    await switchBranch(this.#held, at);
  }

  // ---- the end

  /**
   * Lets go of the session. Staged work that was not saved throws, unless it is to be discarded.
   */
  async close(o?: CloseOptions): Promise<void> {
    const discard = flag(options(o, "close", ["discard"]).discard, "discard") ?? false;
    await this.#held.close({ discard });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const lost = !this.#held.ended && !this.#held.isQuiet;
    await this.close({ discard: true });
    if (lost) throw unsaved(this.id, "It was discarded with the session.");
  }
}

function stillOpen(
  session: string,
  { id, name, named = "" }: Effect,
  isHere: boolean,
): HoldfastError {
  const what = `Session ${quote(session)} cannot end: its call of ${quote(name)} (${id})`;
  return isHere
    ? new HoldfastError("BAD_STATUS", `${what} is still under way. Wait for it first.`, {
        sessionId: session,
        effectId: id,
      })
    : new HoldfastError(
        "IN_DOUBT",
        `${what} was begun, and its outcome is unknown. Call it again under its key ${quote(named)}, or settle it, first.`,
        { sessionId: session, effectId: id },
      );
}
