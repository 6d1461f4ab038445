/**
 * Calls of a session by hand: each has a name of the caller's, or, where repeating it does no harm,
 * a place.
 *
 * PLACE-1  a recorded answer is dropped by the next save that changes messages or state
 *          (core/effects/in-flight.ts).
 * PLACE-2  a place is the branch, the number of the last message, a digest of the state, the call,
 *          and how many answers this holder was already given there. A checkpoint does not change
 *          it. A call that fails does not count.
 * PLACE-3  where a place cannot tell two calls apart, the call is made again: an answer paid for
 *          twice is better than a wrong one.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  acts,
  differs,
  type Effect,
  isFailed,
  keyAt,
  NotDone,
  valueDigest,
} from "../../core/effects/effect.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import type { HeldSession } from "../session/held-session.js";
import { restate } from "../session/settle-calls.js";
import { callback, invalid, options } from "../util/validate.js";
import { attempt } from "./attempt.js";
import { outputOf } from "./bodies.js";
import {
  backoff,
  type CheckRequest,
  callOptions,
  type Retry,
  type Settled,
} from "./call-options.js";
import { standstillOf } from "./doubt-restored.js";
import { type Call, CallExecutor, type Finished, finished, type Made } from "./execute-call.js";
import { Repeats } from "./repeats.js";

/** What may be done with a call of `session.effect` after a crash. */
export type EffectOptions<A, R> = (
  | { readonly mode: "repeatable"; readonly key?: string; readonly check?: never }
  | {
      readonly mode: "keyed" | "once";
      /**
       * The caller's own name for this very act: the same name is the same act, also after a crash.
       */
      readonly key: string;
      /** Asked when nobody knows whether it happened. */
      readonly check?: (
        request: Omit<CheckRequest<A>, "context">,
      ) => Promise<Settled<R>> | Settled<R>;
    }
) & { readonly timeoutMs?: number; readonly retry?: Retry; readonly keyValidMs?: number };

export interface ModelOptions {
  /**
   * Your own name for this question: the same name is given the same answer, also after a crash.
   */
  readonly key?: string;
}

type Ask = (context: {
  readonly key: string;
  readonly signal: AbortSignal;
  readonly messages: readonly unknown[];
}) => unknown;

type Run = (
  input: Json,
  context: { readonly key: string; readonly signal: AbortSignal },
) => unknown;

export class SessionEffects {
  readonly #held: HeldSession;
  readonly #executor: CallExecutor;
  readonly #repeats: Repeats;
  /**
   * Keys of calls without a name that are being made, and of those whose answers this holder was
   * given.
   */
  readonly #asked = new Set<string>();
  readonly #given = new Set<string>();
  #asking = 0;
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor(held: HeldSession) {
    this.#held = held;
    this.#executor = new CallExecutor(held, held.signal);
    this.#repeats = new Repeats(held);
  }

  async effect(
    name: unknown,
    input: unknown,
    given: EffectOptions<never, unknown>,
    run: Run,
  ): Promise<Json> {
    this.#held.usable();
    const tool = checkName(name, "effect name");
    const o = options(given as EffectOptions<unknown, unknown>, "effect", [
      "mode",
      "key",
      "check",
      "timeoutMs",
      "retry",
      "keyValidMs",
    ]);
    const checked = callOptions(o, "effect");
    if (callback(run, "effect run") === undefined)
      throw invalid("effect run", "it must be a function");
    if (o.key === undefined && acts(checked))
      throw invalid(
        "effect.key",
        `a ${checked.mode} call by hand needs a key of yours, by which it is known again after a crash`,
      );
    const check = callback(o.check, "effect.check") as EffectOptions<unknown, unknown>["check"];
    const encoded = encode(input, "input");
    const { value } =
      this.#held.ctx.redactor?.encoded(encoded, { in: "tool-input", name: tool }, "input") ??
      encoded;
    const call: Call = {
      name: tool,
      input: value,
      inputDigest: valueDigest(value),
      keepsInput: true,
      named: o.key === undefined ? undefined : checkName(o.key, "effect.key"),
      place: undefined,
      options: checked,
      run: ({ effect, input: given, handle }) =>
        run(given, { key: effect.key, signal: handle.signal }),
      check: check && (async (request) => check(request)),
    };
    if (call.named === undefined) return this.#passing(call, run, async () => {});
    return this.#once(`${tool}\n${call.named}`, () => this.#named(call, call.named as string));
  }

