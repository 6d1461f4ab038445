/**
 * The message model: one shape that holds what Anthropic, OpenAI, the AI SDK and LangChain messages
 * say.
 *
 * Any part may stand in any role. Bytes of a file part leave the message for a blob named by its
 * digest, at staging, so that a live run and a resumed one see the same.
 */
import { isUint8Array } from "node:util/types";
import { type Digest, digest, isDigest } from "../values/digest.js";
import { type HoldfastError, pathTo } from "../values/errors.js";
import { checkName, typeName } from "../values/ids.js";
import {
  type Encoded,
  encode,
  fieldsOf,
  invalidValue,
  isList,
  itemsOf,
  type Json,
  type JsonObject,
  MAX_DEPTH,
  TOO_DEEP,
} from "../values/json.js";

export type Provider = { readonly [who: string]: JsonObject };

export type FileData =
  | { readonly bytes: Uint8Array }
  | { readonly digest: string; readonly sizeBytes: number }
  | { readonly url: string }
  | { readonly text: string }
  | { readonly ref: { readonly [provider: string]: string } };

interface PartBase {
  readonly id?: string;
  readonly provider?: Provider;
}
/** A text in a message. */
export interface TextPart extends PartBase {
  readonly type: "text";
  readonly text: string;
}
/** A thought of the model. */
export interface ReasoningPart extends PartBase {
  readonly type: "reasoning";
  readonly text: string;
}
/** A file in a message: its bytes, or where they are. */
export interface FilePart extends PartBase {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: FileData;
  readonly name?: string;
  readonly reasoning?: true;
}
/** A call that the model asks for. */
export interface ToolCallPart extends PartBase {
  readonly type: "tool-call";
  readonly callId: string;
  readonly name: string;
  readonly input: Json;
  readonly raw?: string;
  readonly by?: "provider";
}
/** The result of a call, as the model sees it. */
export interface ToolResultPart extends PartBase {
  readonly type: "tool-result";
  readonly callId: string;
  /**
   * The name in the call. Absent only where a transcript holds the answer and not the call: OpenAI
   * and Anthropic say the name in the call alone.
   */
  readonly name?: string;
  readonly outcome: "ok" | "error" | "denied";
  readonly output: Json | readonly Part[];
  readonly by?: "provider";
}
/** A part that only one provider's format has a word for, kept as it was. */
export interface OpaquePart extends PartBase {
  readonly type: "opaque";
  readonly format: string;
  readonly value: Json;
  readonly text?: string;
}
/** One part of a message's content. */
export type Part = TextPart | ReasoningPart | FilePart | ToolCallPart | ToolResultPart | OpaquePart;

/** The tokens of a model call, as its provider counts them. */
export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly reasoningTokens?: number;
  readonly raw?: JsonObject;
}
export type Finish =
  | "stop"
  | "tool-calls"
  | "length"
  | "content-filter"
  | "pause"
  | "error"
  | "other";
export interface Reply {
  readonly provider?: string;
  readonly model?: string;
  readonly responseId?: string;
  readonly finish: Finish;
  readonly rawFinish?: string;
  readonly usage?: Usage;
}

export type Role = "system" | "user" | "assistant" | "tool";

/** A message as you give it to a session. */
export interface MessageInput<M = JsonObject> {
  readonly role: Role;
  readonly content: string | readonly Part[];
  readonly id?: string;
  readonly name?: string;
  readonly parentId?: string;
  readonly provider?: Provider;
  readonly metadata?: M;
  readonly reply?: Reply;
}

/** A message of a session. */
export interface Message<M = JsonObject> extends MessageInput<M> {
  readonly id: string;
  readonly createdAt: string;
  readonly seq: number;
}

/** Bytes on their way to the store, under their digest. */
export interface Blob {
  readonly digest: Digest;
  readonly bytes: Uint8Array;
}

/** Its value is nobody else's: `messageView` makes the message of it. What it holds is frozen. */
export interface EncodedMessage extends Encoded<MessageInput> {
  readonly blobs: readonly Blob[];
}

const ROLES: ReadonlySet<unknown> = new Set<Role>(["system", "user", "assistant", "tool"]);
export const FINISHES: ReadonlySet<unknown> = new Set<Finish>([
  "stop",
  "tool-calls",
  "length",
  "content-filter",
  "pause",
  "error",
  "other",
]);
const OUTCOMES: ReadonlySet<unknown> = new Set<ToolResultPart["outcome"]>([
  "ok",
  "error",
  "denied",
]);
/** Of file data that is stored. */
const DATA_KINDS = ["digest", "url", "text", "ref"] as const;
const FIELDS: ReadonlySet<string> = new Set([
  "role",
  "content",
  "id",
  "name",
  "parentId",
  "provider",
  "metadata",
  "reply",
]);
/**
 * Assigned by the journal. A message that came out of a session may go back in: these are left
 * behind.
 */
