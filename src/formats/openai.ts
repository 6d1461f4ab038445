/** Messages of OpenAI's chat completions. Many other providers take the same. */
import { isObject, type Role } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { type Codec, type Written, whole } from "./codec.js";
import { arranged, type Piece, type Result, type Verbatim } from "./normalize-order.js";
import {
  isBase64,
  type PlainFile,
  type PlainMessage,
  type PlainPart,
  type PlainResult,
  partsOfOutput,
} from "./plain.js";
import {
  dataOfUrl,
  dataUrl,
  fieldsBack,
  given,
  inputOf,
  inputText,
  isMediaType,
  isText,
  kept,
  opaque,
  others,
  outputOf,
  outputText,
  SPELLED,
} from "./provider-fields.js";

const ME = "openai";
const PART = `${ME}/part`;
const REFUSAL = `${ME}/refusal`;
const AUDIO: Readonly<Record<string, string>> = { wav: "audio/wav", mp3: "audio/mpeg" };

export const openai: Codec = {
  write: (messages) =>
    arranged(messages, ME).flatMap(({ pieces, results }) => [
      ...merged(pieces),
      ...results.flatMap(writeResult),
    ]),
  read(items) {
    const names = new Map<string, string>();
    return items.map((item) => readItem(item, names) ?? whole(ME, item));
  },
};

// ---- ours to theirs

/** Replies in a row that ask for calls are one: nothing may come between a call and its answer. */
function merged(pieces: readonly (Piece | Verbatim)[]): readonly Written[] {
  if (pieces.length < 2) return pieces.flatMap(writePiece);
  const parts = pieces.flatMap((piece) =>
    "verbatim" in piece
      ? []
      : typeof piece.content === "string"
        ? [{ type: "text", text: piece.content } as const]
        : piece.content,
  );
  const of = [...new Set(pieces.map((piece) => piece.of))];
  return writeReply({ of: of[0] as number, role: "assistant", content: parts }).map(({ item }) => ({
    item,
    of,
  }));
}

function writePiece(piece: Piece | Verbatim): readonly Written[] {
  if ("verbatim" in piece) return [{ item: piece.verbatim, of: [piece.of] }];
  if (piece.role === "assistant") return writeReply(piece);
  if (piece.role === "tool") return [];
  const { role, content, name, of } = piece;
  const parts =
    typeof content === "string" ? content : content.flatMap((part) => writePart(part, role));
  if (parts.length === 0 && content.length > 0) return [];
  const item = {
    role,
    content: parts,
    ...(name !== undefined && { name }),
    ...fieldsBack(given(ME, piece)),
  };
  return [{ item, of: [of] }];
}

