/** Fields of what other programs wrote: of the type that is asked for, or not there. */
import { HoldfastError } from "../core/errors.js";
import type { Json, JsonObject } from "../index.js";

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const at = (of: JsonObject, key: string): Json | undefined => (Object.hasOwn(of, key) ? of[key] : undefined);

export function textAt(of: JsonObject, key: string): string | undefined {
  const value = at(of, key);
  return typeof value === "string" ? value : undefined;
}

export function objectAt(of: JsonObject, key: string): JsonObject | undefined {
  const value = at(of, key);
  return isObject(value) ? value : undefined;
}

export function listAt(of: JsonObject, key: string): readonly Json[] | undefined {
  const value = at(of, key);
  return Array.isArray(value) ? (value as readonly Json[]) : undefined;
}

/** A list that may be absent; anything else in its place is not taken for an empty one. */
export function listOrNone(of: JsonObject, key: string): readonly Json[] {
  const value = at(of, key);
  if (value === undefined || value === null) return [];
  if (Array.isArray(value)) return value as readonly Json[];
  throw new HoldfastError("INVALID_VALUE", `Its ${key} is no list.`, { path: key });
}

/** The same, of objects. */
export function objectsOrNone(of: JsonObject, key: string): readonly JsonObject[] {
  const items = listOrNone(of, key);
  if (items.every(isObject)) return items;
  throw new HoldfastError("INVALID_VALUE", `Its ${key} hold something else than objects.`, { path: key });
}

/** A whole number from 0 on, as Holdfast's checkpoints hold it. */
export function countAt(of: JsonObject, key: string): number | undefined {
  const value = at(of, key);
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** A whole number of any size: those past a double were read as text. */
export function integerAt(of: JsonObject, key: string): bigint | undefined {
  const value = at(of, key);
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return typeof value === "string" && /^-?\d{1,40}$/.test(value) ? BigInt(value) : undefined;
}

/** What is given, without what is null or absent. */
export const present = (fields: Readonly<Record<string, Json | undefined>>): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter((entry): entry is [string, Json] => entry[1] !== undefined && entry[1] !== null));

/**
 * Metadata of theirs with a note of where it came from beside it, under `source`. Theirs goes into the note where it has a field of that
 * name itself.
 */
export const withSource = (theirs: JsonObject | undefined, source: JsonObject): JsonObject =>
  theirs !== undefined && Object.hasOwn(theirs, "source") ? { source: { ...source, metadata: theirs } } : { ...theirs, source };