const ASSIGNED: ReadonlySet<string> = new Set(["createdAt", "seq"]);

export function encodeMessage(input: unknown, path: string): EncodedMessage {
  if (typeof input !== "object" || input === null || isList(input)) {
    throw invalidValue(
      path,
      `a message is an object with role and content, not ${typeName(input)}`,
    );
  }
  const given = fieldsOf(input, path);
  const flat = encodeFlat(given);
  if (flat !== undefined) return flat;
  const draft: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || ASSIGNED.has(key)) continue;
    if (!FIELDS.has(key))
      throw invalidValue(
        pathTo(path, key),
        "a message has no such field; `metadata` holds what is your own",
      );
    draft[key] = value;
  }
  const blobs: Blob[] = [];
  const { content } = draft;
  if (typeof content === "object" && content !== null)
    draft.content = new Lift(`${path}.content`, blobs).content(content);
  const { value, text, bytes } = encode(draft, path) as unknown as Encoded<MessageInput>;
  check(value, path);
  return { value: { ...value }, text, bytes, blobs };
}

const NO_BLOBS: readonly Blob[] = Object.freeze([]);
/** What JSON escapes, and what takes more than one byte. */
const UNPLAIN = /[^ !#-[\]-~]/;
/** Whatever it holds, a text of this length stays below the limit once it is encoded. */
const FLAT_CHARS = 1024 * 1024;

/**
 * Most messages are a role and a text. They need no walk; takes over `fields`. Whatever is wrong or
 * long is left to the walk.
 */
function encodeFlat(fields: Record<string, unknown>): EncodedMessage | undefined {
  const keys = Object.keys(fields);
  const isOrdered = keys[0] === "role" && keys[1] === "content";
  if (keys.length !== 2 || !(isOrdered || (keys[0] === "content" && keys[1] === "role")))
    return undefined;
  const { role, content } = fields;
  if (typeof content !== "string" || content.length > FLAT_CHARS || !ROLES.has(role))
    return undefined;
  // Much prose holds nothing to escape: one look costs less than copying the text, and tells its
  // size as well.
  const isPlain = !UNPLAIN.test(content);
  if (!isPlain && !content.isWellFormed()) return undefined;
  const body = isPlain ? `"${content}"` : JSON.stringify(content);
  const text = isOrdered
    ? `{"role":"${role as Role}","content":${body}}`
    : `{"content":${body},"role":"${role as Role}"}`;
  return {
    value: fields as unknown as MessageInput,
    text,
    bytes: isPlain ? text.length : Buffer.byteLength(text),
    blobs: NO_BLOBS,
  };
}

/**
 * Puts the digest of a file's bytes where the bytes were, also inside tool results. Reads each
 * property of a part once.
 */
class Lift {
  readonly #path: string;
  readonly #blobs: Blob[];
  /**
   * Outputs that were met. One that is shared is lifted once: thirty results can hold one another
   * along a billion paths.
   */
  readonly #met = new Map<object, unknown>();

  constructor(path: string, blobs: Blob[]) {
    this.#path = path;
    this.#blobs = blobs;
  }

  content(content: object): unknown {
    return this.#list(content, this.#path, 1);
  }

  #list(list: object, path: string, depth: number): unknown {
    if (depth > MAX_DEPTH) throw invalidValue(this.#path, TOO_DEEP);
    const met = this.#met.get(list);
    if (met !== undefined) return met;
    const lifted =
      itemsOf(list, path)?.map((item, i) => this.#item(item, `${path}[${i}]`, depth + 1)) ?? list;
    this.#met.set(list, lifted);
    return lifted;
  }

  #item(item: unknown, path: string, depth: number): unknown {
    if (typeof item !== "object" || item === null || isList(item)) return item;
    const part = fieldsOf(item, path);
    const { type, data, output } = part;
    if (type === "tool-result" && typeof output === "object" && output !== null)
      part.output = this.#list(output, `${path}.output`, depth + 1);
    if (type === "file" && typeof data === "object" && data !== null && !isList(data))
      part.data = this.#data(fieldsOf(data, `${path}.data`), part.mediaType, path);
    return part;
  }

  #data(data: Record<string, unknown>, mediaType: unknown, path: string): unknown {
    if (!Object.hasOwn(data, "bytes")) return data;
    const { bytes, ...rest } = data;
    const others = DATA_KINDS.some((kind) => rest[kind] !== undefined);
    if (!isUint8Array(bytes)) {
      // In what a tool answered this is a size, or anything else: only what says its media type is
      // meant as one of our files.
      if (typeof mediaType !== "string" || (bytes === undefined && others)) return data;
      throw invalidValue(`${path}.data.bytes`, "file bytes are a Uint8Array");
    }
    if (others) throw invalidValue(`${path}.data`, ONE_KIND);
    checkFields({ mediaType }, MEDIA_TYPE, path, "file");
    checkMediaType(mediaType as string, path);
    const copy = copyOf(bytes, `${path}.data.bytes`);
    const named = digest(copy);
    this.#blobs.push({ digest: named, bytes: copy });
    return { ...rest, digest: named, sizeBytes: copy.length };
  }
}

