/**
 * Effects: calls of tools, and what the journal knows of them. Pure, and the only place that
 * decides what may be done about a call.
 *
 * EFFECT-1  a call is begun only after its intent, or a later `begun`, is in the journal under the
 *           holder's epoch.
 * EFFECT-2  a call whose outcome is in the journal is never made again.
 * EFFECT-3  only a `keyed` call, and only while its key outlasts one more attempt, is made again
 *           without an answer to what became of it; a `once` call never is. What is in doubt is not
 *           made again without somebody's word.
 * EFFECT-4  while another process may still be inside a call, nothing is asked or done about it
 *           before its time has passed.
 * EFFECT-5  the key of a call is drawn once and stands in its intent. The mode it was begun with
 *           counts, whatever the code says today.
 */
import type { MessageInput } from "../messages/message.js";
import type { Owner } from "../sessions/lease.js";
import { type Digest, digest } from "../values/digest.js";
import { type Json, sortedText } from "../values/json.js";

/**
 * What Holdfast may do with a call after a crash.
 * `repeatable`: make it again. `keyed`: make it again under its key, while the key is valid.
 * `once`: at most once, and perhaps never.
 */
export type Mode = "repeatable" | "keyed" | "once";
export const MODES: readonly Mode[] = ["repeatable", "keyed", "once"];

/**
 * An error by which a tool says that nothing happened.
 * The call failed, and may be made anew. Any other error leaves open whether it happened.
 *
 * @example
 * const refund = tool({
 *   mode: "once",
 *   input: { type: "object" },
 *   run: async () => {
 *     throw new NotDone("There is no such order.");
 *   },
 * });
 */
export class NotDone extends Error {
  override readonly name = "NotDone";
}

/**
 * A person is asked first; the call equals one in a past that was left; it waits for a signal, or
 * for a child session.
 */
export type WaitsFor =
  | { readonly for: "approval" }
  /**
   * `uncertain`: the input of that call was redacted or deleted, so Holdfast cannot tell
   * whether this is the same call.
   */
  | { readonly for: "repeat"; readonly of: string; readonly uncertain?: true }
  /** `nth`: which of the waits for this name it is, where it is not the first. */
  | {
      readonly for: "signal";
      readonly name: string;
      readonly nth?: number;
      readonly until?: number;
    }
  | { readonly for: "child"; readonly session: string };

/** When an attempt began by the store's clock and by the wall's, and for how long it may last. */
export interface Attempt {
  readonly no: number;
  readonly at: number;
  readonly wall: number;
  readonly forMs: number;
}

/** A body in its record, or kept as a blob. */
export type Body = { readonly value: Json } | { readonly blob: Digest; readonly size: number };

export type Outcome = "ok" | "error" | "denied";

/** What is known of a call from its beginning, and does not change. */
interface Intent {
  readonly id: string;
  readonly name: string;
  readonly mode: Mode;
  readonly key: string;
  /** The caller's own name for it: the same name is the same call. */
  readonly named?: string;
  /** In the loop: the number of the reply that asks for it, and which of its calls it is. */
  readonly call?: readonly [reply: number, index: number];
  /** A digest of its input, or `UNKNOWN`. */
  readonly inputDigest: string;
  /** For how long its key keeps a second call from acting twice. */
  readonly validMs?: number;
  /**
   * No call of a tool: it stands for the session as a whole. While it is in doubt, nothing of the
   * session goes on.
   */
  readonly whole?: true;
  /** No call of a tool: a call of `session.model`. */
  readonly model?: true;
}

/**
 * What the journal says of a call, an event at a time. The body is the input of an intent or an
 * approval, the output of a `done`.
 */
