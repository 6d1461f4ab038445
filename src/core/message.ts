/**
 * The message model: one shape that holds what Anthropic, OpenAI, the AI SDK and LangChain messages say.
 *
 * Any part may stand in any role. Bytes of a file part leave the message for a blob named by its digest, at staging, so that a
 * live run and a resumed one see the same.
 */
import { type Digest, digest, isDigest } from "./digest.js";
import { HoldfastError } from "./errors.js";
import { checkName, typeName } from "./ids.js";
import { type Encoded, encode, type Json, type JsonObject } from "./json.js";

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
export interface TextPart extends PartBase {
  readonly type: "text";
  readonly text: string;
}
export interface ReasoningPart extends PartBase {
  readonly type: "reasoning";
  readonly text: string;
}
export interface FilePart extends PartBase {
  readonly type: "file";
  readonly mediaType: string;
  readonly data: FileData;
  readonly name?: string;
  readonly reasoning?: true;
}
export interface ToolCallPart extends PartBase {
  readonly type: "tool-call";
  readonly callId: string;
  readonly name: string;
  readonly input: Json;
  readonly raw?: string;
  readonly by?: "provider";
}
export interface ToolResultPart extends PartBase {
  readonly type: "tool-result";
  readonly callId: string;
  readonly name?: string;
  readonly outcome: "ok" | "error" | "denied";
  readonly output: Json | readonly Part[];
  readonly by?: "provider";
}
export interface OpaquePart extends PartBase {
  readonly type: "opaque";
  readonly format: string;
  readonly value: Json;
  readonly text?: string;
}
export type Part = TextPart | ReasoningPart | FilePart | ToolCallPart | ToolResultPart | OpaquePart;

export interface Usage {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly reasoningTokens?: number;
  readonly raw?: JsonObject;
}
export type Finish = "stop" | "tool-calls" | "length" | "content-filter" | "pause" | "error" | "other";
export interface Reply {
  readonly provider?: string;
  readonly model?: string;
  readonly responseId?: string;
  readonly finish: Finish;
  readonly rawFinish?: string;
  readonly usage?: Usage;
}

export type Role = "system" | "user" | "assistant" | "tool";

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

export interface EncodedMessage extends Encoded<MessageInput> {
  readonly blobs: readonly Blob[];
}

const ROLES: ReadonlySet<unknown> = new Set<Role>(["system", "user", "assistant", "tool"]);
const FINISHES: ReadonlySet<unknown> = new Set<Finish>(["stop", "tool-calls", "length", "content-filter", "pause", "error", "other"]);
const FIELDS: ReadonlySet<string> = new Set(["role", "content", "id", "name", "parentId", "provider", "metadata", "reply"]);
/** Assigned by the journal. A message that came out of a session may go back in: these are left behind. */
const ASSIGNED: ReadonlySet<string> = new Set(["createdAt", "seq"]);

export function encodeMessage(input: unknown, path: string): EncodedMessage {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    throw refuse(path, `a message is an object with role and content, not ${typeName(input)}`);
  }
  const blobs: Blob[] = [];
  const draft: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(input)) {
    if (ASSIGNED.has(key)) continue;
    if (!FIELDS.has(key)) throw refuse(`${path}.${key}`, "a message has no such field; `metadata` holds what is your own");
    draft[key] = key === "content" ? liftBytes(value, `${path}.content`, blobs) : value;
  }
  const encoded = encode(draft, path) as unknown as Encoded<MessageInput>;
  check(encoded.value, path);
  return { ...encoded, blobs };
}

/** Puts the digest of a file's bytes where the bytes were, also inside tool results. */
function liftBytes(content: unknown, path: string, blobs: Blob[]): unknown {
  if (!Array.isArray(content)) return content;
  return content.map((part: unknown, i) => {
    if (typeof part !== "object" || part === null) return part;
    const { type, data, output } = part as Record<string, unknown>;
    if (type === "tool-result" && Array.isArray(output)) return { ...part, output: liftBytes(output, `${path}[${i}].output`, blobs) };
    if (type !== "file" || typeof data !== "object" || data === null || !("bytes" in data)) return part;
    if (!(data.bytes instanceof Uint8Array)) throw refuse(`${path}[${i}].data.bytes`, "file bytes are a Uint8Array");
    // A copy: the caller may go on to change its buffer before the save.
    const bytes = Uint8Array.prototype.slice.call(data.bytes);
    const named = digest(bytes);
    blobs.push({ digest: named, bytes });
    return { ...part, data: { digest: named, sizeBytes: bytes.length } };
  });
}

function check(message: MessageInput, path: string): void {
  if (!ROLES.has(message.role)) throw refuse(`${path}.role`, "a role is system, user, assistant or tool");
  if (message.id !== undefined) checkName(message.id, `${path}.id`);
  if (message.parentId !== undefined) checkName(message.parentId, `${path}.parentId`);
  optional(message.name, "string", `${path}.name`);
  optional(message.provider, "object", `${path}.provider`);
  optional(message.metadata, "object", `${path}.metadata`);
  if (message.reply !== undefined) {
    optional(message.reply, "object", `${path}.reply`);
    if (!FINISHES.has(message.reply.finish)) throw refuse(`${path}.reply.finish`, `a finish is one of ${[...FINISHES].join(", ")}`);
    optional(message.reply.usage, "object", `${path}.reply.usage`);
  }
  if (typeof message.content === "string") return;
  if (!Array.isArray(message.content)) throw refuse(`${path}.content`, "content is a string or an array of parts");
  checkParts(message.content, `${path}.content`);
}

