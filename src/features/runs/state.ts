/** The state of an agent's sessions: its shape, and how old states come to have it. */
import { HoldfastError } from "../../core/values/errors.js";
import type { Json, JsonObject } from "../../core/values/json.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import type { StateShape } from "./define/agent-types.js";
import { validate } from "./define/schema.js";

/** Throws where a state does not have its shape. */
export function checkState(shape: StateShape<unknown> | undefined, state: unknown): void {
  if (shape === undefined) return;
  const parsed = validate(shape.schema, state);
  if (parsed instanceof Promise)
    throw misfit("its schema answers later; one that answers at once is needed");
  if ("flaw" in parsed) throw misfit(parsed.flaw);
}

/** Stages what brings a session's state into today's shape: the initial one, or an upgrade. */
export function shapeState(
  { work, id }: HeldSession,
  shape: StateShape<unknown> | undefined,
): void {
  if (shape === undefined) return;
  const { fold } = work;
  const version = shape.version ?? 1;
  const found = fold.inFlight.shape;
  if (found === version) return;
  if (found !== undefined && found > version) {
    throw new HoldfastError(
      "CONFLICT",
      `The state of session ${JSON.stringify(id)} has version ${found}, and this program knows version ${version}. Run a newer one.`,
      { sessionId: id, found },
    );
  }
  const old = fold.state;
  const isNew = found === undefined && Object.keys(old).length === 0;
  if (isNew) {
    if (shape.initial !== undefined) {
      checkState(shape, shape.initial);
      work.save({ state: shape.initial as JsonObject });
    }
  } else if (found === undefined && version === 1) checkState(shape, old);
  else {
    if (shape.upgrade === undefined)
      throw misfit(`it has version ${found ?? 1} and not ${version}, and there is no upgrade`);
    const upgraded = shape.upgrade(old, found ?? 1);
    checkState(shape, upgraded);
    work.save({ state: upgraded as Record<string, Json> });
  }
  work.inFlight({ shape: version });
}

function misfit(why: string): HoldfastError {
  return new HoldfastError("INVALID_VALUE", `state: it does not have its shape: ${why}.`, {
    path: "state",
  });
}
