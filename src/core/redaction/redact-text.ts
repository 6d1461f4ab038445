/**
 * Editing texts wherever they stand in a value or a message, and nothing else: what is not changed
 * is the same object afterwards.
 *
 * Texts are all strings of a value, and the keys of its objects. What a message is made of (roles,
 * types, ids, names of tools) is no text of anybody's: it stays.
 */
import {
  isObject,
  MAX_MEDIA_TYPE,
  type MessageInput,
  type Part,
  type Role,
} from "../messages/message.js";
import { type Digest, isDigest } from "../values/digest.js";
import { type Json, type JsonObject, put } from "../values/json.js";

/** What a text is, and the property it stands under, where that is known. */
export type RedactionPlace = (
  | { readonly in: "message"; readonly role: Role }
  /** Of a call: the tool is run with it. */
  | { readonly in: "tool-input"; readonly name: string }
  | { readonly in: "tool-output"; readonly name?: string }
  | { readonly in: "state"; readonly key: string }
  | { readonly in: "signal"; readonly name: string }
  /**
   * Label, description and metadata of a checkpoint; title, tags and metadata of a session; what is
   * kept of an agent, or said of a snapshot.
   */
  | { readonly in: "checkpoint" | "session" | "agent" | "snapshot" }
  /** What a session has come to, why, and who decided about a call, with what words. */
  | { readonly in: "output" | "reason" | "note" }
  /** What a model is given before the transcript. */
  | { readonly in: "system" }
) & { readonly field?: string };

/**
 * A function that gives the text to store in the place of another.
 * It answers the same text if nothing is to be changed.
 */
export type Redact = (text: string, where: RedactionPlace) => string;

export interface TextEdit {
  readonly text: Redact;
  /**
   * Whether a number is taken for the text it is written as. One whose text is changed becomes that
   * text.
   */
  readonly numbers?: boolean;
  /** Another file in the place of one that is kept. */
  readonly file?: (
    name: Digest,
  ) => { readonly digest: Digest; readonly sizeBytes: number } | undefined;
  /** Whether a call, counted among those of its message, is to be left as it is. */
  readonly leaves?: (call: number) => boolean;
  /** Told of names that things are known by. They stay. */
  readonly name?: (name: string, what: NameKind) => void;
}

export type NameKind =
  | "message-id"
  | "part-id"
  | "call-id"
  | "response-id"
  | "provider"
  | "model"
  | "media-type"
  | "file"
  | "tool"
  | "effect-key"
  | "turn-key"
  | "signal"
  | "state-key"
  | "session-id"
  | "agent";

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

/**
 * Of an object with fields of the model: those that stay as they are, those whose names stay, and
 * those that something is known by. A text that is free is never kept: one that something is known
 * by is told (`TextEdit.name`). All else is the writer's own.
 */
interface Shape {
  readonly kept: ReadonlySet<string>;
  readonly named: ReadonlySet<string>;
  readonly known: ReadonlyMap<string, NameKind>;
}

const shape = (
  kept: readonly string[],
  named: readonly string[],
  known: Readonly<Record<string, NameKind>> = {},
): Shape => ({
  kept: new Set(kept),
  named: new Set(named),
  known: new Map(Object.entries(known)),
});
const NOBODYS = shape([], []);

/** Two keys that come to be one stay two. */
function editFields(
  fields: JsonObject,
  edit: TextEdit,
  where: RedactionPlace,
  { kept, named, known }: Shape,
): JsonObject {
  const edited: Record<string, Json> = {};
  const tried = new Map<string, number>();
  let isSame = true;
  for (const [key, value] of Object.entries(fields)) {
    const what = typeof value === "string" ? known.get(key) : undefined;
    if (what !== undefined) edit.name?.(value as string, what);
    const isKept = what !== undefined || kept.has(key);
    const name = isKept || named.has(key) ? key : edit.text(key, where);
    const next = isKept ? value : editJson(value, edit, { ...where, field: key });
    let free = name;
    // What was tried for one key is taken for the next that comes to the same: thousands of keys
    // may.
    let n = tried.get(name) ?? 1;
    for (
      ;
      Object.hasOwn(edited, free) || (free !== key && Object.hasOwn(fields, free));
      free = `${name} ${n}`
    )
      n += 1;
    if (n > 1) tried.set(name, n);
    if (free !== key || next !== value) isSame = false;
    put(edited, free, next);
  }
  return isSame ? fields : edited;
}

/** Who decided about a call, and what was said with it. The same where nothing is changed. */
export function editDecision<T extends { readonly by?: string; readonly note?: string }>(
  decision: T,
  edit: Pick<TextEdit, "text">,
): T {
  const { by, note } = decision;
  const words = {
    ...(by !== undefined && { by: edit.text(by, { in: "note", field: "by" }) }),
    ...(note !== undefined && { note: edit.text(note, { in: "note" }) }),
  };
  return words.by === by && words.note === note ? decision : { ...decision, ...words };
}

/**
 * An object with other values under some of its keys, in the order it has; the same where they are
 * the same.
 */
function withFields(fields: JsonObject, changes: Readonly<Record<string, unknown>>): JsonObject {
  const differs = Object.entries(changes).some(([key, value]) => value !== fields[key]);
  return differs ? { ...fields, ...(changes as JsonObject) } : fields;
}

// ---- messages

