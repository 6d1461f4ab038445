/**
 * Model messages of the AI SDK, versions 6 and 7. Bytes and URLs of files are written as the plain
 * texts that both take; a file that is a text, or a provider's own, as version 7 has it.
 */
import { isObject, type Role } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { readOutput, readShown, writeOutput } from "./ai-sdk-output.js";
import { type Codec, type Written, whole } from "./codec.js";
import { arranged, type Piece, type Result, type Verbatim } from "./normalize-order.js";
import type { PlainFile, PlainMessage, PlainPart } from "./plain.js";
import { given, isText, kept, opaque, others } from "./provider-fields.js";

const ME = "ai-sdk";
const PART = `${ME}/part`;

export const aiSdk: Codec = {
  write: (messages) =>
    arranged(messages, ME).flatMap(({ pieces, results }) => [
      ...replies(pieces),
      ...toolMessages(results),
    ]),
  read: (items) => items.map((item) => readItem(item) ?? whole(ME, item)),
};

// ---- ours to theirs

function replies(pieces: readonly (Piece | Verbatim)[]): readonly Written[] {
  const written = pieces.flatMap(writePiece);
  if (written.length < 2) return written;
  const content = written.flatMap(({ item }) =>
    isText(item.content) ? [{ type: "text", text: item.content }] : (item.content as Json[]),
  );
  return [{ item: { role: "assistant", content }, of: written.flatMap(({ of }) => of) }];
}

function writePiece(piece: Piece | Verbatim): readonly Written[] {
  const of = [piece.of];
  if ("verbatim" in piece) return [{ item: piece.verbatim, of }];
  const { role, content } = piece;
  const own = given(ME, piece);
  if (typeof content === "string")
    return role === "tool" ? [] : [{ item: { role, content, ...own }, of }];
  if (role === "system") {
    const text = content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("");
    return text === "" ? [] : [{ item: { role, content: text, ...own }, of }];
  }
  const parts = content.flatMap((part) => writePart(part, role));
  return parts.length === 0 && content.length > 0
    ? []
    : [{ item: { role, content: parts, ...own }, of }];
}

/** What came as one message of results is one again. */
function toolMessages(results: readonly (Result | Piece)[]): readonly Written[] {
  const out: Written[] = [];
  for (const piece of results) {
    const own = given(ME, piece);
    const parts =
      "result" in piece
        ? [writeResult(piece)]
        : writePiece(piece).flatMap(({ item }) => item.content as JsonObject[]);
    const last = out.at(-1);
    if (parts.length === 0) continue;
    if (last?.of[0] === piece.of) {
      out[out.length - 1] = {
        ...last,
        item: { ...last.item, content: [...(last.item.content as Json[]), ...parts] },
      };
    } else out.push({ item: { role: "tool", content: parts, ...own }, of: [piece.of] });
  }
  return out;
}

function writeResult({ result, tool }: Result): JsonObject {
  const { callId: toolCallId, name: toolName = tool } = result;
  const { output, ...rest } = given(ME, result);
  return {
    type: "tool-result",
    toolCallId,
    toolName,
    output: writeOutput(result, output),
    ...rest,
  };
}

function writePart(part: PlainPart, role: Role): readonly JsonObject[] {
  const own = given(ME, part);
  switch (part.type) {
    case "text":
      return role === "tool" ? [] : [{ type: "text", text: part.text, ...own }];
    case "opaque":
      return part.format === PART && isObject(part.value) ? [part.value as JsonObject] : [];
    case "file":
      return role === "tool" ? [] : writeFile(part, own, role);
    case "reasoning":
      return role === "assistant" ? [{ type: "reasoning", text: part.text, ...own }] : [];
    case "tool-call": {
      if (role !== "assistant") return [];
      const { callId: toolCallId, name: toolName, input, by } = part;
      return [
        {
          type: "tool-call",
          toolCallId,
          toolName,
          input,
          ...(by === "provider" && { providerExecuted: true }),
          ...own,
        },
      ];
    }
    case "tool-result":
      return role === "assistant" && part.by === "provider"
        ? [writeResult({ of: 0, result: part, tool: part.name ?? "unknown" })]
        : [];
  }
}

