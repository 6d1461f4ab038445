/** Messages as callers see them: what was stored, and what the journal assigns. */
import type { Message, MessageInput } from "../messages/message.js";
import type { Digest } from "../values/digest.js";
import { deepFreeze } from "../values/json.js";
import { isoTime } from "../values/time.js";
import { messageIn } from "./blob-body.js";
import type { JournalRecord } from "./record.js";
import type { Save } from "./save.js";

/** The message of a record, for those who read records one by one. */
export function viewOfRecord(
  record: JournalRecord,
  body: string | undefined,
  seq: number,
  save: Save,
): Message {
  const input = (
    body === undefined ? (record.append ?? record.item) : messageIn(body, record.blob as Digest)
  ) as MessageInput;
  return messageView(input, `${save.branch}-${seq}`, seq, save.at - (record.ago ?? 0));
}

/**
 * The message as callers see it: what was stored, and what the journal assigns. Takes over `input`,
 * which must be its own.
 */
export function messageView(input: MessageInput, id: string, seq: number, at: number): Message {
  const message = input as { -readonly [K in keyof Message]: Message[K] };
  if (message.id === undefined) message.id = id;
  message.createdAt = isoTime(at);
  message.seq = seq;
  // Most messages are flat: freezing what is not saves the walk over what is.
  if (typeof message.content !== "string") deepFreeze(message.content);
  if (message.metadata !== undefined) deepFreeze(message.metadata);
  if (message.provider !== undefined) deepFreeze(message.provider);
  if (message.reply !== undefined) deepFreeze(message.reply);
  return Object.freeze(message);
}