const ID = { id: "part-id" } as const;
const CALL_ID = { ...ID, callId: "call-id", name: "tool" } as const;
const MESSAGE = shape(["role", "content", "reply"], ["name", "provider", "metadata"], {
  id: "message-id",
  parentId: "message-id",
});
const REPLY = shape(["finish", "usage"], ["rawFinish"], {
  provider: "provider",
  model: "model",
  responseId: "response-id",
});
const COUNTS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
];
const TEXT = shape(["type"], ["text", "provider"], ID);
const OPAQUE = shape(["type"], ["format", "value", "text", "provider"], ID);
const FILE = shape(["type", "mediaType", "data"], ["name", "provider", "reasoning"], ID);
const CALL = shape(["type", "by"], ["input", "raw", "provider"], CALL_ID);
const RESULT = shape(["type", "by", "outcome", "output"], ["provider"], CALL_ID);
/**
 * In what a tool answered: all but what makes it a file, or a list of them, is a text of the
 * tool's.
 */
const OUTPUT_FILE = shape(["type", "mediaType", "data"], []);
const OUTPUT_LIST = shape(["type", "output"], []);

/** A message with its texts edited. */
export function editMessage<T extends MessageInput>(message: T, edit: TextEdit): T {
  const where = { in: "message", role: message.role } as const;
  const fields = editFields(message as unknown as JsonObject, edit, where, MESSAGE);
  const content =
    typeof message.content === "string"
      ? edit.text(message.content, where)
      : editParts(message.content, edit, message.role);
  const reply = message.reply && editReply(message.reply as unknown as JsonObject, edit, where);
  return withFields(fields, { content, ...(reply && { reply }) }) as unknown as T;
}

function editReply(reply: JsonObject, edit: TextEdit, where: RedactionPlace): JsonObject {
  const fields = editFields(reply, edit, where, REPLY);
  const { usage } = reply;
  if (!isObject(usage)) return fields;
  const counts = COUNTS.filter((name) => typeof usage[name] === "number");
  return withFields(fields, {
    usage: editFields(usage as JsonObject, edit, where, shape(counts, [...COUNTS, "raw"])),
  });
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
  switch (part.type) {
    case "tool-call":
      return editFields(
        given,
        edit,
        { in: "tool-input", name: part.name },
        CALL,
      ) as unknown as Part;
    case "tool-result": {
      const of = {
        in: "tool-output",
        ...(part.name !== undefined && { name: part.name }),
      } as const;
      return withFields(editFields(given, edit, of, RESULT), {
        output: editOutput(part.output as Json, edit, of),
      }) as unknown as Part;
    }
    case "file":
      return editFile(given, edit, where, FILE) as unknown as Part;
    case "opaque":
      return editFields(given, edit, where, OPAQUE) as unknown as Part;
    default:
      return editFields(given, edit, where, TEXT) as unknown as Part;
  }
}

/** What a tool answered may hold files that are kept: those that `blobsOf` finds. */
function editOutput(output: Json, edit: TextEdit, where: RedactionPlace): Json {
  if (!Array.isArray(output)) return editJson(output, edit, where);
  return editList(output as readonly Json[], (item) => {
    if (!isObject(item)) return editJson(item, edit, where);
    const { type, mediaType, data, output: inner } = item as JsonObject;
    if (type === "file" && typeof mediaType === "string" && isObject(data))
      return editFile(item as JsonObject, edit, where, OUTPUT_FILE);
    if (type !== "tool-result" || !Array.isArray(inner))
      return editJson(item as JsonObject, edit, where);
    return withFields(editFields(item as JsonObject, edit, where, OUTPUT_LIST), {
      output: editOutput(inner, edit, where),
    });
  });
}

function editFile(file: JsonObject, edit: TextEdit, where: RedactionPlace, of: Shape): JsonObject {
  return withFields(editFields(file, edit, where, of), {
    mediaType: editMediaType(file["mediaType"] as string, edit, { ...where, field: "mediaType" }),
    data: editData(file["data"] as JsonObject, edit, where),
  });
}

const MEDIA_TYPE = /^[\w.+*-]{1,127}\/[\w!#$&^.+*-]{1,127}(?:;.*)?$/;
/**
 * Words that are no text of the writer's. A hook that masks every text must not make an image
 * unreadable.
 */
const COMMON =
  /^(?:text\/(?:plain|html|css|csv|markdown|xml|javascript)|image\/(?:png|jpe?g|gif|webp|svg\+xml|bmp|tiff|heic|avif|\*)|audio\/(?:mpeg|mp3|mp4|wav|ogg|webm|flac|aac)|video\/(?:mp4|webm|mpeg|quicktime)|application\/(?:octet-stream|pdf|json|xml|yaml|zip|gzip|msword))(?=;|$)/;

/**
 * The type as it is edited, where that is one. Otherwise what stays says as much as may be said,
 * without parameters.
 */
function editMediaType(given: string, edit: TextEdit, where: RedactionPlace): string {
  const edited = edit.text(given, where);
  const isType = edited.length <= MAX_MEDIA_TYPE && MEDIA_TYPE.test(edited);
  const type =
    edited === given || isType ? edited : (COMMON.exec(given)?.[0] ?? "application/octet-stream");
  edit.name?.(type, "media-type");
  return type;
}

function editData(data: JsonObject, edit: TextEdit, where: RedactionPlace): JsonObject {
  const { digest, sizeBytes } = data;
  const own = isDigest(digest)
    ? ["digest", ...(typeof sizeBytes === "number" ? ["sizeBytes"] : [])]
    : [];
  const fields = editFields(data, edit, where, shape(own, ["url", "text", "ref"]));
  if (!isDigest(digest)) return fields;
  const other = edit.file?.(digest);
  // A tool can put any word of its length where the name of a file stands.
  edit.name?.(other?.digest ?? digest, "file");
  return other === undefined ? fields : { ...fields, ...other };
}
