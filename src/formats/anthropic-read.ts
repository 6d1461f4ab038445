/** Blocks of Anthropic's as parts. */
import { isObject } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { isBase64, type PlainFile, type PlainPart } from "./plain.js";
import { isText, kept, opaque, others, outputOf, SPELLED } from "./provider-fields.js";

const ME = "anthropic";

/** Undefined for what ours has no word for. */
export function readBlock(
  block: JsonObject,
  names: ReadonlyMap<string, string>,
): PlainPart | undefined {
  const { type, text, thinking } = block;
  switch (type) {
    case "text":
      return isText(text)
        ? { type: "text", text, ...kept(ME, others(block, "type", "text")) }
        : undefined;
    case "thinking":
      return isText(thinking)
        ? { type: "reasoning", text: thinking, ...kept(ME, others(block, "type", "thinking")) }
        : undefined;
    case "image":
    case "document":
      return readFile(block, type);
    case "tool_use":
    case "server_tool_use":
    case "mcp_tool_use":
      return readCall(block, type);
    case "tool_result":
      return readResult(block, names);
    default:
      return isText(type) && type.endsWith("_tool_result") ? readAnswer(block, names) : undefined;
  }
}

function readCall(block: JsonObject, type: string): PlainPart | undefined {
  const { id, name, input } = block;
  if (!isText(id) || !isText(name) || input === undefined) return undefined;
  const isOurs = type === "tool_use";
  const more = kept(ME, others(block, "id", "name", "input", ...(isOurs ? ["type"] : [])));
  return {
    type: "tool-call",
    callId: id,
    name,
    input,
    ...(!isOurs && { by: "provider" as const }),
    ...more,
  };
}

function readResult(block: JsonObject, names: ReadonlyMap<string, string>): PlainPart | undefined {
  const { tool_use_id: callId, content, is_error: isError } = block;
  const output =
    content === undefined ? "" : isText(content) ? outputOf(content) : shownIn(content);
  if (!isText(callId) || output === undefined) return undefined;
  const more = {
    ...others(block, "type", "tool_use_id", "content", ...(isError === true ? ["is_error"] : [])),
    ...(content === undefined && { [SPELLED]: "absent" }),
  };
  const outcome = isError === true ? "error" : "ok";
  return {
    type: "tool-result",
    callId,
    ...named(names, callId),
    outcome,
    output,
    ...kept(ME, more),
  };
}

/** What one of its own tools answered. */
function readAnswer(block: JsonObject, names: ReadonlyMap<string, string>): PlainPart | undefined {
  const { tool_use_id: callId, content, is_error: isError } = block;
  if (!isText(callId) || content === undefined) return undefined;
  const failed =
    isError === true ||
    (isObject(content) && isText(content.type) && content.type.endsWith("_error"));
  const more = kept(ME, others(block, "tool_use_id", "content"));
  return {
    type: "tool-result",
    callId,
    ...named(names, callId),
    outcome: failed ? "error" : "ok",
    output: content,
    by: "provider",
    ...more,
  };
}

const named = (names: ReadonlyMap<string, string>, callId: string): { readonly name?: string } => {
  const name = names.get(callId);
  return name === undefined ? {} : { name };
};

/** What a tool shows: text, images and documents; other blocks are kept as they are. */
function shownIn(content: Json): readonly PlainPart[] | undefined {
  if (!Array.isArray(content)) return undefined;
  return (content as readonly Json[]).map((block) => {
    const part = isObject(block) ? readBlock(block as JsonObject, new Map()) : undefined;
    return part?.type === "text" || part?.type === "file" ? part : opaque(`${ME}/part`, block);
  });
}

function readFile(block: JsonObject, type: "image" | "document"): PlainPart | undefined {
  const { source, title } = block;
  const found = isObject(source) ? dataOf(source as JsonObject, type) : undefined;
  if (found === undefined) return undefined;
  const isNamed = type === "document" && isText(title);
  const more = kept(ME, others(block, "type", "source", ...(isNamed ? ["title"] : [])));
  return { type: "file", ...found, ...(isNamed && { name: title }), ...more };
}

function dataOf(
  source: JsonObject,
  type: "image" | "document",
): Pick<PlainFile, "mediaType" | "data"> | undefined {
  const { type: kind, media_type: mediaType, data, url, file_id: id } = source;
  const fields = Object.keys(source).length;
  const other = type === "image" ? "image/*" : "application/pdf";
  if (kind === "url" && isText(url) && fields === 2) return { mediaType: other, data: { url } };
  if (kind === "file" && isText(id) && fields === 2)
    return { mediaType: other, data: { ref: { [ME]: id } } };
  if (!isText(data) || !isText(mediaType) || fields !== 3) return undefined;
  if (kind === "text")
    return type === "document" && mediaType === "text/plain"
      ? { mediaType, data: { text: data } }
      : undefined;
  return kind === "base64" && isBase64(data) ? { mediaType, data: { bytes: data } } : undefined;
}