/** The caller may go on to change its buffer before the save. */
function copyOf(bytes: Uint8Array, path: string): Uint8Array {
  try {
    return new Uint8Array(bytes);
  } catch (cause) {
    throw invalidValue(path, "the bytes cannot be read; their buffer was given away", cause);
  }
}

/** Whether a value from a journal is a message as `encodeMessage` makes them. */
export function isStoredMessage(value: unknown): value is MessageInput {
  if (!isObject(value)) return false;
  const keys = Object.keys(value);
  // Most messages are a role and a text.
  if (keys.length === 2 && typeof value["content"] === "string") return ROLES.has(value["role"]);
  if (!keys.every((key) => FIELDS.has(key))) return false;
  try {
    check(value as unknown as MessageInput, "message");
    return true;
  } catch {
    return false;
  }
}

function check(message: MessageInput, path: string): void {
  if (!ROLES.has(message.role))
    throw invalidValue(`${path}.role`, "a role is system, user, assistant or tool");
  if (message.id !== undefined) checkName(message.id, `${path}.id`);
  if (message.parentId !== undefined) checkName(message.parentId, `${path}.parentId`);
  checkFields(message, OF_MESSAGE, path);
  if (message.reply !== undefined) {
    if (!FINISHES.has(message.reply.finish))
      throw invalidValue(`${path}.reply.finish`, `a finish is one of ${[...FINISHES].join(", ")}`);
    checkFields(message.reply, OF_REPLY, `${path}.reply`);
  }
  if (typeof message.content === "string") return;
  if (!Array.isArray(message.content))
    throw invalidValue(`${path}.content`, "content is a string or an array of parts");
  message.content.forEach((part: Json, i) => checkPart(part, `${path}.content[${i}]`));
}

type FieldType = "string" | "object" | "any" | "provider" | "true";
type Fields = readonly (readonly [name: string, type: FieldType])[];

const fields = (types: Readonly<Record<string, FieldType>>): Fields => Object.entries(types);
const OF_MESSAGE = fields({
  name: "string",
  provider: "object",
  metadata: "object",
  reply: "object",
});
const OF_REPLY = fields({
  provider: "string",
  model: "string",
  responseId: "string",
  rawFinish: "string",
  usage: "object",
});
const OF_ALL_PARTS = fields({ id: "string", provider: "object" });
const OF_FILE_DATA = fields({ url: "string", text: "string", ref: "object" });
const MEDIA_TYPE = fields({ mediaType: "string" });
/** What a part must have, and what it may have. */
const PARTS: ReadonlyMap<unknown, readonly [needs: Fields, may: Fields]> = new Map<
  Part["type"],
  readonly [Fields, Fields]
>([
  ["text", [fields({ text: "string" }), []]],
  ["reasoning", [fields({ text: "string" }), []]],
  [
    "file",
    [
      fields({ mediaType: "string", data: "object" }),
      fields({ name: "string", reasoning: "true" }),
    ],
  ],
  [
    "tool-call",
    [
      fields({ callId: "string", name: "string", input: "any" }),
      fields({ raw: "string", by: "provider" }),
    ],
  ],
  [
    "tool-result",
    [
      fields({ callId: "string", outcome: "string", output: "any" }),
      fields({ name: "string", by: "provider" }),
    ],
  ],
  ["opaque", [fields({ format: "string", value: "any" }), fields({ text: "string" })]],
]);

export const noSuchPart = (path: string): HoldfastError =>
  invalidValue(
    `${path}.type`,
    "a part's type is text, reasoning, file, tool-call, tool-result or opaque",
  );

