/** What each format is made of. */
import type { Role } from "../core/messages/message.js";
import type { JsonObject } from "../core/values/json.js";
import { wholeIn } from "./normalize-order.js";
import type { PlainMessage } from "./plain.js";
import { opaque } from "./provider-fields.js";

/** A message of the format, and which of ours it says something of. */
export interface Written {
  readonly item: JsonObject;
  readonly of: readonly number[];
}

/**
 * Two functions. What they cannot say to each other is found by trying, and kept: in `remainder` on
 * the way out, as opaque parts on the way in (`transcript.ts`). So neither has to be perfect for a
 * round trip to be one.
 */
export interface Codec {
  write(messages: readonly PlainMessage[]): readonly Written[];
  /** One message of ours for each of the format's. */
  read(items: readonly JsonObject[]): readonly PlainMessage[];
  /**
   * Whether the system text stands beside the messages. It is then the first item, as its only
   * field.
   */
  readonly systemApart?: true;
}

/** A message of the format that ours cannot say, kept whole. */
export function whole(format: string, item: JsonObject, role: Role = "assistant"): PlainMessage {
  const own =
    item.role === "user" || item.role === "system" || item.role === "tool" ? item.role : role;
  return { role: own, content: [opaque(wholeIn(format), item)] };
}
