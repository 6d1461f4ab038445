/** Where a run places checkpoints. What is committed is there with or without them: they are places to come back to. */
import { HoldfastError } from "./errors.js";

export type StrategyEvent = "tool" | "model" | "step";

export type Strategy =
  | "after-tool"
  | "after-model"
  | "before-step"
  | "never"
  | { readonly everySteps: number }
  | { readonly everyMs: number }
  | ((about: { readonly step: number; readonly event: StrategyEvent }) => boolean);

/** What has happened since the last checkpoint. */
interface Since {
  readonly step: number;
  readonly steps: number;
  readonly ms: number;
}

/** Whether a checkpoint is to be placed here. Before a step there is one where the input, or the answers of tools, have just been saved. */
export type Placement = (event: StrategyEvent, since: Since) => boolean;

export function placement(strategy: unknown): Placement {
  if (strategy === undefined || strategy === "after-tool") return (event) => event === "tool";
  if (strategy === "after-model") return (event) => event === "model";
  if (strategy === "before-step") return (event) => event === "step";
  if (strategy === "never") return () => false;
  if (typeof strategy === "function") {
    return (event, { step }) => {
      const wanted: unknown = strategy({ step, event });
      if (typeof wanted !== "boolean") throw refused("it must answer true or false");
      return wanted;
    };
  }
  if (typeof strategy === "object" && strategy !== null) {
    const keys = Object.keys(strategy);
    const { everySteps, everyMs } = strategy as { everySteps?: unknown; everyMs?: unknown };
    if (keys.length === 1 && everySteps !== undefined) {
      const least = count(everySteps, "everySteps");
      return (event, { steps }) => event === "tool" && steps >= least;
    }
    if (keys.length === 1 && everyMs !== undefined) {
      const least = count(everyMs, "everyMs");
      return (event, { ms }) => event !== "step" && ms >= least;
    }
  }
  throw refused('it must be "after-tool", "after-model", "before-step", "never", { everySteps }, { everyMs } or a function');
}

function count(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 1) throw refused(`${name} must be a whole number from 1 on`);
  return value;
}

function refused(why: string): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `checkpoint: ${why}.`, { path: "checkpoint" });
}
