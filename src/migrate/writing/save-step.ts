/**
 * One step as one checkpoint. `save` stages what differs from the step before, so what the source
 * repeats is stored once.
 */
import type { CheckpointOptions, Session } from "../../index.js";
import type { Content } from "../reading/model.js";
import { clipped } from "../reading/names.js";

const MAX_REASON = 100_000;

/** One checkpoint, whatever the step says of the session's status. */
export async function saveStep(
  session: Session,
  { messages, state, end }: Content,
  mark: CheckpointOptions,
): Promise<void> {
  session.save({ ...(messages && { messages }), ...(state && { state }) });
  const status =
    end === undefined
      ? "in-progress"
      : ({ complete: "completed", fail: "failed", halt: "halted" } as const)[end.as];
  // What has come to rest goes on by work, and a step may say that it goes on without having
  // changed anything.
  const [key] = Object.keys(session.state);
  if (session.status !== "in-progress" && session.status !== status && key !== undefined)
    session.set(key, session.state[key] as never);
  if (end === undefined) await session.checkpoint(mark);
  else if (end.as === "complete") await session.complete(undefined, mark);
  else await session[end.as](clipped(end.reason, MAX_REASON), mark);
}