function writeReply({ of, name, content, provider }: Piece): readonly Written[] {
  const own = given(ME, provider === undefined ? {} : { provider });
  const parts = typeof content === "string" ? [] : content;
  const calls = parts.flatMap((part) =>
    part.type === "tool-call" && part.by !== "provider" ? [writeCall(part)] : [],
  );
  const refusal = parts.find((part) => part.type === "opaque" && part.format === REFUSAL);
  const said =
    typeof content === "string" ? content : parts.flatMap((part) => writePart(part, "assistant"));
  const spelled = spell(said, own[SPELLED]);
  if (
    said.length === 0 &&
    calls.length === 0 &&
    refusal === undefined &&
    Object.keys(own).length === 0 &&
    content !== ""
  )
    return [];
  const item: JsonObject = {
    role: "assistant",
    ...(spelled !== undefined && { content: spelled }),
    ...(name !== undefined && { name }),
    ...(refusal?.type === "opaque" && { refusal: refusal.value }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...fieldsBack(own),
  };
  return [{ item, of: [of] }];
}

/** One plain text is a string, and nothing is null, unless it came in another spelling. */
function spell(said: string | readonly JsonObject[], as: Json | undefined): Json | undefined {
  if (typeof said === "string") return said;
  const [first, ...more] = said;
  if (as === "parts") return said;
  if (first === undefined) return as === "absent" ? undefined : as === "" ? "" : null;
  return more.length === 0 && first.type === "text" && Object.keys(first).length === 2
    ? (first.text as string)
    : said;
}

function writeCall(part: Extract<PlainPart, { readonly type: "tool-call" }>): JsonObject {
  const own = given(ME, part);
  if (own.type === "custom" && isText(part.input)) {
    const { custom, ...rest } = own;
    return {
      id: part.callId,
      custom: { name: part.name, input: part.input, ...inner(custom) },
      ...rest,
    };
  }
  const { function: more, ...rest } = own;
  return {
    id: part.callId,
    type: "function",
    function: { name: part.name, arguments: inputText(part), ...inner(more) },
    ...rest,
  };
}

const inner = (value: Json | undefined): JsonObject =>
  isObject(value) ? (value as JsonObject) : {};

function writeResult(piece: Result | Piece): readonly Written[] {
  if (!("result" in piece)) return [];
  const { of, result } = piece;
  const text = outputText(result.output);
  const parts = partsOfOutput(result.output)?.flatMap((part) => writePart(part, "tool"));
  const item = {
    role: "tool",
    tool_call_id: result.callId,
    content: text ?? parts ?? "",
    ...fieldsBack(given(ME, result)),
  };
  return [{ item, of: [of] }];
}

/** What this format can say of a part in a role; nothing, where it cannot. */
function writePart(part: PlainPart, role: Role): readonly JsonObject[] {
  const own = given(ME, part);
  if (part.type === "text") return [{ type: "text", text: part.text, ...own }];
  if (part.type === "opaque")
    return part.format === PART && isObject(part.value) ? [part.value as JsonObject] : [];
  if (part.type === "file" && role === "user") return writeFile(part, own);
  return [];
}

function writeFile({ mediaType, data, name }: PlainFile, own: JsonObject): readonly JsonObject[] {
  const image = (url: string) => {
    const { image_url: more, ...rest } = own;
    return [{ type: "image_url", image_url: { url, ...inner(more) }, ...rest }];
  };
  const file = (fields: JsonObject) => {
    const { file: more, ...rest } = own;
    return [
      {
        type: "file",
        file: { ...fields, ...(name !== undefined && { filename: name }), ...inner(more) },
        ...rest,
      },
    ];
  };
  if ("text" in data) return [{ type: "text", text: data.text, ...own }];
  if ("ref" in data) return isText(data.ref[ME]) ? file({ file_id: data.ref[ME] }) : [];
  const isImage = mediaType.startsWith("image/");
  if ("url" in data) return isImage ? image(data.url) : [];
  if (!("bytes" in data) || !isMediaType(mediaType)) return [];
  if (isImage) return image(dataUrl(mediaType, data.bytes));
  const format = Object.keys(AUDIO).find((known) => AUDIO[known] === mediaType);
  if (format === undefined) return file({ file_data: dataUrl(mediaType, data.bytes) });
  const { input_audio: more, ...rest } = own;
  return [
    { type: "input_audio", input_audio: { data: data.bytes, format, ...inner(more) }, ...rest },
  ];
}

// ---- theirs to ours

function readItem(item: JsonObject, names: Map<string, string>): PlainMessage | undefined {
  const { role, content, name } = item;
  if (name !== undefined && !isText(name)) return undefined;
  switch (role) {
    case "developer":
    case "system":
    case "user": {
      const more = {
        ...(role === "developer" && { role }),
        ...others(item, "role", "content", "name"),
      };
      const parts = isText(content) ? content : readParts(content);
      const named = name === undefined ? undefined : { name };
      if (parts === undefined) return undefined;
      return {
        role: role === "user" ? "user" : "system",
        content: parts,
        ...named,
        ...kept(ME, more),
      };
    }
    case "assistant":
      return readReply(item, names);
    case "tool":
      return readResult(item, names);
    default:
      return undefined;
  }
}

function readReply(item: JsonObject, names: Map<string, string>): PlainMessage | undefined {
  const { content, name, refusal, tool_calls: asked } = item;
  const said = isText(content)
    ? [{ type: "text", text: content } as const]
    : (content ?? null) === null
      ? []
      : readParts(content);
  const calls =
    asked === undefined
      ? []
      : Array.isArray(asked) && asked.length > 0
        ? (asked as readonly Json[]).map(readCall)
        : undefined;
  if (said === undefined || calls === undefined || !calls.every((call) => call !== undefined))
    return undefined;
  for (const call of calls) if (call.type === "tool-call") names.set(call.callId, call.name);
  const refused = isText(refusal) ? [opaque(REFUSAL, refusal, refusal)] : [];
  const isPlain = isText(content) && calls.length === 0 && refused.length === 0;
  const parts = content === "" && !isPlain ? [] : said;
  const spelled = isPlain ? undefined : spelling(content);
  const more = {
    ...others(
      item,
      "role",
      "content",
      "name",
      "tool_calls",
      ...(isText(refusal) ? ["refusal"] : []),
    ),
    ...(spelled !== undefined && { [SPELLED]: spelled }),
  };
  const named = name === undefined ? undefined : { name: name as string };
  return {
    role: "assistant",
    content: isPlain ? content : [...parts, ...refused, ...calls],
    ...named,
    ...kept(ME, more),
  };
}

function spelling(content: Json | undefined): string | undefined {
  if (content === undefined) return "absent";
  return content === "" ? "" : Array.isArray(content) ? "parts" : undefined;
}

function readCall(call: Json): PlainPart | undefined {
  if (!isObject(call)) return undefined;
  const { id, type } = call as JsonObject;
  const known = type === "custom" ? "custom" : "function";
  const body = (call as JsonObject)[known];
  if (!isText(id) || !isObject(body) || !isText(body.name)) return undefined;
  const { name } = body as { readonly name: string };
  const field = known === "custom" ? "input" : "arguments";
  const text = (body as JsonObject)[field];
  if (!isText(text)) return undefined;
  const within = others(body as JsonObject, "name", field);
  const outside = others(
    call as JsonObject,
    "id",
    known,
    ...(known === "function" && type === "function" ? ["type"] : []),
  );
  const input = known === "custom" ? { input: text } : inputOf(text);
  return {
    type: "tool-call",
    callId: id,
    name,
    ...input,
    ...kept(ME, { ...outside, ...(within && { [known]: within }) }),
  };
}

function readResult(
  item: JsonObject,
  names: ReadonlyMap<string, string>,
): PlainMessage | undefined {
  const { content, tool_call_id: callId } = item;
  const output = isText(content) ? outputOf(content) : readParts(content);
  if (!isText(callId) || output === undefined) return undefined;
  const name = names.get(callId);
  const part: PlainResult = {
    type: "tool-result",
    callId,
    ...(name !== undefined && { name }),
    outcome: "ok",
    output,
    ...kept(ME, others(item, "role", "content", "tool_call_id")),
  };
  return { role: "tool", content: [part] };
}

function readParts(content: Json | undefined): readonly PlainPart[] | undefined {
  return Array.isArray(content) ? (content as readonly Json[]).map(readPart) : undefined;
}

function readPart(part: Json): PlainPart {
  return (
    (isObject(part) ? readKnown(part as JsonObject) : undefined) ??
    opaque(PART, part, refusalIn(part))
  );
}

const refusalIn = (part: Json): string | undefined =>
  isObject(part) && part.type === "refusal" && isText(part.refusal) ? part.refusal : undefined;

function readKnown(part: JsonObject): PlainPart | undefined {
  const { type, text } = part;
  if (type === "text")
    return isText(text)
      ? { type: "text", text, ...kept(ME, others(part, "type", "text")) }
      : undefined;
  const body =
    isText(type) && (type === "image_url" || type === "input_audio" || type === "file")
      ? part[type]
      : undefined;
  if (!isText(type) || !isObject(body)) return undefined;
  const fields = body as JsonObject;
  const file = (
    known: readonly string[],
    is: Pick<PlainFile, "mediaType" | "data" | "name">,
  ): PlainPart => {
    const within = others(fields, ...known);
    return {
      type: "file",
      ...is,
      ...kept(ME, { ...others(part, "type", type), ...(within && { [type]: within }) }),
    };
  };
  if (type === "image_url")
    return isText(fields.url) ? file(["url"], dataOfUrl(fields.url, "image/*")) : undefined;
  if (type === "input_audio") {
    const { data, format } = fields;
    const mediaType = isText(format) && Object.hasOwn(AUDIO, format) ? AUDIO[format] : undefined;
    if (mediaType === undefined || !isText(data) || !isBase64(data)) return undefined;
    return file(["data", "format"], { mediaType, data: { bytes: data } });
  }
  const { file_id: id, file_data: data, filename } = fields;
  const name = isText(filename) ? { name: filename } : undefined;
  const named = name === undefined ? [] : ["filename"];
  if (isText(id) && data === undefined)
    return file(["file_id", ...named], {
      mediaType: "application/octet-stream",
      data: { ref: { [ME]: id } },
      ...name,
    });
  const found = isText(data) && id === undefined ? dataOfUrl(data, "") : undefined;
  return found !== undefined && "bytes" in found.data
    ? file(["file_data", ...named], { ...found, ...name })
    : undefined;
}
