/**
 * Parts as blocks of Anthropic's. What it would refuse is left out: empty text, thinking without
 * its signature, files of other kinds.
 */
import { isObject, type Role } from "../core/messages/message.js";
import { digest } from "../core/values/digest.js";
import type { JsonObject } from "../core/values/json.js";
import type { PlainFile, PlainMessage, PlainPart } from "./plain.js";
import { given, isText } from "./provider-fields.js";

const ME = "anthropic";
const IMAGES: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"]);

export function writeBlocks(
  { content }: Pick<PlainMessage, "role" | "content">,
  role: Role,
): readonly JsonObject[] {
  if (typeof content === "string")
    return content.trim() === "" ? [] : [{ type: "text", text: content }];
  return content.flatMap((part) => writeBlock(part, role));
}

/**
 * Ids of calls must be plain: others are given one that is, the same for the call and its answer.
 */
export const callIdOf = (callId: string): string =>
  /^[a-zA-Z0-9_-]+$/.test(callId)
    ? callId
    : `${callId.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 40)}_${digest(callId).slice(0, 12)}`;

function writeBlock(part: PlainPart, role: Role): readonly JsonObject[] {
  const own = given(ME, part);
  switch (part.type) {
    case "text":
      return part.text.trim() === "" ? [] : [{ type: "text", text: part.text, ...own }];
    case "opaque":
      return part.format === `${ME}/part` && isObject(part.value) ? [part.value as JsonObject] : [];
    case "file":
      return role === "user" || role === "tool" ? writeFile(part, own) : [];
    case "reasoning":
      return role === "assistant" && isText(own.signature)
        ? [{ type: "thinking", thinking: part.text, ...own }]
        : [];
    case "tool-call": {
      const isOurs = part.by !== "provider";
      if (role !== "assistant" || (!isOurs && !isText(own.type))) return [];
      const input = isObject(part.input) ? part.input : {};
      return [
        {
          ...(isOurs && { type: "tool_use" }),
          id: callIdOf(part.callId),
          name: part.name,
          input,
          ...own,
        },
      ];
    }
    case "tool-result":
      // Its own tools are answered by itself, in the same message.
      return role === "assistant" && part.by === "provider" && isText(own.type)
        ? [{ tool_use_id: callIdOf(part.callId), content: part.output as JsonObject, ...own }]
        : [];
  }
}

function writeFile({ mediaType, data, name }: PlainFile, own: JsonObject): readonly JsonObject[] {
  const isImage = mediaType.startsWith("image/");
  const block = (source: JsonObject) => [
    {
      type: isImage ? "image" : "document",
      source,
      ...(!isImage && name !== undefined && { title: name }),
      ...own,
    },
  ];
  if ("ref" in data)
    return isText(data.ref[ME]) ? block({ type: "file", file_id: data.ref[ME] }) : [];
  if ("text" in data)
    return isImage || data.text.trim() === ""
      ? []
      : block({ type: "text", media_type: "text/plain", data: data.text });
  if ("url" in data)
    return isImage || mediaType === "application/pdf" ? block({ type: "url", url: data.url }) : [];
  if (!("bytes" in data) || !(IMAGES.has(mediaType) || mediaType === "application/pdf")) return [];
  return block({ type: "base64", media_type: mediaType, data: data.bytes });
}