/** The fields that a part of a type may have; undefined where there is no such type. */
export function fieldsOfPart(type: unknown): readonly string[] | undefined {
  const known = PARTS.get(type);
  return known && ["type", ...[...known[0], ...known[1], ...OF_ALL_PARTS].map(([name]) => name)];
}

function checkPart(part: Json, path: string): void {
  if (!isObject(part)) throw invalidValue(path, "a part is an object with a type");
  const known = PARTS.get(part.type);
  if (known === undefined) throw noSuchPart(path);
  checkFields(part, known[0], path, part.type as string);
  checkFields(part, known[1], path);
  checkFields(part, OF_ALL_PARTS, path);
  if (part.type === "file") {
    checkMediaType(part.mediaType as string, path);
    checkFile(part.data as JsonObject, `${path}.data`);
  }
  if (part.type === "tool-result" && !OUTCOMES.has(part.outcome))
    throw invalidValue(`${path}.outcome`, "an outcome is ok, error or denied");
}

/** Absent or of its type. `neededBy` names the part that cannot be without. */
function checkFields(of: object, those: Fields, path: string, neededBy?: string): void {
  for (const [name, type] of those) {
    const value = (of as Readonly<Record<string, unknown>>)[name];
    if (value === undefined) {
      if (neededBy !== undefined)
        throw invalidValue(`${path}.${name}`, `a ${neededBy} part needs it`);
      continue;
    }
    const [fits, says] = FITS[type];
    if (!fits(value))
      throw invalidValue(`${path}.${name}`, `it is ${typeName(value)}, and must be ${says}`);
  }
}

/** Each of its two sides has at most 127 characters (RFC 6838). */
export const MAX_MEDIA_TYPE = 255;

function checkMediaType({ length }: string, path: string): void {
  if (length > MAX_MEDIA_TYPE)
    throw invalidValue(
      `${path}.mediaType`,
      `it has ${length} characters, and may have ${MAX_MEDIA_TYPE}. Leave out its parameters`,
    );
}

const ONE_KIND = "file data is one of bytes, digest, url, text and ref";

function checkFile(data: JsonObject, path: string): void {
  const kinds = DATA_KINDS.filter((kind) => Object.hasOwn(data, kind));
  if (kinds.length !== 1) throw invalidValue(path, ONE_KIND);
  if (kinds[0] !== "digest") checkFields(data, OF_FILE_DATA, path);
  else if (
    !(
      isDigest(data.digest) &&
      Number.isSafeInteger(data.sizeBytes) &&
      (data.sizeBytes as number) >= 0
    )
  )
    throw invalidValue(path, "a stored file has a digest and its sizeBytes");
}

const FITS: Readonly<
  Record<FieldType, readonly [fits: (value: unknown) => boolean, says: string]>
> = {
  any: [() => true, "JSON"],
  string: [(value) => typeof value === "string", "a string"],
  object: [isObject, "an object"],
  provider: [(value) => value === "provider", '"provider" or absent'],
  true: [(value) => value === true, "true or absent"],
};

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !isList(value);
}

/** List the parts of a message; content that is text is one part. */
export const partsOf = (message: MessageInput<never> | MessageInput): readonly Part[] =>
  readParts(message, (parts) => parts);

/** Read the text of a message, without its other parts. */
export const textOf = (message: MessageInput<never> | MessageInput): string =>
  readParts(message, (parts) =>
    parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join(""),
  );

/** Callers without types may give any value, and one whose getters throw. */
function readParts<R>(message: unknown, read: (parts: readonly Part[]) => R): R {
  let cause: unknown;
  try {
    const content = isObject(message) ? message["content"] : undefined;
    if (typeof content === "string") return read([{ type: "text", text: content }]);
    if (isList(content) && content.every(isObject))
      return read(content as unknown as readonly Part[]);
  } catch (error) {
    cause = error;
  }
  throw invalidValue(
    "message",
    `it must be a message, with text or a list of parts as its content, not ${typeName(message)}`,
    cause,
  );
}

/**
 * Digests of the blobs a stored message refers to. What a tool answered may look like a file: only
 * a whole file part is one.
 */
export function blobsOf(content: Json | readonly Part[]): Digest[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part: unknown) => {
    if (!isObject(part)) return [];
    const { type, mediaType, data, output } = part;
    if (type === "tool-result") return blobsOf(output as Json);
    return type === "file" &&
      typeof mediaType === "string" &&
      isObject(data) &&
      isDigest(data.digest)
      ? [data.digest]
      : [];
  });
}
