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
import { type Pending, pendingOf } from "../calls/pending.js";
import type { EffectPolicy } from "../calls/repeats.js";
import { type EffectOptions, type ModelOptions, SessionEffects } from "../calls/session-effects.js";
import { historyOf } from "../journal/history.js";
import { type HeldSession, unsaved } from "../session/held-session.js";
import { restate } from "../session/settle-calls.js";
import { SinceCheckpoint } from "../session/since-checkpoint.js";
import type { Standing } from "../session/working-copy.js";
import { notFound } from "../util/not-found.js";
import {
  flag,
  limitOf,
  numberOf,
  options,
  type Page,
  type PageOptions,
  wholeNumber,
} from "../util/validate.js";
import {
  checkPolicy,
  type RewindOptions,
  type RewindReport,
  rewind,
  switchBranch,
} from "./rewind.js";
import { idOrDrawn } from "./session-ids.js";

/** Opens a fork that has just been made, in this process's hands. */
export type ForkOpener = (
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  from: Omit<Standing, "head"> | undefined,
) => Promise<Session>;

/** How a fork is made. */
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

/**
 * An open session, for a loop of your own.
 * You stage messages and state, see them at once, and make them durable with `checkpoint`. One
 * process holds a session at a time.
 *
 * @example
 * const session = await hold.session("research-7");
 * session.append({ role: "user", content: "What holds kelp to the rock?" });
 * await session.checkpoint("asked");
 * await session.close();
 */
export class Session<S extends object = Record<string, Json>> implements AsyncDisposable {
  readonly id: SessionId;
  readonly #held: HeldSession;
  readonly #openFork: ForkOpener;
  readonly #byHand: SessionEffects;

  /** Made by `hold.session` and `session.fork`, not by hand. */
  constructor(held: HeldSession, openFork: ForkOpener) {
    this.id = held.id;
    this.#held = held;
    this.#openFork = openFork;
    this.#byHand = new SessionEffects(held);
  }

  /**
   * The number of this holder, which rises with every holder: a fencing token for other systems.
   */
  get epoch(): number {
    return this.#held.lease.epoch;
  }

