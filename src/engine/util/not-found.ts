/** Errors for what is not there. */
import { HoldfastError, quote } from "../../core/values/errors.js";

export function noSession(id: string): HoldfastError {
  return new HoldfastError("NOT_FOUND", `There is no session ${quote(id)}.`, { sessionId: id });
}

export function notFound(id: string): HoldfastError {
  return new HoldfastError(
    "NOT_FOUND",
    `There is no checkpoint ${quote(id)}. List those of its session.`,
    { checkpointId: id },
  );
}
