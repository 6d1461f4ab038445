/** A call that is not over, as people see it. */
import { acts, type Effect, type WaitsFor } from "../../core/effects/effect.js";
import type { Json } from "../../core/values/json.js";
import { isoTime } from "../../core/values/time.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import { askedIn, inputOf } from "./bodies.js";

/** A call that is not over: it waits for a decision, or its outcome is unknown. */
export interface Pending {
  readonly effectId: string;
  /** As the reply names the call. Absent of a call by hand, and where the reply was pruned. */
  readonly callId?: string;
  readonly sessionId: string;
  readonly name: string;
  readonly input: Json;
  readonly since: string;
  readonly mode: Effect["mode"];
  /** The key that was, or will be, handed to it: by it one can look whether it happened. */
  readonly key: string;
  readonly status: "waiting" | "in-doubt" | "under-way";
  readonly waitsFor?: WaitsFor;
  /** In doubt: why `check` could not say what became of it. */
  readonly why?: string;
}

/** A call that was made in a past that was left. */
export interface PassedCall extends Omit<Pending, "status" | "waitsFor" | "why"> {
  readonly outcome: "ok" | "error" | "denied" | "unknown";
}

export async function pendingOf(
  ctx: StoreContext,
  sessionId: string,
  past: Past,
  effect: Effect,
): Promise<Pending> {
  const { phase, waits, why } = effect;
  return {
    ...(await told(ctx, sessionId, past, effect)),
    status: phase === "waiting" ? "waiting" : phase === "doubt" ? "in-doubt" : "under-way",
    ...(waits !== undefined && { waitsFor: waits }),
    ...(why !== undefined && { why }),
  };
}

export async function passedOf(
  ctx: StoreContext,
  sessionId: string,
  past: Past,
  effect: Effect,
): Promise<PassedCall> {
  return { ...(await told(ctx, sessionId, past, effect)), outcome: effect.outcome ?? "unknown" };
}

async function told(ctx: StoreContext, sessionId: string, past: Past, effect: Effect) {
  const { id, name, mode, key, since } = effect;
  const asked = await askedIn(ctx, past, effect);
  return {
    effectId: id,
    ...(asked !== undefined && { callId: asked.callId }),
    sessionId,
    name,
    input: await inputOf(ctx, effect, asked),
    since: isoTime(since),
    mode,
    key,
  };
}

/** Calls that going to another branch would leave in the air. */
export const unsettled = (open: readonly Effect[]): readonly Effect[] =>
  open.filter((effect) => acts(effect) && (effect.first !== undefined || effect.whole));