export type EffectEvent = { readonly id: string } & (
  | (Intent & {
      readonly is: "intent";
      readonly waits?: WaitsFor;
      /** Absent while it waits. */
      readonly attempt?: Attempt;
    })
  | { readonly is: "begun"; readonly attempt: Attempt }
  | { readonly is: "waits"; readonly waits: WaitsFor }
  /**
   * `asked`: which time it waited, or was in doubt, a person has decided about. So in `retry` and
   * `done`.
   */
  | {
      readonly is: "approved";
      readonly by?: string;
      readonly note?: string;
      readonly asked?: number;
    }
  | { readonly is: "retry"; readonly by?: string; readonly asked?: number }
  | { readonly is: "signalled"; readonly name: string; readonly nth?: number }
  | { readonly is: "woken" }
  /**
   * `inside`: it was left there, and may say itself what became of it. `why`: what kept `check`
   * from having said it.
   */
  | { readonly is: "doubt"; readonly inside?: true; readonly why?: string }
  /**
   * `said`: the tool message that holds the output; `by`: a person, `check`, `late`; `from`: the
   * call in another past that it was answered from.
   */
  | {
      readonly is: "done";
      readonly outcome: Outcome;
      readonly said?: number;
      readonly by?: string;
      readonly from?: string;
      readonly asked?: number;
      /** With an error: the call was made all the same, and only its output could not be kept. */
      readonly happened?: true;
    }
);

type Phase =
  /** It may be under way, or was when its process ended. */
  | "begun"
  | "waiting"
  /** Nothing keeps it from being begun. */
  | "ready"
  /** Nobody knows whether it happened, and somebody must say. */
  | "doubt"
  | "done";

/** A call as it stands. */
export interface Effect extends Intent {
  readonly since: number;
  readonly phase: Phase;
  readonly waits?: WaitsFor;
  /** How often it has begun to wait, or to be in doubt: each time is one decision. */
  readonly asked?: number;
  /** Waits that are over and had a time to end. */
  readonly waited?: readonly WaitsFor[];
  readonly attempt?: Attempt;
  /** In doubt: its last attempt may not have ended. */
  readonly inside?: true;
  /** In doubt: what kept `check` from saying what became of it. */
  readonly why?: string;
  /** The first attempt: from then on its key counts. */
  readonly first?: Attempt;
  /** Who began the last attempt, and who began those before it. */
  readonly holder?: Owner;
  readonly holders?: readonly Owner[];
  /** Its input: of a call by hand, or as a person changed it. */
  readonly input?: Body;
  /** Signals that were given to it, in their order. */
  readonly signals?: readonly {
    readonly name: string;
    readonly nth?: number;
    readonly body: Body;
  }[];
  readonly outcome?: Outcome;
  readonly output?: Body;
  /** The number of the tool message that holds its output. */
  readonly said?: number;
  readonly by?: string;
  readonly from?: string;
  /** Its outcome is an error, and it was made all the same: it is not made again. */
  readonly happened?: true;
}

export interface EventContext {
  /** When the event was recorded, by the wall. */
  readonly at: number;
  readonly holder: Owner | undefined;
  readonly body: Body | undefined;
}

/**
 * The call after an event, or undefined where the event says nothing of a call that stands as this
 * one does.
 */
export function applyEvent(
  before: Effect | undefined,
  event: EffectEvent,
  { at, holder, body }: EventContext,
): Effect | undefined {
  if (event.is === "intent") return intended(event, at, holder, body);
  if (before === undefined || before.phase === "done") return undefined;
  const after: Mutable<Effect> = { ...before };
  const { waits } = before;
  const isOver = event.is !== "signalled" || (waits?.for === "signal" && waits.name === event.name);
  if (waits !== undefined && isOver) {
    // What it waited for is remembered: it is run again from its beginning, and a wait whose time
    // was up then must not begin anew. That somebody was asked about a repeat is worth knowing,
    // too.
    if (waits.for === "repeat" || (waits.for === "signal" && waits.until !== undefined))
      after.waited = [...(before.waited ?? []), waits];
    delete after.waits;
  }
  delete after.inside;
  delete after.why;
  switch (event.is) {
    case "begun":
      after.phase = "begun";
      after.attempt = event.attempt;
      after.first ??= event.attempt;
      // Whoever began it before may still be inside, past its time: that must be known when
      // somebody asks.
      if (
        before.holder !== undefined &&
        holder !== undefined &&
        before.holder.nonce !== holder.nonce
      )
        after.holders = [...(before.holders ?? []), before.holder].slice(-MAX_HOLDERS);
      if (holder !== undefined) after.holder = holder;
      return after;
    case "waits":
      after.phase = "waiting";
      after.waits = event.waits;
      after.asked = (before.asked ?? 0) + 1;
      return after;
    case "approved":
      after.phase = "ready";
      if (body !== undefined) after.input = body;
      return after;
    case "retry":
    case "woken":
      after.phase = "ready";
      return after;
    case "signalled": {
      const { name, nth } = event;
      after.signals = [
        ...(before.signals ?? []),
        { name, ...(nth !== undefined && { nth }), body: body as Body },
      ];
      if (waits !== undefined && isOver) after.phase = "ready";
      return after;
    }
    case "doubt":
      after.phase = "doubt";
      after.asked = (before.asked ?? 0) + 1;
      if (event.inside) after.inside = true;
      if (event.why !== undefined) after.why = event.why;
      return after;
    case "done":
      after.phase = "done";
      after.outcome = event.outcome;
      if (event.said !== undefined) after.said = event.said;
      if (event.by !== undefined) after.by = event.by;
      if (event.from !== undefined) after.from = event.from;
      if (event.happened) after.happened = true;
      if (body !== undefined) after.output = body;
      return after;
  }
}

