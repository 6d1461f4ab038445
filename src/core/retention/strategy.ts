/**
 * Where a run places checkpoints. What is committed is there with or without them: they are places
 * to come back to.
 */

import { readFields } from "../values/check-options.js";
import { HoldfastError } from "../values/errors.js";

export type StrategyEvent = "tool" | "model" | "step";

/** When a run places checkpoints. */
export type Strategy =
  | "after-tool"
  | "after-model"
  | "before-step"
  | "never"
  | { readonly everySteps: number }
  | { readonly everyMessages: number }
  | { readonly everyMs: number }
  | ((about: Since & { readonly event: StrategyEvent }) => boolean);

/** What has happened since the last checkpoint. */
export interface Since {
  /**
   * The step that a checkpoint placed now would have. In a loop of your own it grows with the
   * checkpoints, not with the replies.
   */
  readonly step: number;
  /** Replies of the model. */
  readonly steps: number;
  readonly messages: number;
  readonly ms: number;
}

/** Whether a checkpoint is to be placed. */
export interface Placement {
  /**
   * In a run, at an event. Before a step there is one where the input, or the answers of tools,
   * have just been saved.
   */
  at(event: StrategyEvent, since: Since): boolean;
  /**
   * In a loop of the caller's own. The caller asks where a checkpoint fits, so that counts need no
   * event.
   */
  isDue(since: Since & { readonly events: readonly StrategyEvent[] }): boolean;
}

export function placement(strategy: unknown): Placement {
  if (strategy === undefined || strategy === "after-tool")
    return byEvent((event) => event === "tool");
  if (strategy === "after-model") return byEvent((event) => event === "model");
  if (strategy === "before-step") return byEvent((event) => event === "step");
  if (strategy === "never") return byEvent(() => false);
  if (typeof strategy === "function") {
    return byEvent((event, since) => {
      const wanted: unknown = strategy(asked(event, since));
      if (typeof wanted !== "boolean") throw refused("it must answer true or false");
      return wanted;
    });
  }
  if (typeof strategy === "object" && strategy !== null) {
    const { fields, unknown } = readFields(strategy, "checkpoint", [
      "everySteps",
      "everyMessages",
      "everyMs",
    ]);
    const [[name, least] = [], ...more] = Object.entries(fields);
    const isOne = unknown === undefined && more.length === 0;
    if (isOne && name === "everySteps")
      return byCount(["tool"], count(least, name), ({ steps }) => steps);
    if (isOne && name === "everyMessages")
      return byCount(["tool", "step"], count(least, name), ({ messages }) => messages);
    if (isOne && name === "everyMs")
      return byCount(["tool", "model"], count(least, name), ({ ms }) => ms);
  }
  throw refused(
    'it must be "after-tool", "after-model", "before-step", "never", { everySteps }, { everyMessages }, { everyMs } or a function',
  );
}

/**
 * What a function is asked with. Each count goes over what came since the last checkpoint, so it is
 * made when the function reads it.
 */
const asked = (event: StrategyEvent, since: Since): Since & { readonly event: StrategyEvent } => ({
  event,
  step: since.step,
  get steps() {
    return since.steps;
  },
  get messages() {
    return since.messages;
  },
  get ms() {
    return since.ms;
  },
});

const byEvent = (fits: (event: StrategyEvent, since: Since) => boolean): Placement => ({
  at: fits,
  isDue: (since) => since.events.some((event) => fits(event, since)),
});

const byCount = (
  events: readonly StrategyEvent[],
  least: number,
  counted: (since: Since) => number,
): Placement => ({
  at: (event, since) => events.includes(event) && counted(since) >= least,
  isDue: (since) => counted(since) >= least,
});

function count(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1)
    throw refused(`${name} must be a whole number from 1 on`);
  return value;
}

function refused(why: string): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `checkpoint: ${why}.`, { path: "checkpoint" });
}
