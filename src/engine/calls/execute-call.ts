/**
 * Makes the calls of one held session. What may be done about a call is decided in
 * core/effects/effect.ts; here it is done, and nothing is begun before the journal says so (EFFECT-1).
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  acts,
  type Effect,
  type EffectEvent,
  nextMove,
  type Outcome,
  type WaitsFor,
} from "../../core/effects/effect.js";
import type { Owner } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type Encoded, encode, type Json } from "../../core/values/json.js";
import { isoTime } from "../../core/values/time.js";
import type { StoreContext } from "../journal/store-context.js";
import type { Settlement } from "../records/rows.js";
import type { HeldSession } from "../session/held-session.js";
import { type Attempted, attempt, type Handle } from "./attempt.js";
import { backoff, type CallOptions, type CheckRequest, type Settled } from "./call-options.js";
import { readCheckAnswer, whyCheckFailed } from "./check-answer.js";
import { lateId } from "./decisions.js";

/** A call to be made. */
export interface Call {
  readonly name: string;
  readonly input: Json;
  readonly inputDigest: string;
  /** Written into the intent: only where the transcript does not hold it. */
  readonly keepsInput: boolean;
  readonly named: string | undefined;
  /** A call of `session.model`, and not of a tool. */
  readonly model?: true;
  readonly place: readonly [reply: number, index: number] | undefined;
  readonly options: CallOptions;
  readonly run: (call: {
    readonly handle: Handle;
    readonly effect: Effect;
    readonly input: Json;
    readonly attempt: number;
  }) => unknown;
  readonly check:
    | ((request: Omit<CheckRequest, "context">) => Promise<Settled<unknown>>)
    | undefined;
}

/** What became of a call, and is still to be recorded. */
export interface Finished {
  readonly is: "finished";
  readonly outcome: Outcome;
  /** The output, or what is said of the error. */
  readonly body: Encoded;
  readonly by?: string;
  /** The call in a past that was left which it was answered from. */
  readonly from?: string;
  /** What it threw, where it ended that way just now. */
  readonly error?: unknown;
  /** It was made, although its outcome is an error. */
  readonly happened?: true;
}

export type Made =
  | Finished
  /** It is in the journal. */
  | { readonly is: "done"; readonly effect: Effect }
  | { readonly is: "waits"; readonly waits: WaitsFor }
  | { readonly is: "waiting" }
  /** `why`: what keeps `check` from having said it. */
  | { readonly is: "doubt"; readonly error: unknown; readonly why?: string | undefined }
  /** Until then, by the store's clock, another process may be inside it. */
  | { readonly is: "pause"; readonly until: number }
  | { readonly is: "stopped" };

/**
 * An attempt is given so much more than its time, for its record to become durable before it
 * begins.
 */
const COMMIT_MS = 1_000;
/** How often `check` may send a call back to be made again, by one holder. */
const RETRIES = 3;

export class CallExecutor {
  readonly #held: HeldSession;
  /** Aborts when nothing more is to be begun. */
  readonly #stop: AbortSignal;

  constructor(held: HeldSession, stop: AbortSignal) {
    this.#held = held;
    this.#stop = stop;
  }

