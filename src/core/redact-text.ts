/**
 * Editing texts wherever they stand in a value or a message, and nothing else: what is not changed is the same object afterwards.
 *
 * Texts are all strings of a value, and the keys of its objects. What a message is made of (roles, types, ids, names of tools) is no text of
 * anybody's: it stays.
 */
import type { Digest } from "./digest.js";
import { type Json, type JsonObject, put } from "./json.js";
import type { MessageInput, Part, Role } from "./message.js";

/** What a text is, and the property it stands under, where that is known. */
export type RedactionPlace = (
  | { readonly in: "message"; readonly role: Role }
  /** Of a call: the tool is run with them. */
  | { readonly in: "arguments"; readonly tool: string }
  | { readonly in: "result"; readonly tool?: string }
  | { readonly in: "state"; readonly key: string }
  | { readonly in: "signal"; readonly name: string }
  /** Label, description and metadata of a checkpoint; title, tags and metadata of a session; what is kept of an agent, or said of a snapshot. */
  | { readonly in: "checkpoint" | "session" | "agent" | "snapshot" }
  /** What a session has come to, why, and who decided about a call, with what words. */
  | { readonly in: "output" | "reason" | "note" }
  /** What a model is given before the transcript. */
  | { readonly in: "system" }
) & { readonly field?: string };

/** Gives the text that is to stand in the place of another: the same, where nothing is to be changed. */
export type Redact = (text: string, where: RedactionPlace) => string;

export interface TextEdit {
  readonly text: Redact;
  /** Whether a number is taken for the text it is written as. One whose text is changed becomes that text. */
  readonly numbers?: boolean;
  /** Another file in the place of one that is kept. */
  readonly file?: (name: Digest) => { readonly digest: Digest; readonly sizeBytes: number } | undefined;
  /** Whether a call, counted among those of its message, is to be left as it is. */
  readonly leaves?: (call: number) => boolean;
  /** Told of names that things are known by. They stay. */
  readonly name?: (name: string, what: NameKind) => void;
}

export type NameKind = "message-id" | "call-id" | "tool" | "effect-key" | "turn-key" | "signal" | "state-key" | "session-id" | "agent";

/** A value with its texts edited. */
export function editJson(value: Json, edit: TextEdit, where: RedactionPlace): Json {
  switch (typeof value) {
    case "string":
      return edit.text(value, where);
    case "number": {
      if (!edit.numbers) return value;
      const text = String(value);
      const edited = edit.text(text, where);
      return edited === text ? value : edited;
    }
    case "object":
      if (value === null) return null;
      return Array.isArray(value)
        ? editList(value, (item) => editJson(item, edit, where))
        : editFields(value as JsonObject, edit, where, NOBODYS);
    default:
      return value;
  }
}

function editList<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  let edited: T[] | undefined;
  for (const [i, item] of list.entries()) {
    const next = change(item, i);
    if (next !== item) edited ??= list.slice();
    if (edited !== undefined) edited[i] = next;
  }
  return edited ?? list;
}

/** Of an object with fields of the model: those that stay as they are, and those whose names stay. All else is somebody's own. */
interface Shape {
  readonly kept: ReadonlySet<string>;
  readonly named: ReadonlySet<string>;
}

const shape = (kept: readonly string[], named: readonly string[]): Shape => ({ kept: new Set(kept), named: new Set(named) });
const NOBODYS = shape([], []);

/** Two keys that come to be one stay two. */
function editFields(fields: JsonObject, edit: TextEdit, where: RedactionPlace, { kept, named }: Shape): JsonObject {
  const edited: Record<string, Json> = {};
  let isSame = true;
  for (const [key, value] of Object.entries(fields)) {
    const isKept = kept.has(key);
    const name = isKept || named.has(key) ? key : edit.text(key, where);
    const next = isKept ? value : editJson(value, edit, { ...where, field: key });
    let free = name;
    for (let n = 2; Object.hasOwn(edited, free) || (free !== key && Object.hasOwn(fields, free)); n++) free = `${name} ${n}`;
    if (free !== key || next !== value) isSame = false;
    put(edited, free, next);
  }
  return isSame ? fields : edited;
}

/** Who decided about a call, and what was said with it. The same where nothing is changed. */
export function editDecision<T extends { readonly by?: string; readonly note?: string }>(decision: T, edit: Pick<TextEdit, "text">): T {
  const { by, note } = decision;
  const words = {
    ...(by !== undefined && { by: edit.text(by, { in: "note", field: "by" }) }),
    ...(note !== undefined && { note: edit.text(note, { in: "note" }) }),
  };
  return words.by === by && words.note === note ? decision : { ...decision, ...words };
}