const MAX_HOLDERS = 20;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function intended(
  {
    id,
    name,
    mode,
    key,
    named,
    call,
    inputDigest,
    validMs,
    whole,
    model,
    waits,
    attempt,
  }: Extract<EffectEvent, { is: "intent" }>,
  since: number,
  holder: Owner | undefined,
  input: Body | undefined,
): Effect {
  const phase = waits !== undefined ? "waiting" : attempt !== undefined ? "begun" : "ready";
  const effect: Mutable<Effect> = { id, name, mode, key, inputDigest, since, phase };
  if (named !== undefined) effect.named = named;
  if (call !== undefined) effect.call = call;
  if (validMs !== undefined) effect.validMs = validMs;
  if (whole) effect.whole = true;
  if (model) effect.model = true;
  if (waits !== undefined) {
    effect.waits = waits;
    effect.asked = 1;
  }
  if (input !== undefined) effect.input = input;
  if (attempt !== undefined) {
    effect.attempt = attempt;
    effect.first = attempt;
    if (holder !== undefined) effect.holder = holder;
  }
  return effect;
}

/** What somebody who holds the session knows of a call that is not done. */
export interface Situation {
  /**
   * Who began the last attempt: it has ended here and its outcome is not known, its process is
   * proven dead, or neither is known.
   */
  readonly holder: "ended" | "dead" | "unknown";
  /** The store's clock, by which attempts run out. */
  readonly now: number;
  readonly wall: number;
  /** Whether the code may be run once more, as far as its retries go. */
  readonly triesLeft: boolean;
  /** Whether `check` is there, and has not been asked since the last attempt. */
  readonly canCheck: boolean;
}

export type Move =
  | { readonly do: "answer" }
  | { readonly do: "wait" }
  | { readonly do: "run" }
  | { readonly do: "check" }
  /** Until then, by the store's clock, somebody else may be inside it. */
  | { readonly do: "pause"; readonly until: number }
  | { readonly do: "doubt" }
  /** Its last error is its outcome: only where running it again would do no harm. */
  | { readonly do: "fail" };

export function nextMove(effect: Effect, situation: Situation): Move {
  switch (effect.phase) {
    case "done":
      return { do: "answer" };
    case "waiting":
      return { do: "wait" };
    case "ready":
      return { do: "run" };
    case "doubt":
      if (!effect.inside) return { do: situation.canCheck ? "check" : "doubt" };
      break;
    case "begun":
      break;
  }
  const { holder, now, triesLeft, canCheck } = situation;
  if (effect.mode === "repeatable") return { do: triesLeft ? "run" : "fail" };
  const until = endOf(effect);
  if (holder === "unknown" && now < until) return { do: "pause", until };
  const mayRun = effect.phase === "begun" && effect.mode === "keyed" && triesLeft;
  if (mayRun && isKeyValid(effect, situation)) return { do: "run" };
  return { do: canCheck ? "check" : "doubt" };
}

/** When the last attempt must have ended, by the store's clock. */
export const endOf = ({ attempt }: Effect): number =>
  attempt === undefined ? 0 : attempt.at + attempt.forMs;

