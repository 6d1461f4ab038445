/** Check the keys of a session's state as callers give them. */
import { HoldfastError } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { freeze, type Json, type JsonObject } from "../../core/values/json.js";

export function checkKey(key: unknown): string {
  const name = checkName(key, "state key");
  if (name === "messages")
    throw new HoldfastError(
      "INVALID_OPTION",
      "state key: `messages` is the transcript. Use append, splice or save.",
      {
        path: "state.messages",
      },
    );
  return name;
}

export function entriesOf(state: unknown): readonly (readonly [string, Json])[] {
  const copy = freeze(state, "state");
  if (typeof copy !== "object" || copy === null || Array.isArray(copy))
    throw new HoldfastError("INVALID_VALUE", "state: it must be an object.", { path: "state" });
  return Object.entries(copy as JsonObject).map(([key, value]) => [checkKey(key), value] as const);
}