/** An object with other values under some of its keys, in the order it has; the same where they are the same. */
function withFields(fields: JsonObject, changes: Readonly<Record<string, unknown>>): JsonObject {
  const differs = Object.entries(changes).some(([key, value]) => value !== fields[key]);
  return differs ? { ...fields, ...(changes as JsonObject) } : fields;
}

// ---- messages

const MESSAGE = shape(["role", "id", "parentId", "content", "reply"], ["name", "provider", "metadata"]);
const OWN = ["type", "id", "callId", "mediaType", "outcome", "by", "format"];
const PART = shape(OWN, ["text", "value", "name", "provider", "reasoning", "data"]);
const FILE = shape([...OWN, "data"], ["name", "provider", "reasoning"]);
/** Bytes, where a message is on its way in a letter, are no text. */
const FILE_DATA = shape(["digest", "sizeBytes", "bytes"], ["url", "text", "ref"]);
const CALL = shape([...OWN, "name"], ["input", "raw", "provider"]);
const RESULT = shape([...OWN, "name", "output"], ["provider"]);

/** A message with its texts edited. What is known of the reply that it is stays, but for what a provider says of its usage. */
export function editMessage<T extends MessageInput>(message: T, edit: TextEdit): T {
  const where = { in: "message", role: message.role } as const;
  for (const id of [message.id, message.parentId]) if (id !== undefined) edit.name?.(id, "message-id");
  const fields = editFields(message as unknown as JsonObject, edit, where, MESSAGE);
  const content = typeof message.content === "string" ? edit.text(message.content, where) : editParts(message.content, edit, message.role);
  const usage = message.reply?.usage;
  const raw = usage?.raw && editJson(usage.raw, edit, { ...where, field: "raw" });
  const reply = raw === usage?.raw ? message.reply : { ...message.reply, usage: { ...usage, raw } };
  return withFields(fields, { content, ...(reply && { reply }) }) as unknown as T;
}

function editParts(parts: readonly Part[], edit: TextEdit, role: Role): readonly Part[] {
  let calls = -1;
  return editList(parts, (part) => {
    const isCall = part.type === "tool-call" && part.by !== "provider";
    if (isCall) calls += 1;
    return isCall && edit.leaves?.(calls) ? part : editPart(part, edit, role);
  });
}

function editPart(part: Part, edit: TextEdit, role: Role): Part {
  const given = part as unknown as JsonObject;
  const where = { in: "message", role } as const;
  if (part.type === "tool-call" || part.type === "tool-result") {
    edit.name?.(part.callId, "call-id");
    if (typeof part.name === "string") edit.name?.(part.name, "tool");
  }
  switch (part.type) {
    case "tool-call":
      return editFields(given, edit, { in: "arguments", tool: part.name }, CALL) as unknown as Part;
    case "tool-result": {
      const of = { in: "result", ...(part.name !== undefined && { tool: part.name }) } as const;
      const output = editOutput(part.output as Json, edit, role, of);
      return withFields(editFields(given, edit, of, RESULT), { output }) as unknown as Part;
    }
    case "file": {
      const data = editData(part.data as unknown as JsonObject, edit, where);
      return withFields(editFields(given, edit, where, FILE), { data }) as unknown as Part;
    }
    default:
      return editFields(given, edit, where, PART) as unknown as Part;
  }
}

/** What a tool answered may hold files that are kept. */
function editOutput(output: Json, edit: TextEdit, role: Role, where: RedactionPlace): Json {
  if (!Array.isArray(output)) return editJson(output, edit, where);
  return editList(output as readonly Json[], (item) =>
    isPart(item) ? (editPart(item as unknown as Part, edit, role) as unknown as Json) : editJson(item, edit, where),
  );
}

function isPart(item: Json): boolean {
  if (typeof item !== "object" || item === null || Array.isArray(item)) return false;
  const { type, mediaType, data, callId } = item as JsonObject;
  if (type === "tool-result") return typeof callId === "string";
  return type === "file" && typeof mediaType === "string" && typeof data === "object" && data !== null && !Array.isArray(data);
}

function editData(data: JsonObject, edit: TextEdit, where: RedactionPlace): JsonObject {
  const fields = editFields(data, edit, where, FILE_DATA);
  const other = typeof data["digest"] === "string" ? edit.file?.(data["digest"]) : undefined;
  return other === undefined ? fields : { ...fields, ...other };
}