/**
 * Whether whoever was called still knows the key, and will to the end of one more attempt as long
 * as the last: it may act at its very end. By the clock that says more has passed since the first
 * attempt: the store's begins anew with its machine, and the wall's may be set back. Where both
 * have gone back nobody can tell.
 */
function isKeyValid({ validMs, first, attempt }: Effect, { now, wall }: Situation): boolean {
  if (validMs === undefined || first === undefined) return true;
  const passed = Math.max(wall - first.wall, now - first.at);
  return passed >= 0 && passed + (attempt ?? first).forMs <= validMs;
}

/**
 * Whether nobody can know what became of a call that came with a copy of its store: the original
 * may have begun it since, or may be inside. A key keeps: whoever makes the call in either store
 * makes it under the same one. Where it keeps for a time only, and the copy does not say since
 * when, it is no answer.
 */
export const isUnknownInCopy = ({
  mode,
  phase,
  validMs,
}: Pick<Effect, "mode" | "phase" | "validMs">): boolean =>
  (phase === "begun" && mode === "once") ||
  (phase === "ready" && (mode === "once" || (mode === "keyed" && validMs !== undefined)));

/**
 * The digest of an input that was redacted: nothing can be compared with it any more.
 */
export const UNKNOWN = "";

/** Whether two digests certainly stand for different texts. */
export const differs = (a: string, b: string): boolean => a !== b && a !== UNKNOWN && b !== UNKNOWN;

/** A digest of a value: the same for those that are equal, however their keys are ordered. */
export const valueDigest = (value: Json): string => digest(sortedText(value)).slice(0, 22);

/** A digest of a turn's input: the same for the same words, whatever their message is called. */
export function messageDigest(message: MessageInput): string {
  const { id: _id, ...rest } = message;
  return digest(JSON.stringify(rest)).slice(0, 22);
}

/**
 * Whether a text is made as ids of calls are: the place before the call, and which of the calls
 * there it is.
 */
export const isEffectId = (id: string): boolean =>
  /^[0-9a-hjkmnp-tv-z]{16}-[1-9][0-9]{0,9}\.[1-9][0-9]{0,9}$/.test(id);

/** Whether a text is made as keys of calls are. */
export const isEffectKey = (key: string): boolean =>
  /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(key);

/**
 * Whether a text is made as `valueDigest` and `messageDigest` make it, or says that nothing is
 * known.
 */
export const isInputDigest = (inputDigest: string): boolean =>
  inputDigest === UNKNOWN || /^[A-Za-z0-9_-]{22}$/.test(inputDigest);

/** The branch a call was begun on, from its id. */
export const branchOfEffect = (id: string): string => id.slice(0, id.indexOf("-"));

/**
 * The key of what is asked for at a place, again or for the first time: a digest in the shape of a
 * UUID.
 */
export function keyAt(...place: readonly (string | number)[]): string {
  const hex = Buffer.from(digest(place.join("\n")), "base64url").toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** Whether a call is over and nothing came of it: under the same name it may be made anew. */
export const isFailed = ({ outcome, happened }: Pick<Effect, "outcome" | "happened">): boolean =>
  (outcome === "error" || outcome === "denied") && !happened;

/** Whether a call acts on the world, so that making it twice matters. */
export const acts = ({ mode }: { readonly mode: Mode }): boolean => mode !== "repeatable";

type Compared = Pick<Effect, "name" | "inputDigest" | "named">;

/**
 * Compare a call with one that was made in a past that was left behind. An equal input or an
 * equal name is the same call. If an input was redacted, only two names can tell; without them the
 * answer is "unknown".
 */
export function likeness(
  call: Compared,
  made: Compared & Pick<Effect, "mode">,
): "same" | "other" | "unknown" {
  if (!acts(made) || call.name !== made.name) return "other";
  const haveNames = call.named !== undefined && made.named !== undefined;
  if (haveNames && call.named === made.named) return "same";
  if (call.inputDigest === UNKNOWN || made.inputDigest === UNKNOWN)
    return haveNames ? "other" : "unknown";
  return call.inputDigest === made.inputDigest ? "same" : "other";
}
