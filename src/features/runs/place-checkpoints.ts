/**
 * Where a run places checkpoints: the agent's strategy decides, and a tool may ask for one before
 * it is called.
 */
import type { CheckpointOptions } from "../../core/journal/checkpoint.js";
import type { StrategyEvent } from "../../core/retention/strategy.js";
import { SinceCheckpoint } from "../../engine/session/since-checkpoint.js";
import type { RunContext } from "./run-context.js";

/** The checkpoint that the agent's strategy wants at an event, if it wants one. */
export function checkpointAt(
  running: RunContext,
  event: StrategyEvent,
): CheckpointOptions | undefined {
  const { definition, held } = running;
  const since = new SinceCheckpoint(held.ctx, held.work, held.work.fold.replies);
  return definition.place.at(event, since) ? checkpointNow(running, "automatic") : undefined;
}

/** The checkpoint before calls of tools, if one of them asks for it. */
export function checkpointBefore(
  running: RunContext,
  names: readonly string[],
): CheckpointOptions | undefined {
  const { tools } = running.definition;
  return names.some((name) => tools.get(name)?.isMarkedBefore)
    ? checkpointNow(running, "pre-operation")
    : undefined;
}

/** The checkpoint at the end of a turn. */
export function checkpointAtEnd(running: RunContext): CheckpointOptions | undefined {
  return running.definition.marksAny ? checkpointNow(running, "automatic") : undefined;
}

const checkpointNow = (
  { held }: RunContext,
  kind: "automatic" | "pre-operation",
): CheckpointOptions => ({
  kind,
  step: held.work.fold.replies,
});
