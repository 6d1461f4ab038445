/** What tools answered, and the data of files, as the AI SDK has them. */
import { isObject } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import {
  isBase64,
  type PlainData,
  type PlainPart,
  type PlainResult,
  partsOfOutput,
} from "./plain.js";
import { given, isText, kept, opaque, others } from "./provider-fields.js";

const ME = "ai-sdk";
const PART = `${ME}/part`;

/** `spelled`: the fields of an output that are not what we would write. */
export function writeOutput(
  { outcome, output }: PlainResult,
  spelled: Json | undefined,
): JsonObject {
  const own = isObject(spelled) ? (spelled as JsonObject) : {};
  const parts = partsOfOutput(output);
  const value = output as Json;
  if (outcome === "denied")
    return {
      type: "execution-denied",
      ...(isText(output) && output !== "" && { reason: output }),
      ...own,
    };
  if (outcome === "error")
    return { type: isText(output) ? "error-text" : "error-json", value, ...own };
  if (parts !== undefined) return { type: "content", value: parts.flatMap(writeShown), ...own };
  return { type: isText(output) ? "text" : "json", value, ...own };
}

interface Read {
  readonly outcome: PlainResult["outcome"];
  readonly said: Json | readonly PlainPart[];
  readonly spelled?: JsonObject | undefined;
}

export function readOutput(output: JsonObject): Read | undefined {
  const { type, value, reason } = output;
  const more = others(output, "type", "value");
  switch (type) {
    case "text":
    case "json": {
      if (value === undefined || (type === "text" && !isText(value))) return undefined;
      const usual = isText(value) ? "text" : "json";
      return { outcome: "ok", said: value, spelled: spelledAs(more, type, usual) };
    }
    case "error-text":
    case "error-json": {
      if (value === undefined || (type === "error-text" && !isText(value))) return undefined;
      return {
        outcome: "error",
        said: value,
        spelled: spelledAs(more, type, isText(value) ? "error-text" : "error-json"),
      };
    }
    case "execution-denied": {
      const isSaid = isText(reason) && reason !== "";
      return {
        outcome: "denied",
        said: isSaid ? reason : "",
        spelled: others(output, "type", ...(isSaid ? ["reason"] : [])),
      };
    }
    case "content":
      return Array.isArray(value)
        ? { outcome: "ok", said: (value as readonly Json[]).map(readOne), spelled: more }
        : undefined;
    default:
      return undefined;
  }
}

const spelledAs = (
  more: JsonObject | undefined,
  type: string,
  usual: string,
): JsonObject | undefined => (type === usual ? more : { ...more, type });

// ---- what is shown in an answer

function writeShown(part: PlainPart): readonly JsonObject[] {
  const own = given(ME, part);
  if (part.type === "text") return [{ type: "text", text: part.text, ...own }];
  if (part.type === "opaque")
    return part.format === PART && isObject(part.value) ? [part.value as JsonObject] : [];
  if (part.type !== "file") return [];
  const { data, mediaType, name } = part;
  const is = mediaType.startsWith("image/") ? "image" : "file";
  const filename = is === "file" && name !== undefined ? { filename: name } : undefined;
  if ("bytes" in data)
    return [{ type: `${is}-data`, data: data.bytes, mediaType, ...filename, ...own }];
  if ("url" in data) return [{ type: `${is}-url`, url: data.url, ...own }];
  return "text" in data ? [{ type: "text", text: data.text, ...own }] : [];
}

function readOne(part: Json): PlainPart {
  return (isObject(part) ? readKnown(part as JsonObject) : undefined) ?? opaque(PART, part);
}

function readKnown(part: JsonObject): PlainPart | undefined {
  const { type, text, data, url, mediaType, filename } = part;
  if (type === "text")
    return isText(text) ? { type, text, ...kept(ME, others(part, "type", "text")) } : undefined;
  const isImage = type === "image-data" || type === "image-url";
  if (type === "image-url" || type === "file-url") {
    if (!isText(url)) return undefined;
    const other = isImage ? "image/*" : "application/octet-stream";
    return {
      type: "file",
      mediaType: other,
      data: { url },
      ...kept(ME, others(part, "type", "url")),
    };
  }
  if (
    (type !== "image-data" && type !== "file-data") ||
    !isText(data) ||
    !isText(mediaType) ||
    !isBase64(data)
  )
    return undefined;
  if (isImage !== mediaType.startsWith("image/")) return undefined;
  const name = !isImage && isText(filename) ? { name: filename } : undefined;
  const more = kept(ME, others(part, "type", "data", "mediaType", ...(name ? ["filename"] : [])));
  return { type: "file", mediaType, data: { bytes: data }, ...name, ...more };
}

// ---- the data of files

const URL_LIKE = /^[a-z][a-z0-9+.-]*:/i;

/** A text is base64 or a URL; what says which kind it is, is what it says. */
export function readShown(
  data: Json | undefined,
): { readonly data: PlainData; readonly isTagged: boolean } | undefined {
  if (isText(data)) {
    if (URL_LIKE.test(data)) return { data: { url: data }, isTagged: false };
    return isBase64(data) ? { data: { bytes: data }, isTagged: false } : undefined;
  }
  if (!isObject(data) || Object.keys(data).length !== 2) return undefined;
  const { type, data: bytes, url, reference, text } = data as JsonObject;
  if (type === "data" && isText(bytes) && isBase64(bytes))
    return { data: { bytes }, isTagged: true };
  if (type === "url" && isText(url)) return { data: { url }, isTagged: true };
  if (type === "text" && isText(text)) return { data: { text }, isTagged: false };
  if (type !== "reference" || !isObject(reference) || !Object.values(reference).every(isText))
    return undefined;
  return { data: { ref: reference as { readonly [provider: string]: string } }, isTagged: false };
}
