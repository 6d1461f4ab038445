/**
 * Messages as JSON throughout: the bytes of a file stand in them as base64. A message of ours never
 * has a text there, so that nothing else can be taken for it.
 */
import {
  encodeMessage,
  type FileData,
  type FilePart,
  isObject,
  type MessageInput,
  type OpaquePart,
  type ReasoningPart,
  type TextPart,
  type ToolCallPart,
  type ToolResultPart,
} from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";

export type PlainData =
  | Exclude<FileData, { readonly bytes: Uint8Array }>
  | { readonly bytes: string };
export type PlainFile = Omit<FilePart, "data"> & { readonly data: PlainData };
export type PlainResult = Omit<ToolResultPart, "output"> & {
  readonly output: Json | readonly PlainPart[];
};
export type PlainPart =
  | TextPart
  | ReasoningPart
  | PlainFile
  | ToolCallPart
  | PlainResult
  | OpaquePart;

export interface PlainMessage extends Omit<MessageInput, "content"> {
  readonly content: string | readonly PlainPart[];
  /** Of a message that came out of a session. */
  readonly createdAt?: string;
}

/** A message of a session, as a document of another format gives it back. */
export interface TranscriptMessage extends MessageInput {
  /**
   * When it was said, where that is known. A session that it is appended to has a time of its own
   * for it.
   */
  readonly createdAt?: string;
}

export function toPlain(input: unknown, path: string): PlainMessage {
  const { value, blobs } = encodeMessage(input, path);
  const bytes = new Map(blobs.map((blob) => [blob.digest as string, blob.bytes]));
  const content = blobs.length === 0 ? value.content : inlined(value.content, bytes);
  const createdAt = timeOf(input as { readonly createdAt?: unknown });
  return { ...value, content, ...(createdAt !== undefined && { createdAt }) } as PlainMessage;
}

function timeOf(input: { readonly createdAt?: unknown }): string | undefined {
  try {
    const { createdAt } = input;
    return typeof createdAt === "string" && createdAt.isWellFormed() ? createdAt : undefined;
  } catch {
    // A getter of the caller's: a message has no such field to be wrong about.
    return undefined;
  }
}

/**
 * Where a message names one file twice, by its bytes and by their digest, both are the bytes from
 * here on.
 */
function inlined(content: unknown, bytes: ReadonlyMap<string, Uint8Array>): unknown {
  return eachFile(content, (data) => {
    const known = typeof data.digest === "string" ? bytes.get(data.digest) : undefined;
    if (known === undefined || known.length !== data.sizeBytes) return data;
    const { digest: _digest, sizeBytes: _size, ...rest } = data;
    return { ...rest, bytes: Buffer.from(known).toString("base64") };
  });
}

/** A message with the bytes of files that it names, as far as they are known. */
export function withBytes<M extends MessageInput>(
  message: M,
  files: ReadonlyMap<string, Uint8Array>,
): M {
  const content = eachFile(message.content, (data) => {
    const bytes = typeof data.digest === "string" ? files.get(data.digest) : undefined;
    if (bytes === undefined) return data;
    const { digest: _digest, sizeBytes: _size, ...rest } = data;
    return { ...rest, bytes };
  });
  return { ...message, content };
}

/** Checks a message that was put together from a document, and gives files their bytes. */
export function fromPlain(message: PlainMessage, path: string): TranscriptMessage {
  const content = eachFile(message.content, (data) =>
    typeof data.bytes === "string" && isBase64(data.bytes)
      ? { ...data, bytes: new Uint8Array(Buffer.from(data.bytes, "base64")) }
      : data,
  );
  const whole = { ...message, content } as TranscriptMessage;
  encodeMessage(whole, path);
  return Object.freeze(whole);
}

/**
 * Files in a list of parts, and in what tools answered: just where a message's bytes are looked for
 * when it is stored.
 */
function eachFile(content: unknown, change: (data: JsonObject) => unknown): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown) => {
    if (!isObject(part)) return part;
    if (part.type === "tool-result" && Array.isArray(part.output))
      return { ...part, output: eachFile(part.output, change) };
    const { type, mediaType, data } = part;
    return type === "file" && typeof mediaType === "string" && isObject(data)
      ? { ...part, data: change(data as JsonObject) }
      : part;
  });
}

/**
 * Whether it is the very text that bytes have in base64: another spelling of them would not come
 * back.
 */
export const isBase64 = (text: string): boolean =>
  Buffer.from(text, "base64").toString("base64") === text;

export const partsIn = ({ content }: PlainMessage): readonly PlainPart[] =>
  typeof content === "string" ? [{ type: "text", text: content }] : content;

/** What a tool answered, where that is a list of parts and not any other JSON. */
export function partsOfOutput(
  output: Json | readonly PlainPart[],
): readonly PlainPart[] | undefined {
  return Array.isArray(output) && output.length > 0 && output.every(isShown)
    ? (output as readonly PlainPart[])
    : undefined;
}

function isShown(part: unknown): boolean {
  if (!isObject(part)) return false;
  if (part.type === "text") return typeof part.text === "string";
  if (part.type === "opaque")
    return typeof part.format === "string" && Object.hasOwn(part, "value");
  return part.type === "file" && typeof part.mediaType === "string" && isObject(part.data);
}
