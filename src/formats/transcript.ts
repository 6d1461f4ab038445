/**
 * Transcripts in the message formats of providers, there and back without loss.
 *
 * FORMAT-1  ours, written and read again, is what it was: whatever reading back does not give is
 *           kept in the remainder.
 * FORMAT-2  theirs, read and written again, is what it was: a message that is not comes as an
 *           opaque part that holds it whole.
 *
 * Both are made so, and not hoped for: each way tries the other before it answers.
 */
import { isObject, type MessageInput } from "../core/messages/message.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { typeName } from "../core/values/ids.js";
import {
  equal,
  fieldsOf,
  freeze,
  invalidValue,
  itemsOf,
  type Json,
  type JsonObject,
} from "../core/values/json.js";
import { aiSdk } from "./ai-sdk.js";
import { aiSdkUi } from "./ai-sdk-ui.js";
import { anthropic } from "./anthropic.js";
import { type Codec, type Written, whole } from "./codec.js";
import { openai } from "./openai.js";
import { openaiResponses } from "./openai-responses.js";
import { fromPlain, type PlainMessage, type TranscriptMessage, toPlain } from "./plain.js";
import { type Remainder, remainderOf, withRemainder } from "./remainder.js";

const codecs = {
  openai,
  "openai-responses": openaiResponses,
  anthropic,
  "ai-sdk": aiSdk,
  "ai-sdk-ui": aiSdkUi,
} as const satisfies Record<string, Codec>;

/** The formats of providers that Holdfast reads and writes. */
export type Format = keyof typeof codecs;
export const FORMATS = Object.keys(codecs) as readonly Format[];

/**
 * A transcript in the format of a provider, as plain JSON.
 * `M` is what that provider's own library calls a message.
 */
export interface Transcript<M = JsonObject, F extends Format = Format> {
  readonly format: F;
  /** To be handed to the provider as they stand. */
  readonly messages: M[];
  /** The system text, where the format has it apart. */
  readonly system?: string | JsonObject[];
  /**
   * What the format cannot say. Without it a transcript can still be read, less what stands here.
   */
  readonly remainder?: Remainder;
}

/** A transcript to take in: what `toFormat` gave, or messages as they were sent to a provider. */
export interface GivenTranscript {
  readonly format: Format;
  readonly messages: readonly object[];
  readonly system?: unknown;
  readonly remainder?: unknown;
}

/** How many messages a transcript may have. */
const MAX_TRANSCRIPT = 100_000;

/**
 * Write messages in the format of a provider.
 * The bytes of files are written into them; a file that is only named is kept in the remainder.
 *
 * @example
 * const { system, messages } = toFormat("anthropic", session.messages);
 */
export function toFormat<M = JsonObject, F extends Format = Format>(
  format: F,
  messages: readonly MessageInput<never>[] | readonly MessageInput[],
): Transcript<M, F> {
  const codec = codecOf(format, "format");
  const ours = listOf(messages, "messages").map((message, i) => toPlain(message, `messages[${i}]`));
  const written = fitting(codec, codec.write(ours));
  const items = written.map(({ item }) => item);
  const theirs = readBack(codec, format, items);
  const remainder = remainderOf(
    ours,
    theirs,
    written.map(({ of }) => of),
  );
  const [first, ...rest] = items;
  const isApart = codec.systemApart === true && first !== undefined && isSystem(first);
  return {
    format,
    ...(isApart && { system: first.system as string | JsonObject[] }),
    messages: (isApart ? rest : items) as M[],
    ...(remainder !== undefined && { remainder }),
  };
}

/**
 * Read the messages of a transcript in a provider's format, with or without its remainder.
 *
 * @example
 * const messages = fromFormat({ format: "openai", messages: [{ role: "user", content: "hi" }] });
 * session.append(...messages);
 */
export function fromFormat(transcript: GivenTranscript): TranscriptMessage[] {
  const given = openedTranscript(transcript);
  const codec = codecOf(given.format, "transcript.format");
  if (given.system !== undefined && codec.systemApart !== true)
    throw invalidValue(
      "transcript.system",
      `a transcript in the format ${quote(given.format)} has its system text among its messages`,
    );
  const messages = listOf(given.messages, "transcript.messages").map((item, i) => {
    const path = `transcript.messages[${i}]`;
    const frozen = freeze(item, path);
    if (!isObject(frozen))
      throw invalidValue(path, `a message is an object, not ${typeName(item)}`);
    return frozen as JsonObject;
  });
  const items =
    given.system === undefined
      ? messages
      : [{ system: freeze(given.system, "transcript.system") }, ...messages];
  const theirs = readBack(codec, given.format, items);
  const ours =
    given.remainder === undefined
      ? theirs
      : withRemainder(theirs, keptOf(given.remainder), "transcript.remainder");
  return ours.map((message, i) => fromPlain(message, `messages[${i}]`));
}

