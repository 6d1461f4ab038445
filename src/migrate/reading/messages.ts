/** What messages of all four systems have in common. */
import type { FilePart, Json, JsonObject, MessageInput } from "../../index.js";
import { present, withSource } from "./fields.js";
import { isName } from "./names.js";

const ROLES: Readonly<Record<string, MessageInput["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  human: "user",
  assistant: "assistant",
  ai: "assistant",
  model: "assistant",
  tool: "tool",
  function: "tool",
};

/** A role that Holdfast has. `was` is theirs, where it is another word. */
export function roleOf(theirs: string): {
  readonly role: MessageInput["role"];
  readonly was?: string;
} {
  const name = theirs.toLowerCase();
  const role = Object.hasOwn(ROLES, name) ? (ROLES[name] as MessageInput["role"]) : "user";
  return role === name ? { role } : { role, was: theirs };
}

export interface TheirMessage {
  readonly id?: string | undefined;
  readonly parentId?: string | undefined;
  /** Metadata of their own. */
  readonly metadata?: JsonObject | undefined;
  /** What else they say of it and Holdfast has no field for. */
  readonly source: Readonly<Record<string, Json | undefined>>;
}

/** A message under their ids, where Holdfast takes them; otherwise they are kept beside. */
export function namedMessage(
  message: MessageInput,
  { id, parentId, metadata, source }: TheirMessage,
): MessageInput {
  const isId = id !== undefined && isName(id);
  const isParent = parentId !== undefined && isName(parentId);
  const kept = present({
    ...source,
    id: isId ? undefined : id,
    parentId: isParent ? undefined : parentId,
  });
  const all =
    Object.keys(kept).length === 0 && !(metadata && Object.hasOwn(metadata, "source"))
      ? metadata
      : withSource(metadata, kept);
  return {
    ...message,
    ...(isId && { id }),
    ...(isParent && { parentId }),
    ...(all !== undefined && Object.keys(all).length > 0 && { metadata: all }),
  };
}

/**
 * An id names one message: of those that repeat it, the first has it, and the others keep it
 * beside.
 */
export function withOwnIds(messages: readonly MessageInput[]): readonly MessageInput[] {
  const taken = new Set<string>();
  return messages.map((message) => {
    const { id, ...rest } = message;
    if (id === undefined || !taken.has(id)) {
      if (id !== undefined) taken.add(id);
      return message;
    }
    return { ...rest, metadata: { ...rest.metadata, repeats: id } };
  });
}

const DATA_URL = /^data:([^,;]*)(?:;[^,;]*)*?(;base64)?,/i;

/** A file at an address; one that is inside of its address, as its bytes. */
export function fileAt(url: string, mediaType: string | undefined): FilePart {
  const found =
    url.length > 5 && url.slice(0, 5).toLowerCase() === "data:"
      ? DATA_URL.exec(url.slice(0, 1_000))
      : null;
  if (found === null)
    return { type: "file", mediaType: mediaType ?? "application/octet-stream", data: { url } };
  const [head, said, isBase64] = found;
  const body = url.slice(head.length);
  const bytes = isBase64 === undefined ? percentDecoded(body) : looseBytesOf(body);
  const type = mediaType ?? (said || "text/plain");
  return { type: "file", mediaType: type, data: bytes === undefined ? { url } : { bytes } };
}

function percentDecoded(text: string): Uint8Array | undefined {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch {
    return undefined;
  }
}

/**
 * Undefined for what is not base64 to the letter: it may be a text that happens to look like it.
 */
export function bytesOf(base64: string): Uint8Array | undefined {
  if (base64.length % 4 !== 0) return undefined;
  const bytes = Buffer.from(base64, "base64");
  return bytes.toString("base64") === base64 ? bytes : undefined;
}

/** The same of what is known to be base64: it may be wrapped, unpadded, or safe for addresses. */
export function looseBytesOf(base64: string): Uint8Array | undefined {
  const padded = base64.replace(/\s+/g, "").replaceAll("-", "+").replaceAll("_", "/");
  // No pattern: one that ends with $ looks over each run of `=` again from each of them.
  let end = padded.length;
  while (padded[end - 1] === "=") end -= 1;
  return bytesOf(padded.slice(0, end).padEnd(Math.ceil(end / 4) * 4, "="));
}