  get #work() {
    return this.#held.work;
  }

  // ---- what it holds

  /** The messages, staged ones included. */
  get messages(): readonly Message[] {
    return this.#work.fold.messages;
  }

  /** The state, staged changes included. */
  get state(): Readonly<S> {
    return this.#work.fold.state as Readonly<S>;
  }

  /** Where the session's work stands. */
  get status(): SessionStatus {
    return this.#work.fold.status;
  }

  /** The reason that `fail` or `halt` was given. */
  get reason(): string | undefined {
    return this.#work.fold.reason;
  }

  /** The output that `complete` was given. */
  get output(): Json | undefined {
    return this.#work.fold.output;
  }

  /** The newest checkpoint. */
  get head(): Checkpoint | undefined {
    return this.#work.latest;
  }

  /** The name of the agent that the session belongs to. */
  get agent(): string | undefined {
    return this.#work.head.agent;
  }

  /** The tags, as they were when the session was opened. */
  get tags(): readonly string[] {
    return this.#held.label.tags;
  }

  /** The metadata, as they were when the session was opened. */
  get metadata(): JsonObject {
    return this.#held.label.metadata;
  }

  /**
   * The signal that aborts when this process may not go on with the session.
   * That is when the lease is lost, the session cancelled or the store closed; the reason says
   * which.
   */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  // ---- staging

  /**
   * Stage messages at the end.
   * One whose id is known already is passed over; the same id with other content is a CONFLICT.
   *
   * @example
   * session.append({ role: "user", content: "Where is order 42?" });
   */
  append(...messages: readonly MessageInput[]): void {
    this.#held.usable();
    this.#work.append(messages);
  }

  /**
   * Stage a key of the state.
   *
   * @example
   * session.set("phase", "search");
   */
  set<K extends Keys<S>>(key: K, value: S[K] extends Json ? S[K] : S[K] & Storable<S[K]>): void {
    this.#held.usable();
    this.#work.set(key, value);
  }

  /**
   * Stage that a key of the state is gone.
   *
   * @example
   * session.unset("phase");
   */
  unset<K extends Keys<S>>(key: K): void {
    this.#held.usable();
    this.#work.unset(key);
  }

  /**
   * Stage that items of a list go, and others come in their place.
   * The list is the transcript, under `messages`, or a list under a key of the state.
   *
   * @example
   * session.splice("messages", 0, 2, { role: "system", content: "Order 42 is late." });
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
   * Stage the difference between a whole state and the present one.
   * Parts that are not given stay as they are.
   *
   * @example
   * session.save({ messages: [{ role: "user", content: "hi" }], state: { phase: "search" } });
   */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: Partial<S> }): void {
    this.#held.usable();
    this.#work.save(whole);
  }

  // ---- calls

  /**
   * Make a call that survives a crash.
   * Its result is in the journal before this resolves (with the next commit, if repeating it does
   * no harm), and the call is not made again. If its outcome is unknown, this throws IN_DOUBT until
   * you settle it.
   *
   * @example
   * const find = async ({ q }: { q: string }) => ({ text: `Results for ${q}` });
   * const page = await session.effect("search", { q: "kelp" }, { mode: "repeatable" }, find);
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
   * Ask a model; its reply is durable when this resolves.
   * After a crash, a program that asks again at the same place is given that reply. The place is
   * the branch, the last message, the state, and how many replies this holder was given there. Once
   * a later save has changed messages or state, the model is asked again. With a `key`, the key
   * alone decides.
   *
   * @example
   * const reply = await session.model(async ({ messages }) => ({ text: `#${messages.length}` }));
   * session.append({ role: "assistant", content: reply.text });
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

  /**
   * List the calls that are not over.
   * A process ended in the middle of them, they wait for a decision, or their outcome is unknown.
   *
   * @example
   * for (const { effectId, name } of await session.unfinished()) console.log(effectId, name);
   */
  async unfinished(): Promise<readonly Pending[]> {
    if (this.#held.ended?.code === "CLOSED") throw this.#held.ended;
    const { fold, past } = this.#work;
    return Promise.all(
      fold.inFlight.open.map((effect) => pendingOf(this.#held.ctx, this.id, past, effect)),
    );
  }

  // ---- saving

  /**
   * Make all that is staged durable, with a checkpoint at its end.
   *
   * @example
   * const before = await session.checkpoint("before the refund");
   * await session.rewind(before.id);
   */
  async checkpoint(label?: string | CheckpointOptions): Promise<Checkpoint> {
    this.#held.usable();
    return this.#held.checkpoint(checkOptions(label));
  }

  /**
   * Tell whether a strategy wants a checkpoint here, in a loop of your own.
   * It answers from what came since the last checkpoint, staged work included, and so the same
   * after a crash. If nothing came since, it answers false.
   *
   * @example
   * if (session.shouldCheckpoint({ everyMessages: 10 })) await session.checkpoint();
   */
  shouldCheckpoint(strategy: Strategy = "after-tool"): boolean {
    this.#held.usable();
    const wanted = placement(strategy);
    const since = new SinceCheckpoint(this.#held.ctx, this.#work, this.#work.fold.step + 1);
    return since.isAny && wanted.isDue(since);
  }

  /**
   * End the session's work as completed, with a checkpoint.
   * `at` is a label for that checkpoint, or options.
   *
   * @example
   * await session.complete({ answer: 42 });
   */
  async complete(output?: Json, at?: string | CheckpointOptions): Promise<void> {
    await this.#finish("complete", at, {
      output: output === undefined ? undefined : encode(output, "output").value,
    });
  }

  /**
   * End the session's work as failed, with a checkpoint.
   *
   * @example
   * await session.fail("The provider refused.");
   */
  async fail(reason: string, at?: string | CheckpointOptions): Promise<void> {
    await this.#finish("fail", at, { reason: checkText(reason, "reason", MAX_REASON) });
  }

  /**
   * Set the session's work aside as halted, with a checkpoint.
   *
   * @example
   * await session.halt("It makes no progress.");
   */
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
    const begun = this.#work.fold.inFlight.open.filter(
      (effect) => effect.phase === "begun" && acts(effect),
    );
    const [first] = begun;
    if (first === undefined) return;
    const isHere = ({ id }: Effect) => this.#held.ctx.running.has(id);
    // From here on a person can see them and settle them. A keyed call can still be made again
    // under its key.
    const lost = begun.filter((effect) => effect.mode === "once" && !isHere(effect));
    for (const { id } of lost) this.#work.inFlight({ effect: { id, is: "doubt", inside: true } });
    if (lost.length > 0) {
      restate(this.#work);
      await this.#held.commit();
    }
    throw stillOpen(this.id, first, isHere(first));
  }

  // ---- history

  /**
   * List every message ever appended to this session's past, newest first.
   * It includes those that a splice has taken out.
   *
   * @example
   * const { items, next } = await session.history({ limit: 100 });
   */
  async history(o?: HistoryOptions): Promise<Page<Message>> {
    const { before, limit, cursor } = options(o, "history", ["before", "limit", "cursor"]);
    const upTo = Math.min(
      // What is on its way to the store is not there yet.
      this.#held.storedUpTo,
      before === undefined ? MAX_SEQ : wholeNumber(before, "before", 1, MAX_SEQ + 1) - 1,
      cursor === undefined ? MAX_SEQ : numberOf(cursor, "m") - 1,
    );
    return historyOf(this.#held.ctx, this.#work.past, upTo, limitOf(limit, "limit"));
  }

  // ---- branches

  /**
   * Make and open a session that begins at a checkpoint of this session, or of any other.
   * Nothing is copied.
   *
   * @example
   * const { id } = await session.checkpoint();
   * await using whatIf = await session.fork(id, { id: "research-7b" });
   */
  async fork(at: string, o?: ForkOptions): Promise<Session<S>> {
    this.#held.usable();
    const fields = options(o, "fork", ["id", "effects"]);
    const { effects } = fields;
    const id = idOrDrawn(fields, "id", () => this.#held.ctx.newSessionId());
    const policy = checkPolicy(effects);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    // The state at the newest checkpoint is in memory already, unless something was staged since.
    const { fold, end, past, latest } = this.#work;
    const here = place.branch === this.#held.branch && place.seq === fold.seq && this.#held.isQuiet;
    const from = here ? { fold: fold.copy(), end, past, latest } : undefined;
    return (await this.#openFork(place, id, policy, from)) as unknown as Session<S>;
  }

  /**
   * Put this session back to one of its checkpoints, on a new branch.
   * The old branch keeps what came after. The answer names the calls that had already been made:
   * one on the new branch that equals one of these waits for a decision, unless `effects` says
   * otherwise.
   *
   * @example
   * const { before, passed } = await session.rewind("7k3fa1b2c4d5e6f7-12", { effects: "replay" });
   */
  async rewind(at: string, o?: RewindOptions): Promise<RewindReport> {
    return rewind(this.#held, at, checkPolicy(options(o, "rewind", ["effects"]).effects));
  }

  /**
   * Switch this session to the branch of one of its checkpoints, at the branch's end.
   *
   * @example
   * await session.switchBranch("7k3fa1b2c4d5e6f7-20");
   */
  async switchBranch(at: string): Promise<void> {
    await switchBranch(this.#held, at);
  }

  // ---- the end

  /**
   * Let go of the session.
   * If staged work was not saved, this throws, unless you discard it.
   *
   * @example
   * await session.close({ discard: true });
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
