/**
 * Messages as callers give them from outside a run: checked, copied, and run through the hook for
 * redactions.
 */
import {
  type EncodedMessage,
  encodeMessage,
  type MessageInput,
} from "../../core/messages/message.js";
import { HoldfastError } from "../../core/values/errors.js";
import { typeName } from "../../core/values/ids.js";
import { fieldsOf, invalidValue, isList, itemsOf } from "../../core/values/json.js";
import { withBytes } from "../../formats/plain.js";
import { fromFormat, type GivenTranscript } from "../../formats/transcript.js";
import type { StoreContext } from "../journal/store-context.js";

export type GivenMessages =
  | readonly MessageInput<never>[]
  | readonly MessageInput[]
  | GivenTranscript;

const MAX_MESSAGES = 10_000;
export const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Check and copy messages. The copy is stored, so a caller may change its own messages meanwhile.
 */
export function readMessages(
  ctx: StoreContext,
  given: GivenMessages,
): { readonly messages: readonly MessageInput[]; readonly encoded: readonly EncodedMessage[] } {
  const all = messagesOf(given).map((message, i) => read(ctx, message, `messages[${i}]`));
  const encoded = all.map((each) => each.encoded);
  refuseTooMuch(encoded);
  return { messages: all.map(({ message }) => message), encoded };
}

/**
 * What is sent, and how it will be stored: as it is, or as the hook for redactions leaves it.
 * Encoded once: texts may have many megabytes.
 */
function read(
  { redactor }: StoreContext,
  given: MessageInput,
  path: string,
): { readonly message: MessageInput; readonly encoded: EncodedMessage } {
  const before = encodeMessage(given, path);
  const encoded = redactor?.message(before, path) ?? before;
  return {
    message: withBytes(
      encoded.value,
      new Map(encoded.blobs.map(({ digest: name, bytes }) => [name, bytes])),
    ),
    encoded,
  };
}

/** A list of messages, or a transcript in a provider's format. */
function messagesOf(given: unknown): readonly MessageInput[] {
  if (!isList(given)) {
    if (typeof given !== "object" || given === null || !("format" in fieldsOf(given, "transcript")))
      throw invalidValue(
        "messages",
        `it is a list of messages, or a transcript with its format, not ${typeName(given)}`,
      );
    return fromFormat(given as GivenTranscript);
  }
  return (itemsOf(given, "messages") ?? []) as readonly MessageInput[];
}

function refuseTooMuch(messages: readonly EncodedMessage[]): void {
  if (messages.length > MAX_MESSAGES)
    throw new HoldfastError(
      "TOO_LARGE",
      `messages: ${messages.length} of them. Give ${MAX_MESSAGES} at a time.`,
      {
        path: "messages",
        limit: MAX_MESSAGES,
      },
    );
  const bytes = messages.reduce(
    (sum, { bytes: own, blobs }) =>
      sum + own + blobs.reduce((all, blob) => all + blob.bytes.length, 0),
    0,
  );
  if (bytes > MAX_BYTES) throw tooLarge(bytes);
}

export const tooLarge = (bytes: number): HoldfastError =>
  new HoldfastError(
    "TOO_LARGE",
    `messages: ${bytes} bytes with their files, and one call takes ${MAX_BYTES} at most. Give them in several calls.`,
    { path: "messages", limit: MAX_BYTES },
  );