/** Entry by entry: a remainder may be large in all, as messages may. */
function keptOf(remainder: unknown): unknown {
  if (!isObject(remainder)) return undefined;
  const { messages } = fieldsOf(remainder, "transcript.remainder");
  return {
    messages: itemsOf(messages, "transcript.remainder.messages")?.map((entry, i) =>
      freeze(entry, `transcript.remainder.messages[${i}]`),
    ),
  };
}

function openedTranscript(
  transcript: unknown,
): Record<string, unknown> & { readonly format: string } {
  if (typeof transcript !== "object" || transcript === null)
    throw invalidValue(
      "transcript",
      `it is an object with format and messages, not ${typeName(transcript)}`,
    );
  const given = fieldsOf(transcript, "transcript");
  for (const key of Object.keys(given))
    if (!["format", "messages", "system", "remainder"].includes(key) && given[key] !== undefined)
      throw invalidValue(
        "transcript",
        `there is no field ${quote(key)}; it has format, messages, system and remainder`,
      );
  return given as Record<string, unknown> & { readonly format: string };
}

function codecOf(format: unknown, path: string): Codec {
  const known =
    typeof format === "string" && Object.hasOwn(codecs, format)
      ? codecs[format as Format]
      : undefined;
  if (known === undefined) throw invalidValue(path, `a format is one of ${FORMATS.join(", ")}`);
  return known;
}

function listOf(value: unknown, path: string): readonly unknown[] {
  const list = itemsOf(value, path);
  if (list === undefined)
    throw invalidValue(path, `it is a list of messages, not ${typeName(value)}`);
  if (list.length > MAX_TRANSCRIPT)
    throw new HoldfastError("TOO_LARGE", `${path}: more than ${MAX_TRANSCRIPT} messages.`, {
      path,
      limit: MAX_TRANSCRIPT,
    });
  return list;
}

const isSystem = (item: JsonObject): boolean =>
  Object.hasOwn(item, "system") && Object.keys(item).length === 1;

/**
 * Without what could not be read again: nested too deeply by what was put around it, say. It is
 * kept in the remainder then.
 */
function fitting(codec: Codec, written: readonly Written[]): readonly Written[] {
  return written.filter(({ item }, i) => {
    if (codec.systemApart === true && isSystem(item) && i > 0) return false;
    try {
      freeze(item, "message");
      return true;
    } catch {
      return false;
    }
  });
}

/** FORMAT-2: reads, and tries whether that would be written as it was. */
function readBack(
  codec: Codec,
  format: string,
  items: readonly JsonObject[],
): readonly PlainMessage[] {
  let messages = codec.read(items);
  const opaque = new Set<number>();
  // What does not come back may be because of what stands beside it, so that is tried again
  // without.
  for (let tries = 1; tries <= 3; tries++) {
    const astray = astrayOf(items, codec.write(messages));
    if (astray.length === 0) return messages;
    for (const i of astray) opaque.add(i);
    messages = messages.map((message, i) =>
      opaque.has(i) ? whole(format, items[i] as JsonObject) : message,
    );
  }
  return items.map((item) => whole(format, item));
}

/**
 * Those that are not written as they were, each from its own message alone: what was put together
 * from several is kept in the remainder.
 */
function astrayOf(items: readonly JsonObject[], written: readonly Written[]): readonly number[] {
  const back = written.map(({ item }) => item);
  const [from, to] = unequal(items, back);
  if (from > to) return written.flatMap(({ of }, i) => (of.length === 1 && of[0] === i ? [] : [i]));
  const isAstray = (i: number) =>
    i >= from && i <= to && (back.length !== items.length || !equal(items[i], back[i]));
  return [...items.keys()].filter(isAstray);
}

/** The first and the last of those that differ, as far as beginning and end do not. */
function unequal(
  items: readonly Json[],
  back: readonly Json[],
): readonly [from: number, to: number] {
  let from = 0;
  while (from < items.length && from < back.length && equal(items[from], back[from])) from++;
  if (from === items.length && from === back.length) return [0, -1];
  let end = 0;
  while (
    end < items.length - from &&
    end < back.length - from &&
    equal(items[items.length - 1 - end], back[back.length - 1 - end])
  )
    end++;
  // Where one too many was written there is nothing between the ends: whatever stands there is not
  // what it seems.
  const to = items.length - 1 - end;
  return from > to ? [Math.max(0, to), Math.min(items.length - 1, from)] : [from, to];
}