  /**
   * Asks a model. What it answered is durable when this resolves, and is not asked for again after
   * a crash.
   */
  async model(run: Ask, given?: ModelOptions): Promise<Json> {
    this.#held.usable();
    if (callback(run, "model") === undefined) throw invalid("model", "it must be a function");
    const { key } = options(given, "model", ["key"]);
    const call: Call = {
      name: "model",
      input: null,
      inputDigest: valueDigest(null),
      keepsInput: false,
      named: key === undefined ? undefined : checkName(key, "model.key"),
      model: true,
      place: undefined,
      options: callOptions({ mode: "repeatable" }, "model"),
      run: () => undefined,
      check: undefined,
    };
    const { named } = call;
    const ask: Run = (_input, context) =>
      run({ ...context, messages: this.#held.work.fold.messages });
    const commit = async () => {
      await this.#held.commit();
    };
    return this.#whileAsking(() =>
      named === undefined
        ? this.#passing(call, ask, commit)
        : this.#once(`\n${named}`, () => this.#namedReply(call, named, ask, commit)),
    );
  }

  /** Messages from outside wait meanwhile: the model answers the transcript as it stands. */
  async #whileAsking<T>(ask: () => Promise<T>): Promise<T> {
    this.#asking += 1;
    this.#held.inbox.isAsking = true;
    try {
      return await ask();
    } finally {
      // The caller appends the reply when this resolves, and it comes before what others have said
      // meanwhile.
      setImmediate(() => {
        this.#asking -= 1;
        if (this.#asking === 0) this.#held.inbox.isAsking = false;
      });
    }
  }

  /** The key alone decides. */
  async #namedReply(
    call: Call,
    named: string,
    ask: Run,
    commit: () => Promise<void>,
  ): Promise<Json> {
    const known = this.#held.work.fold.inFlight.reply(named);
    if (known !== undefined) {
      const answer = await outputOf(this.#held.ctx, known);
      await commit();
      return answer;
    }
    const key = keyAt("model", this.#held.id, named);
    const made = await this.#repeat(call, key, ask);
    this.#held.usable();
    this.#record(call, key, undefined, made);
    await commit();
    return made.body.value;
  }

  /** Two that ask for the same at once are given the same answer. */
  async #once(what: string, make: () => Promise<Json>): Promise<Json> {
    const before = this.#underWay.get(what);
    if (before !== undefined) {
      await before.catch(() => {});
      return this.#once(what, make);
    }
    const made = make();
    this.#underWay.set(what, made);
    try {
      return await made;
    } finally {
      this.#underWay.delete(what);
    }
  }

  // ---- without a name

  /** `commit`: what is to be done before the answer counts as given. */
  async #passing(call: Call, run: Run, commit: () => Promise<void>): Promise<Json> {
    const key = this.#placeKey(call);
    this.#asked.add(key);
    try {
      const answer = await this.#answerAt(call, key, run);
      await commit();
      this.#given.add(key);
      return answer;
    } finally {
      this.#asked.delete(key);
    }
  }

  async #answerAt(call: Call, key: string, run: Run): Promise<Json> {
    const known = this.#held.work.fold.inFlight.passing(key);
    if (known !== undefined) return outputOf(this.#held.ctx, known);
    const made = await this.#repeat(call, key, run);
    this.#held.usable();
    this.#record(call, key, undefined, made);
    return made.body.value;
  }

