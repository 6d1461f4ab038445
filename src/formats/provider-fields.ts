/**
 * What the formats of providers have in common: objects with fields that we know, and others that
 * are kept as they are.
 */
import { type CallInput, readInput, whyUnstorable } from "../core/messages/call-input.js";
import { isObject, type Provider } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { isBase64, type PlainData, type PlainPart, partsOfOutput } from "./plain.js";

/**
 * The fields of a foreign object but for those that are known by name; undefined where there are
 * none.
 */
export function others(from: JsonObject, ...known: readonly string[]): JsonObject | undefined {
  const left = Object.entries(from).filter(([key]) => !known.includes(key));
  return left.length === 0 ? undefined : fromEntries(left);
}

/** Object.fromEntries keeps `__proto__` the ordinary key that it is in JSON. */
const fromEntries = (entries: readonly (readonly [string, Json])[]): JsonObject =>
  Object.fromEntries(entries);

/** What one format wants back verbatim, as a message or part keeps it. */
export function kept(
  format: string,
  fields: JsonObject | undefined,
): { readonly provider?: Provider } {
  return fields === undefined || Object.keys(fields).length === 0
    ? {}
    : { provider: { [format]: fields } };
}

/** The same, as it is given back. */
export function given(format: string, { provider }: { readonly provider?: Provider }): JsonObject {
  const own: unknown =
    isObject(provider) && Object.hasOwn(provider, format) ? provider[format] : undefined;
  return isObject(own) ? (own as JsonObject) : {};
}

export const isText = (value: unknown): value is string => typeof value === "string";

/**
 * Says in what is kept how a message's content was spelled, where that is not the usual way. It is
 * not a field of any format.
 */
export const SPELLED = "holdfast-content";

/** The fields that are given back, without our own note among them. */
export function fieldsBack(own: JsonObject): JsonObject {
  return others(own, SPELLED) ?? {};
}

/** A part or an item of a format that ours has no word for. */
export const opaque = (format: string, value: Json, text?: string): PlainPart => ({
  type: "opaque",
  format,
  value,
  ...(text !== undefined && { text }),
});

// ---- files

const DATA_URL = /^data:([\w.+*-]+\/[\w.+*-]+);base64,([A-Za-z0-9+/=]*)$/;

export const dataUrl = (mediaType: string, bytes: string): string =>
  `data:${mediaType};base64,${bytes}`;

/** A URL as file data: one that holds bytes is taken for them. */
export function dataOfUrl(
  url: string,
  mediaType: string,
): { readonly mediaType: string; readonly data: PlainData } {
  const found = DATA_URL.exec(url);
  const [, type, bytes] = found ?? [];
  return type !== undefined && bytes !== undefined && isBase64(bytes)
    ? { mediaType: type, data: { bytes } }
    : { mediaType, data: { url } };
}

/** Media types end up inside of URLs. */
export const isMediaType = (mediaType: string): boolean => /^[\w.+*-]+\/[\w.+*-]+$/.test(mediaType);

// ---- arguments and results as text

/**
 * The arguments of a call, from their text: kept too, where it is not the one that we would write.
 */
export function inputOf(text: string): CallInput {
  const { input, flaw } = readInput(text);
  return flaw === undefined && JSON.stringify(input) === text ? { input } : { input, raw: text };
}

export const inputText = ({ input, raw }: CallInput): string => raw ?? JSON.stringify(input);

/** What a tool answered, as text. Answers undefined for a list of parts. */
export function outputText(output: Json | readonly PlainPart[]): string | undefined {
  if (isText(output)) return output;
  return partsOfOutput(output) === undefined ? JSON.stringify(output) : undefined;
}

/**
 * The other way: a text that is just what an object or a list would be written as is taken for
 * that.
 */
export function outputOf(text: string): Json {
  if (!/^[[{]/.test(text)) return text;
  try {
    const value = JSON.parse(text) as Json;
    const isSame = JSON.stringify(value) === text && whyUnstorable(value) === undefined;
    return isSame && partsOfOutput(value) === undefined ? value : text;
  } catch {
    return text;
  }
}
