/**
 * Compare a session with a whole transcript or state that is given, and answer the changes that
 * make it so.
 */
import { content } from "../../core/journal/diff.js";
import type { EncodedMessage, Message, MessageInput } from "../../core/messages/message.js";
import { type Encoded, encode, equal, type Json, type JsonObject } from "../../core/values/json.js";

export type StateChange =
  | { readonly kind: "unset"; readonly key: string }
  | { readonly kind: "set"; readonly key: string; readonly value: Encoded }
  | {
      readonly kind: "splice";
      readonly key: string;
      readonly start: number;
      readonly remove: number;
      readonly items: Encoded;
    };

/** How many messages at the beginning are the same. */
export function sameMessages(
  present: readonly Message[],
  given: readonly EncodedMessage[],
): number {
  const most = Math.min(present.length, given.length);
  let same = 0;
  while (same < most && isSame(present[same] as Message, (given[same] as EncodedMessage).value))
    same++;
  return same;
}

/** The same message: by id where both were given one, and by content. */
function isSame(present: Message, given: MessageInput): boolean {
  if (given.id !== undefined && given.id !== present.id) return false;
  return equal(content(present), content(given));
}

export function* stateChanges(
  present: JsonObject,
  given: readonly (readonly [string, Encoded])[],
): Generator<StateChange> {
  const keys = new Set(given.map(([key]) => key));
  for (const key of Object.keys(present)) if (!keys.has(key)) yield { kind: "unset", key };
  for (const [key, value] of given) {
    const before = Object.hasOwn(present, key) ? present[key] : undefined;
    if (before !== undefined && equal(before, value.value)) continue;
    if (Array.isArray(before) && Array.isArray(value.value) && before.length > 0)
      yield listChange(key, before, value.value, value);
    else yield { kind: "set", key, value };
  }
}

/**
 * A list that shares its beginning and end with the one before is spliced, so that a growing list
 * costs what is new.
 */
function listChange(
  key: string,
  before: readonly Json[],
  after: readonly Json[],
  whole: Encoded,
): StateChange {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && equal(before[start], after[start])) start++;
  let end = 0;
  while (
    end < most - start &&
    equal(before[before.length - 1 - end], after[after.length - 1 - end])
  )
    end++;
  if (start + end === 0) return { kind: "set", key, value: whole };
  const items = encode(after.slice(start, after.length - end), `state.${key}`);
  return { kind: "splice", key, start, remove: before.length - start - end, items };
}