  /**
   * PLACE-2. An answer that was dropped no longer counts: the next holder does not know of it
   * either.
   */
  #placeKey({ name, inputDigest, model }: Call): string {
    const { fold } = this.#held.work;
    const { inFlight } = fold;
    if (this.#given.size > MAX_GIVEN)
      for (const key of this.#given)
        if (inFlight.passing(key) === undefined) this.#given.delete(key);
    for (let nth = 0; ; nth++) {
      const key = keyAt(
        this.#held.branch,
        fold.lastMessage,
        fold.stateDigest,
        model ? "model" : "effect",
        name,
        inputDigest,
        nth,
      );
      const isGiven = this.#given.has(key) && inFlight.passing(key) !== undefined;
      if (!isGiven && !this.#asked.has(key)) return key;
    }
  }

  async #repeat(
    { name, options: { retry, timeoutMs }, input }: Call,
    key: string,
    run: Run,
  ): Promise<Finished> {
    const { redactor } = this.#held.ctx;
    for (let tries = 1; ; tries++) {
      const attempted = await attempt(this.#held.ctx, {
        id: key,
        leftMs: timeoutMs,
        stop: this.#held.signal,
        run: ({ signal }) => run(input, { key, signal }),
        late: async () => {},
      });
      if (attempted.is === "answered") {
        const made = finished(
          attempted.value,
          redactor && ((body) => redactor.encoded(body, { in: "tool-output", name }, "output")),
        );
        if (made.error !== undefined) throw made.error;
        return made;
      }
      if (attempted.is === "stopped" || attempted.is === "suspended") throw this.#stopped();
      if (tries >= retry.attempts) throw attempted.error;
      await sleep(backoff(retry, tries), undefined, { signal: this.#held.signal }).catch(() => {});
    }
  }

  /** Rides with the next commit: an intent and its outcome at once. */
  #record(
    { name, inputDigest, named, model, options: { mode } }: Call,
    key: string,
    from: string | undefined,
    { body, outcome, happened }: Finished,
  ): void {
    const { work } = this.#held;
    const id = work.newEffectId();
    work.inFlight({
      effect: {
        id,
        is: "intent",
        name,
        mode,
        key,
        ...(named !== undefined && { named }),
        inputDigest,
        ...(model && { model }),
      },
    });
    work.inFlight(
      {
        effect: {
          id,
          is: "done",
          outcome,
          ...(from !== undefined && { from }),
          ...(happened && { happened }),
        },
      },
      body,
    );
  }

  // ---- by name

  async #named(call: Call, named: string): Promise<Json> {
    const { ctx } = this.#held;
    const known = this.#held.work.fold.inFlight.named(call.name, named);
    if (known !== undefined && differs(known.inputDigest, call.inputDigest) && !isFailed(known))
      throw otherInput(known, named);
    if (known?.outcome === "ok") return outputOf(ctx, known);
    if (known?.happened) throw notKept(known, await outputOf(ctx, known));
    if (acts(known ?? call.options)) await this.#refuseStandstill();
    if (known !== undefined && known.phase !== "done") return this.#goOn(known.id, call, false);
    if (!acts(call.options)) {
      const key = keyAt(this.#held.id, call.name, named);
      const made = await this.#repeat(call, key, (input, context) =>
        call.run({
          handle: {
            signal: context.signal,
            suspend: neverSuspends,
            stopped: neverSuspends,
            outOfTime: (wait) => wait(),
          },
          effect: { key } as Effect,
          input,
          attempt: 1,
        }),
      );
      this.#held.usable();
      this.#record(call, key, undefined, made);
      return made.body.value;
    }
    const repeat = await this.#repeats.find({
      name: call.name,
      inputDigest: call.inputDigest,
      named,
    });
    this.#held.usable();
    if (repeat?.replays) {
      const { replays } = repeat;
      const value = await outputOf(ctx, replays);
      const { outcome = "ok", happened } = replays;
      this.#record(call, replays.key, replays.id, {
        ...finished(value, undefined),
        outcome,
        ...(happened && { happened }),
      });
      await this.#held.commit();
      if (outcome === "ok") return value;
      throw new NotDone(String(value));
    }
    const effect = this.#executor.intend(call, repeat?.waits);
    if (repeat !== undefined) restate(this.#held.work);
    await this.#held.commit();
    return this.#goOn(effect.id, call, repeat === undefined);
  }

  /** What came with a copy of its store acts only once somebody has said so. */
  async #refuseStandstill(): Promise<void> {
    const standstill = await standstillOf(this.#held, "act");
    if (standstill !== undefined)
      throw new HoldfastError(
        "IN_DOUBT",
        `Session ${quote(this.#held.id)} came with a copy of its store, and the original may have gone on with it. Look where its calls act, then settle ${standstill.id} with { retry: true } to go on here, or with an error to end it.`,
        { sessionId: this.#held.id, effectId: standstill.id },
      );
  }

  async #goOn(id: string, call: Call, fresh: boolean): Promise<Json> {
    for (;;) {
      const made = await this.#executor.make(id, call, { fresh });
      if (made.is !== "pause") return this.#settle(id, made);
      const ms = Math.max(1, made.until - this.#held.ctx.nowAbout());
      await sleep(Math.min(ms, LOOK_MS), undefined, { signal: this.#held.signal }).catch(() => {});
      await this.#held.inbox.takeInbox({ ends: true }).catch(() => {});
    }
  }

  async #settle(id: string, made: Exclude<Made, { is: "pause" }>): Promise<Json> {
    const { work, ctx } = this.#held;
    const effect = work.fold.inFlight.get(id) as Effect;
    switch (made.is) {
      case "stopped":
        throw this.#stopped();
      case "done":
        if (made.effect.outcome === "ok") return outputOf(ctx, made.effect);
        if (made.effect.happened) throw notKept(made.effect, await outputOf(ctx, made.effect));
        throw new NotDone(String(await outputOf(ctx, made.effect)));
      case "waits":
      case "waiting":
        throw waitsForPerson(effect, this.#held.id);
      case "doubt":
        if (effect.phase !== "doubt") {
          work.inFlight({
            effect: { id, is: "doubt", ...(made.why !== undefined && { why: made.why }) },
          });
          restate(work);
          await this.#held.commit();
        }
        throw inDoubt(effect, this.#held.id, made.why, made.error);
      case "finished": {
        const { outcome, by, body, error, happened } = made;
        work.inFlight(
          {
            effect: {
              id,
              is: "done",
              outcome,
              ...(by !== undefined && { by }),
              ...(happened && { happened }),
            },
          },
          body,
        );
        restate(work);
        try {
          await this.#held.commitSurely();
        } catch (failure) {
          await this.#executor.late(effect, made);
          throw failure;
        }
        if (outcome === "ok") return body.value;
        throw error ?? new NotDone(String(body.value));
      }
    }
  }

  #stopped(): unknown {
    return (
      this.#held.ended ??
      this.#held.signal.reason ??
      new HoldfastError("CLOSED", `Session ${quote(this.#held.id)} has been closed.`, {
        sessionId: this.#held.id,
      })
    );
  }
}

/**
 * How often it is looked whether a call that another may be inside of is over: somebody may say so.
 */
const LOOK_MS = 1_000;
/** From so many on, keys of answers that were dropped are forgotten. */
const MAX_GIVEN = 1_000;

const neverSuspends = () => new Promise<never>(() => {});

/** The call was made, so that it is not made again; what it answered is lost. */
const notKept = ({ id }: Effect, says: Json): HoldfastError =>
  new HoldfastError("INVALID_VALUE", String(says), { path: "output", effectId: id });

function otherInput({ id, name }: Effect, named: string): HoldfastError {
  return new HoldfastError(
    "CONFLICT",
    `${quote(name)} was called under the key ${quote(named)} with another input before. One key names one act: choose another.`,
    { effectId: id },
  );
}

function waitsForPerson({ id, name, waits }: Effect, session: string): HoldfastError {
  const says =
    waits?.for === "repeat" && waits.uncertain
      ? `Session ${quote(session)} has left a past in which ${quote(name)} was called, and the input of that call was redacted or deleted: Holdfast cannot tell whether this call is the same.`
      : `${quote(name)} was made before, in a past that session ${quote(session)} has left.`;
  return new HoldfastError("WAITING", `${says} Approve, deny or settle ${id} to go on.`, {
    sessionId: session,
    effectId: id,
  });
}

function inDoubt(
  { id, name, key }: Effect,
  session: string,
  why: string | undefined,
  cause: unknown,
): HoldfastError {
  const reason = why === undefined ? "" : ` ${why}`;
  return new HoldfastError(
    "IN_DOUBT",
    `It is unknown whether ${quote(name)} happened (key ${key}).${reason} Look where it would have happened, then settle ${id} with its output, its error, or { retry: true }.`,
    { sessionId: session, effectId: id },
    cause,
  );
}