  get #ctx(): StoreContext {
    return this.#held.ctx;
  }

  /** Stages the intent of a call: with the commit that follows it is begun, unless it waits. */
  intend(
    { name, input, inputDigest, keepsInput, named, place, options }: Call,
    waits: WaitsFor | undefined,
  ): Effect {
    const { work } = this.#held;
    const id = work.newEffectId();
    if (waits === undefined) this.#tellHolder();
    const event: EffectEvent = {
      id,
      is: "intent",
      name,
      mode: options.mode,
      key: randomUUID(),
      ...(named !== undefined && { named }),
      ...(place !== undefined && { call: place }),
      inputDigest,
      ...(options.keyValidMs !== undefined && { validMs: options.keyValidMs }),
      ...(waits === undefined ? { attempt: this.#attempt(1, options) } : { waits }),
    };
    work.inFlight({ effect: event }, keepsInput ? encode(input, "input") : undefined);
    return work.fold.inFlight.get(id) as Effect;
  }

  /** Who begins calls from here on, so that another process can tell whether it still lives. */
  #tellHolder(): void {
    const { self } = this.#ctx.machine;
    if (this.#held.work.fold.inFlight.holder?.nonce !== self.nonce)
      this.#held.work.inFlight({ held: self });
  }

  #attempt(no: number, { timeoutMs }: CallOptions) {
    return {
      no,
      at: this.#ctx.nowAbout(),
      wall: this.#ctx.wallMs(),
      forMs: timeoutMs + COMMIT_MS,
    };
  }

  /**
   * Makes a call, or finds out what became of it. `fresh`: its intent was committed just now, by
   * this holder.
   */
  async make(id: string, call: Call, { fresh }: { readonly fresh: boolean }): Promise<Made> {
    let tries = 0;
    let rechecks = 0;
    let asked = false;
    let mustRun = fresh;
    let inside = false;
    let error: unknown;
    let why: string | undefined;
    /**
     * Of an attempt before this one nobody knows what became: that the next did nothing is then no
     * outcome.
     */
    let isOpen = !fresh && this.#held.work.fold.inFlight.get(id)?.phase !== "ready";
    for (;;) {
      const known = this.#held.work.fold.inFlight.get(id);
      if (known === undefined) return { is: "stopped" };
      if (this.#stop.aborted) return this.#stopped(known, isOpen);
      // Of what does no harm the journal does not say that it was begun: without this it would be
      // run again without end.
      const effect: Effect =
        tries > 0 && known.phase === "ready" && !acts(known) ? { ...known, phase: "begun" } : known;
      const holder = tries > 0 ? "ended" : this.#holderOf(effect);
      const move =
        mustRun && effect.phase !== "done"
          ? ({ do: "run" } as const)
          : nextMove(effect, {
              holder,
              now: this.#ctx.nowAbout(),
              wall: this.#ctx.wallMs(),
              triesLeft: tries < call.options.retry.attempts,
              canCheck: call.check !== undefined && !asked,
            });
      switch (move.do) {
        case "answer":
          return { is: "done", effect };
        case "wait":
          return { is: "waiting" };
        case "pause":
          return { is: "pause", until: move.until };
        case "doubt":
          return { is: "doubt", error, why };
        case "fail":
          return { ...failed(error, this.#cleaned(call)), error };
        case "check": {
          asked = true;
          const settled = await this.#check(
            effect,
            call,
            holder === "unknown" || inside ? "unknown" : "dead",
          );
          if (settled.is === "finished") return settled;
          if (settled.is === "unknown") {
            ({ why } = settled);
            continue;
          }
          rechecks += 1;
          if (rechecks > RETRIES)
            return {
              is: "doubt",
              error,
              why: `The check of ${quote(call.name)} asked for another attempt ${RETRIES} times.`,
            };
          mustRun = true;
          isOpen = false;
          continue;
        }
        case "run":
          break;
      }
      const begun = fresh && tries === 0 ? effect : await this.#begin(effect, call);
      if (begun === undefined) return { is: "stopped" };
      // EFFECT-2: an inbox message may have said what became of it while that was being saved.
      if (begun.phase === "done") continue;
      mustRun = false;
      asked = false;
      tries += 1;
      const attempted = await this.#run(begun, call);
      switch (attempted.is) {
        case "stopped":
          return this.#stopped(begun, isOpen || attempted.begun);
        case "suspended":
          return { is: "waits", waits: attempted.waits };
        case "answered":
          return finished(attempted.value, this.#cleaned(call));
        case "not-done":
          ({ error } = attempted);
          if (isOpen && acts(effect)) break;
          if (tries >= call.options.retry.attempts)
            return { ...failed(error, this.#cleaned(call)), error };
          // Nothing happened: whatever its mode, it may be made again.
          mustRun = true;
          break;
        case "unknown":
          ({ error } = attempted);
          // It stays inside, whatever the next attempt does.
          inside ||= attempted.inside;
          isOpen = true;
          if (attempted.final) tries = call.options.retry.attempts;
          break;
      }
      if (tries < call.options.retry.attempts)
        await sleep(backoff(call.options.retry, tries), undefined, { signal: this.#stop }).catch(
          () => {},
        );
    }
  }

  /**
   * Where nothing of a call has happened, only this process knows that: it is left as one that can
   * be made.
   */
  async #stopped(effect: Effect, isOpen: boolean): Promise<Made> {
    if (!isOpen && acts(effect) && (effect.phase === "begun" || effect.phase === "doubt"))
      await this.#sayLate(effect, { retry: true });
    return { is: "stopped" };
  }

  /**
   * Asks what became of a call, and does not make it again: that it did not happen is its outcome.
   */
  async ask(id: string, call: Call): Promise<Made> {
    const effect = this.#held.work.fold.inFlight.get(id);
    if (effect === undefined || this.#stop.aborted) return { is: "stopped" };
    const holder = this.#holderOf(effect);
    const clock = { now: this.#ctx.nowAbout(), wall: this.#ctx.wallMs() };
    const move = nextMove(effect, {
      holder,
      ...clock,
      triesLeft: false,
      canCheck: call.check !== undefined,
    });
    if (move.do === "answer") return { is: "done", effect };
    if (move.do === "pause") return { is: "pause", until: move.until };
    if (move.do !== "check") return { is: "doubt", error: undefined };
    const settled = await this.#check(effect, call, holder === "unknown" ? "unknown" : "dead");
    if (settled.is === "unknown") return { is: "doubt", error: undefined, why: settled.why };
    return settled.is === "retry"
      ? {
          ...failed("It did not happen, and was not made again: its turn is over.", undefined),
          by: "check",
        }
      : settled;
  }

  /**
   * EFFECT-1: the journal says that it is begun again, before it is. Of what does no harm it need not say
   * so.
   */
  async #begin(effect: Effect, { options }: Call): Promise<Effect | undefined> {
    if (acts(effect)) {
      this.#tellHolder();
      this.#held.work.inFlight({
        effect: {
          id: effect.id,
          is: "begun",
          attempt: this.#attempt((effect.attempt?.no ?? 0) + 1, options),
        },
      });
      await this.#held.commitStep();
    }
    return this.#held.work.fold.inFlight.get(effect.id);
  }

  /**
   * What a call answered, as it is stored: whoever is given it now sees what a resumed run will.
   */
  #cleaned({ name }: Pick<Call, "name">): Cleaned {
    const { redactor } = this.#ctx;
    return redactor && ((body) => redactor.encoded(body, { in: "tool-output", name }, "output"));
  }

  #run(effect: Effect, { options, run, input, name }: Call): Promise<Attempted> {
    const { id } = effect;
    const cleaned = this.#cleaned({ name });
    const no = effect.attempt?.no ?? 1;
    // Counted from what the journal says: that is when others will think that it has ended.
    const { attempt: begun } = effect;
    const untilOver =
      acts(effect) && begun !== undefined
        ? begun.at + begun.forMs - this.#ctx.nowAbout()
        : options.timeoutMs;
    const leftMs = Math.min(options.timeoutMs, untilOver);
    return attempt(this.#ctx, {
      id,
      leftMs,
      stop: this.#stop,
      run: (handle) => run({ handle, effect, input, attempt: no }),
      late: (answered) =>
        this.late(
          effect,
          answered.is === "answered"
            ? finished(answered.value, cleaned)
            : failed(answered.error, cleaned),
        ),
    });
  }

  /** What is known too late to be recorded here goes to whoever holds the session now, or next. */
  async late(effect: Effect, { outcome, body, happened }: Finished): Promise<void> {
    if (!acts(effect)) return;
    const as: Settlement =
      outcome === "ok"
        ? { output: body.value }
        : { error: String(body.value), ...(happened && { happened }) };
    await this.#sayLate(effect, as);
  }

  async #sayLate({ id, attempt }: Effect, as: Settlement): Promise<void> {
    const no = attempt?.no ?? 1;
    await this.#ctx.postLate(
      this.#held.id,
      { kind: "late", effectId: id, attempt: no, as },
      { id: lateId(id, no) },
    );
  }

  #holderOf({ id, holder, holders = [], phase }: Effect): "dead" | "unknown" {
    if (phase !== "begun" && phase !== "doubt") return "dead";
    const { machine, store, running } = this.#ctx;
    if (running.has(id) || holder === undefined) return "unknown";
    const isGone = (owner: Owner) =>
      owner.nonce === machine.self.nonce || machine.isDead(owner, store.traits.oneMachine);
    return [...holders, holder].every(isGone) ? "dead" : "unknown";
  }

  async #check(
    { key, attempt: last, since }: Effect,
    { check, input, name }: Call,
    holder: "dead" | "unknown",
  ): Promise<
    Finished | { readonly is: "retry" } | { readonly is: "unknown"; readonly why?: string }
  > {
    let answer: unknown;
    try {
      answer = await check?.({ key, input, startedAt: isoTime(last?.wall ?? since), holder });
    } catch (thrown) {
      return { is: "unknown", why: whyCheckFailed(name, thrown) };
    }
    const settled = readCheckAnswer(name, answer);
    const cleaned = this.#cleaned({ name });
    switch (settled.is) {
      case "output":
        return { ...finished(settled.output, cleaned), by: "check" };
      case "error":
        return { ...failed(settled.error, cleaned), by: "check" };
      default:
        return settled;
    }
  }
}