function writeFile(part: PlainFile, own: JsonObject, role: Role): readonly JsonObject[] {
  const { mediaType, name, reasoning } = part;
  const data = writeData(part, own);
  if (data === undefined) return [];
  const { data: _spelled, ...rest } = own;
  const filename = name === undefined ? undefined : { filename: name };
  if (own.type === "image" && role === "user")
    return [{ image: data, ...(mediaType !== "image/*" && { mediaType }), ...rest }];
  const isReasoning = reasoning === true && role === "assistant";
  return [
    {
      type: isReasoning ? "reasoning-file" : "file",
      data,
      mediaType,
      ...(!isReasoning && filename),
      ...rest,
    },
  ];
}

/** `data: "tagged"` in what was kept: it said which kind of data it is, as version 7 does. */
function writeData({ data }: PlainFile, own: JsonObject): Json | undefined {
  const isTagged = own.data === "tagged";
  if ("bytes" in data) return isTagged ? { type: "data", data: data.bytes } : data.bytes;
  if ("url" in data)
    return isTagged ? { type: "url", url: data.url } : isUrl(data.url) ? data.url : undefined;
  if ("ref" in data) return { type: "reference", reference: data.ref };
  return "text" in data ? { type: "text", text: data.text } : undefined;
}

const isUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:/i.test(text);

// ---- theirs to ours

function readItem(item: JsonObject): PlainMessage | undefined {
  const { role, content } = item;
  if (role !== "system" && role !== "user" && role !== "assistant" && role !== "tool")
    return undefined;
  const said = isText(content)
    ? content
    : Array.isArray(content)
      ? (content as readonly Json[]).map((part) => readPart(part, role))
      : undefined;
  return said === undefined
    ? undefined
    : { role, content: said, ...kept(ME, others(item, "role", "content")) };
}

function readPart(part: Json, role: Role): PlainPart {
  return (isObject(part) ? readKnown(part as JsonObject, role) : undefined) ?? opaque(PART, part);
}

function readKnown(part: JsonObject, role: Role): PlainPart | undefined {
  const { type, text } = part;
  switch (type) {
    case "text":
    case "reasoning":
      return isText(text) ? { type, text, ...kept(ME, others(part, "type", "text")) } : undefined;
    case "image":
      return readFile(part, part.image, "image", "image/*");
    case "file":
    case "reasoning-file":
      return isText(part.mediaType) ? readFile(part, part.data, type, part.mediaType) : undefined;
    case "tool-call":
      return readCall(part);
    case "tool-result":
      return readResult(part, role);
    default:
      return undefined;
  }
}

function readCall(part: JsonObject): PlainPart | undefined {
  const { toolCallId: callId, toolName: name, input, providerExecuted } = part;
  if (!isText(callId) || !isText(name) || input === undefined) return undefined;
  const by = providerExecuted === true ? ({ by: "provider" } as const) : undefined;
  const known = ["type", "toolCallId", "toolName", "input", ...(by ? ["providerExecuted"] : [])];
  return { type: "tool-call", callId, name, input, ...by, ...kept(ME, others(part, ...known)) };
}

function readResult(part: JsonObject, role: Role): PlainPart | undefined {
  const { toolCallId: callId, toolName: name, output } = part;
  const read = isObject(output) ? readOutput(output as JsonObject) : undefined;
  if (!isText(callId) || !isText(name) || read === undefined) return undefined;
  const { outcome, said, spelled } = read;
  const by = role === "assistant" ? ({ by: "provider" } as const) : undefined;
  const more = {
    ...others(part, "type", "toolCallId", "toolName", "output"),
    ...(spelled && { output: spelled }),
  };
  return { type: "tool-result", callId, name, outcome, output: said, ...by, ...kept(ME, more) };
}

function readFile(
  part: JsonObject,
  data: Json | undefined,
  type: string,
  mediaType: string,
): PlainPart | undefined {
  const read = readShown(data);
  if (read === undefined) return undefined;
  const { filename, mediaType: given } = part;
  const name = isText(filename) && type === "file" ? { name: filename } : undefined;
  const isImage = type === "image";
  const known = [
    "data",
    "mediaType",
    ...(isImage ? ["image"] : ["type"]),
    ...(name ? ["filename"] : []),
  ];
  const more = { ...others(part, ...known), ...(read.isTagged && { data: "tagged" }) };
  return {
    type: "file",
    mediaType: isImage && isText(given) ? given : mediaType,
    data: read.data,
    ...name,
    ...(type === "reasoning-file" && { reasoning: true as const }),
    ...kept(ME, more),
  };
}