function checkParts(parts: readonly Part[], path: string): void {
  parts.forEach((part, i) => {
    const at = `${path}[${i}]`;
    if (typeof part !== "object" || part === null || Array.isArray(part)) throw refuse(at, "a part is an object with a type");
    required(part, PART_FIELDS[part.type], at);
    optional(part.id, "string", `${at}.id`);
    optional(part.provider, "object", `${at}.provider`);
    if (part.type === "file") checkFile(part.data, `${at}.data`);
    if (part.type === "tool-result" && !["ok", "error", "denied"].includes(part.outcome)) {
      throw refuse(`${at}.outcome`, "an outcome is ok, error or denied");
    }
  });
}

const PART_FIELDS: Readonly<Record<string, Readonly<Record<string, "string" | "any" | "object">>>> = Object.assign(Object.create(null), {
  text: { text: "string" },
  reasoning: { text: "string" },
  file: { mediaType: "string", data: "object" },
  "tool-call": { callId: "string", name: "string", input: "any" },
  "tool-result": { callId: "string", outcome: "string", output: "any" },
  opaque: { format: "string", value: "any" },
});

function required(part: Part, fields: Readonly<Record<string, "string" | "any" | "object">> | undefined, path: string): void {
  if (!fields) throw refuse(`${path}.type`, "a part's type is text, reasoning, file, tool-call, tool-result or opaque");
  for (const [field, type] of Object.entries(fields)) {
    const value = (part as unknown as Record<string, unknown>)[field];
    if (value === undefined) throw refuse(`${path}.${field}`, `a ${part.type} part needs it`);
    if (type !== "any") optional(value, type, `${path}.${field}`);
  }
}

function checkFile(data: FileData, path: string): void {
  const kinds = ["digest", "url", "text", "ref"].filter((kind) => Object.hasOwn(data, kind));
  if (kinds.length !== 1) throw refuse(path, "file data is one of bytes, digest, url, text and ref");
  if ("digest" in data && !(isDigest(data.digest) && Number.isSafeInteger(data.sizeBytes) && data.sizeBytes >= 0)) {
    throw refuse(path, "a stored file has a digest and its sizeBytes");
  }
  if ("url" in data) optional(data.url, "string", `${path}.url`);
  if ("text" in data) optional(data.text, "string", `${path}.text`);
  if ("ref" in data) optional(data.ref, "object", `${path}.ref`);
}

function optional(value: unknown, type: "string" | "object", path: string): void {
  if (value === undefined) return;
  const fits = type === "string" ? typeof value === "string" : typeof value === "object" && value !== null && !Array.isArray(value);
  if (!fits) throw refuse(path, `it is ${typeName(value)}, and must be ${type === "string" ? "a string" : "an object"}`);
}

function refuse(path: string, why: string): HoldfastError {
  return new HoldfastError("INVALID_VALUE", `${path}: ${why}.`, { path });
}

export function partsOf(message: MessageInput<never> | MessageInput): readonly Part[] {
  return typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
}

export function textOf(message: MessageInput<never> | MessageInput): string {
  if (typeof message.content === "string") return message.content;
  return message.content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
}

/** Digests of the blobs a stored message refers to. */
export function blobsOf(content: MessageInput["content"]): Digest[] {
  if (typeof content === "string") return [];
  return content.flatMap((part) => {
    if (part.type === "file" && "digest" in part.data) return [part.data.digest];
    if (part.type === "tool-result" && Array.isArray(part.output)) return blobsOf(part.output.filter(isPart));
    return [];
  });
}

function isPart(value: unknown): value is Part {
  return typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";
}

export const MAX_TITLE = 80;

/** A title from the first user message: its first line with text, cut between characters as a reader sees them. */
export function titleOf(message: MessageInput): string | undefined {
  if (message.role !== "user") return undefined;
  const line = textOf(message)
    .slice(0, 4000)
    .trim()
    .split(/\r?\n|\r|\u2028|\u2029/, 1)[0]
    ?.replace(/\p{Cc}/gu, " ")
    .replace(/\s+/g, " ")
    .trim();
  if (!line) return undefined;
  if (line.length <= MAX_TITLE) return line.isWellFormed() ? line : line.toWellFormed();
  let title = "";
  for (const { segment } of new Intl.Segmenter("en", { granularity: "grapheme" }).segment(line.slice(0, MAX_TITLE * 4))) {
    if (title.length + segment.length > MAX_TITLE - 1) break;
    title += segment;
  }
  return `${title.trimEnd() || line.slice(0, 1).toWellFormed()}…`;
}

export function tokensOf(message: MessageInput): number {
  const usage = message.reply?.usage;
  return count(usage?.inputTokens) + count(usage?.outputTokens);
}

const count = (n: unknown): number => (typeof n === "number" && Number.isFinite(n) && n > 0 ? Math.floor(n) : 0);