/**
 * The call was made: where its output cannot be kept, that is what is said of it. It is not made
 * again for that.
 */
export function finished(value: unknown, cleaned: Cleaned): Finished {
  try {
    const body = encode(value === undefined ? null : value, "output");
    return { is: "finished", outcome: "ok", body: cleaned?.(body) ?? body };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    return {
      ...failed(`The call was made, but its output could not be kept: ${error.message}`, cleaned),
      error,
      happened: true,
    };
  }
}

/** Makes of a body what is stored of it; undefined where that is the body itself. */
type Cleaned = ((body: Encoded) => Encoded) | undefined;

export function failed(error: unknown, cleaned: Cleaned): Finished {
  let body = encode(words(error), "error");
  try {
    body = cleaned?.(body) ?? body;
  } catch {
    // What cannot be redacted is not stored; that it failed is.
    body = encode("It failed, and what it said could not be redacted.", "error");
  }
  return { is: "finished", outcome: "error", body };
}

const MAX_WORDS = 100_000;

/** What an error says, as text that can be stored. */
export function words(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? error.message || error.name : String(error);
  } catch {
    text = "an error that cannot be shown";
  }
  return (text.length > MAX_WORDS ? `${text.slice(0, MAX_WORDS)}…` : text).toWellFormed();
}
