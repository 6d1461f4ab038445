/**
 * How the call of a tool ended: the record of it, its message for the model, and the word for those
 * who follow the run.
 */
import type { Effect, Outcome } from "../../core/effects/effect.js";
import type { ToolState } from "../../core/messages/agent-event.js";
import {
  encodeMessage,
  type ToolCallPart,
  type ToolResultPart,
} from "../../core/messages/message.js";
import type { Json } from "../../core/values/json.js";
import { outputOf } from "../../engine/calls/bodies.js";
import type { Finished } from "../../engine/calls/execute-call.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import type { WorkingCopy } from "../../engine/session/working-copy.js";
import type { RunContext } from "./run-context.js";

/** How a call ended: with an answer for the model, or without one for now. */
export type Ended =
  | Answered
  /** Its answer is in the journal already. */
  | { readonly is: "recorded"; readonly effect: Effect }
  /** `pauseUntil`: until then, by the store's clock, another process may be inside it. */
  | { readonly is: "open"; readonly pauseUntil?: number }
  | { readonly is: "stopped" };

export interface Answered {
  readonly is: "answer";
  /** Undefined for a call that was refused. */
  readonly effect: Effect | undefined;
  readonly made: Finished;
  readonly sets: Sets | undefined;
}

/** How a call ended, as followers are told. */
export interface EndTold {
  readonly state: ToolState;
  readonly outcome: Outcome;
  readonly output: Json;
}

/** The keys of the session's state that a tool has set. */
export type Sets = ReadonlyMap<string, Json>;

/**
 * Stages the outcome of a call. `said`: the number of the tool message that says the output as it
 * is.
 */
export function stageOutcome(
  work: WorkingCopy,
  { id }: Effect,
  { made, sets }: Answered,
  said?: number,
): void {
  stageSets(work, sets);
  const { outcome, by, from, body, happened } = made;
  const event = {
    id,
    is: "done",
    outcome,
    ...(said !== undefined && { said }),
    ...(by !== undefined && { by }),
    ...(from !== undefined && { from }),
    ...(happened && { happened }),
  } as const;
  work.inFlight({ effect: event }, said === undefined ? body : undefined);
}

export function stageSets(work: WorkingCopy, sets: Sets | undefined): void {
  for (const [key, value] of sets ?? []) work.set(key, value);
}

/** A tool message, and whether it says the output as it is. */
export interface ToolMessage {
  readonly part: ToolResultPart;
  readonly isPlain: boolean;
}

export async function toolMessage(
  { ctx, definition }: RunContext,
  { callId, name }: ToolCallPart,
  end: Ended,
): Promise<ToolMessage> {
  const outcome =
    end.is === "answer"
      ? end.made.outcome
      : end.is === "recorded"
        ? (end.effect.outcome ?? "ok")
        : "error";
  const output =
    end.is === "answer"
      ? end.made.body.value
      : end.is === "recorded"
        ? await outputOf(ctx, end.effect)
        : null;
  const base = { type: "tool-result", callId, name, outcome } as const;
  const plain = { part: { ...base, output }, isPlain: true };
  const toModel = definition.tools.get(name)?.toModel;
  if (outcome !== "ok" || toModel === undefined) return plain;
  try {
    const part = { ...base, output: toModel(output) };
    // Checked here, so that what cannot be stored does not stop the run.
    encodeMessage({ role: "tool", content: [part] }, "toModel");
    return { part, isPlain: false };
  } catch {
    return plain;
  }
}

/** What followers are told of a call that has ended just now; undefined for others. */
export function endOf(end: Ended): EndTold | undefined {
  if (end.is !== "answer") return undefined;
  const { outcome, from, body } = end.made;
  const state = outcome !== "ok" ? outcome : from === undefined ? "done" : "replayed";
  return { state, outcome, output: body.value };
}

/** What followers are told of a call whose answer was in the journal already. */
export async function recordedEnd(ctx: StoreContext, effect: Effect): Promise<EndTold> {
  const { outcome = "ok" } = effect;
  const output = await outputOf(ctx, effect);
  return { state: outcome === "ok" ? "replayed" : outcome, outcome, output };
}
