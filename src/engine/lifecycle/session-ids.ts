/**
 * Ids of sessions that a caller gives, or leaves to Holdfast. An id that is undefined was meant to
 * be one: it is refused, for a program that has lost its id must not begin a new session in
 * silence.
 */
import { HoldfastError } from "../../core/values/errors.js";
import {
  checkName,
  keyedSessionId,
  type SessionId,
  sessionId,
  typeName,
} from "../../core/values/ids.js";
import { isList } from "../../core/values/json.js";
import type { StoreContext } from "../journal/store-context.js";
import { entriesIn, invalid } from "../util/validate.js";

/** Draw an id. Under a key it is the same each time; `call` tells keys of different calls apart. */
export const drawId = (ctx: StoreContext, call: string, key?: unknown): SessionId =>
  key === undefined ? ctx.newSessionId() : keyedSessionId(call, checkName(key, "key"));

/**
 * Answer the id under `name` in fields that were read, or one that is drawn where the name is left
 * out.
 */
export function idOrDrawn(fields: object, name: string, draw: () => SessionId): SessionId {
  if (!Object.hasOwn(fields, name)) return draw();
  const id: unknown = (fields as Readonly<Record<string, unknown>>)[name];
  return id === undefined
    ? refuseUndefined(name, `leave \`${name}\` out to have one drawn`)
    : sessionId(id);
}

/** Read the arguments of a call `(id, o)`, `(o)` or `()`. */
export function idAndOptions<O>(
  ctx: StoreContext,
  given: readonly unknown[],
): { readonly id: SessionId; readonly o: O | undefined } {
  const [first, o] = given;
  if (given.length === 0 || (given.length === 1 && isObject(first)))
    return { id: ctx.newSessionId(), o: first as O | undefined };
  if (first === undefined)
    return refuseUndefined("session id", "leave it out, as in `hold.session()`, to have one drawn");
  return { id: sessionId(first), o: o as O | undefined };
}

/**
 * Read the arguments of a turn: `(id, input, o)`, or all in one object, in which `session` may be
 * left out.
 */
export function idAndInput<I, O extends object>(
  given: readonly unknown[],
  draw: (key: unknown) => SessionId,
): { readonly id: SessionId; readonly input: I; readonly o: O | undefined } {
  const [first, input, o] = given;
  if (given.length !== 1 || !isObject(first)) {
    if (first === undefined)
      return refuseUndefined("session id", "pass `{ input }` alone to have one drawn");
    if (input === undefined)
      throw invalid("input", "a turn needs one. To go on with the latest turn, call `resume(id)`");
    return { id: sessionId(first), input: input as I, o: o as O | undefined };
  }
  const fields = Object.fromEntries(entriesIn(first, "turn", "an object"));
  const {
    session: _session,
    input: said,
    ...rest
  } = fields as { session?: unknown; input?: I; key?: unknown };
  if (said === undefined)
    throw invalid(
      "input",
      `a turn needs one: pass \`(id, input)\` or \`{ input, session }\`, not ${typeName(first)} without it`,
    );
  return { id: idOrDrawn(fields, "session", () => draw(rest.key)), input: said, o: rest as O };
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !isList(value);

function refuseUndefined(what: string, advice: string): never {
  throw new HoldfastError("INVALID_ID", `${what} is undefined. Give an id, or ${advice}.`, {
    path: what,
  });
}
