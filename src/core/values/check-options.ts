/**
 * Checks of what callers give: names known, types and numbers right. A getter or a proxy of the
 * caller's own may throw, or answer differently the second time, so each field is read once.
 */
import { notAmong } from "./closest.js";
import { HoldfastError, pathTo } from "./errors.js";
import { typeName } from "./ids.js";
import { isList, isPlain, put } from "./json.js";

export function invalid(path: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, { path }, cause);
}

const THREW = "reading it threw an error";

interface Given {
  /** The fields that were given, each read once. */
  readonly fields: Record<string, unknown>;
  /** A field that was given and is not known. */
  readonly unknown: string | undefined;
}

/** Read the known fields of a plain object. */
export function readFields(value: object, path: string, known: readonly string[]): Given {
  refuseUnlessPlain(value, path);
  const fields: Record<string, unknown> = {};
  let at: string | undefined;
  try {
    const unknown = Object.keys(value).find((key) => !known.includes(key));
    for (const key of known) {
      at = key;
      if (Object.hasOwn(value, key)) put(fields, key, (value as Record<string, unknown>)[key]);
    }
    return { fields, unknown };
  } catch (cause) {
    throw invalid(at === undefined ? path : pathTo(path, at), THREW, cause);
  }
}

/**
 * A Map, a Date or a Promise would be read as an object without fields, and a misspelt field that
 * is inherited would not be seen. A call that asked for a dry run would then be made.
 */
function refuseUnlessPlain(value: object, path: string): void {
  let isRefused: boolean;
  try {
    isRefused = !isPlain(value);
  } catch (cause) {
    throw invalid(path, THREW, cause);
  }
  if (!isRefused) return;
  const name = typeName(value);
  const found =
    name === "Object" || name === "an object"
      ? "an object that inherits from another"
      : `an instance of ${name}`;
  throw invalid(path, `it must be a plain object, not ${found}. Pass its fields: { ...fields }`);
}

/** Copy an options object with no keys but those that are known. Absent means empty. */
export function options<T extends object>(
  value: T | undefined,
  what: string,
  known: readonly (keyof T & string)[],
): Partial<T> {
  if (value === undefined) return {};
  if (!isObjectOf(value)) throw invalid(what, `options are a plain object, not ${typeName(value)}`);
  const { fields, unknown } = readFields(value, what, known);
  if (unknown !== undefined) throw invalid(what, `there is no option ${notAmong(unknown, known)}`);
  return fields as Partial<T>;
}

/**
 * Read the name of a scope: leaving it out means all. A name that is given and undefined is
 * refused, because a program that lost a name must not reach more than it meant.
 */
export function scopeOf<T extends object, K extends keyof T & string>(given: T, name: K): T[K] {
  const value = given[name];
  if (value === undefined && name in given)
    throw invalid(name, "it is undefined. Give a name, or leave it out to mean all");
  return value;
}

const isObjectOf = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !isList(value);

/** The entries of an object whose keys are the caller's own. `is` says what it must be. */
export function entriesIn(
  value: unknown,
  path: string,
  is: string,
): readonly (readonly [string, unknown])[] {
  if (!isObjectOf(value)) throw invalid(path, `it must be ${is}, not ${typeName(value)}`);
  refuseUnlessPlain(value, path);
  try {
    return Object.entries(value);
  } catch (cause) {
    throw invalid(path, THREW, cause);
  }
}

const MAX_ITEMS = 1_000_000;

/**
 * The items of a list, each read once, and no more than `most` of them. `is` says what the list
 * must be.
 */
export function listOf(
  value: unknown,
  path: string,
  is: string,
  most = MAX_ITEMS,
): readonly unknown[] {
  if (!isList(value)) throw invalid(path, `it must be ${is}, not ${typeName(value)}`);
  try {
    return Array.from({ length: Math.min(value.length, most) }, (_, i) => value[i]);
  } catch (cause) {
    throw invalid(path, THREW, cause);
  }
}

export function wholeNumber(value: unknown, path: string, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    throw invalid(path, `it must be a whole number from ${least} to ${most}`);
  }
  return value;
}

export function flag(value: unknown, path: string): boolean | undefined {
  if (value !== undefined && typeof value !== "boolean")
    throw invalid(path, `it must be true or false, not ${typeName(value)}`);
  return value;
}

export function oneOf<T extends string>(
  value: unknown,
  path: string,
  choices: readonly T[],
): T | undefined {
  if (value !== undefined && !(choices as readonly unknown[]).includes(value))
    throw invalid(path, `it must be one of ${choices.join(", ")}`);
  return value as T | undefined;
}

/** Whether a value is an instance of a class. A proxy that throws is none. */
export function isInstance<T>(
  value: unknown,
  of: abstract new (...args: never[]) => T,
): value is T {
  try {
    return value instanceof of;
  } catch {
    return false;
  }
}

export function signalOf(value: unknown): AbortSignal | undefined {
  if (value === undefined || isInstance(value, AbortSignal)) return value;
  throw invalid("signal", `it must be an AbortSignal, not ${typeName(value)}`);
}

export function callback<T>(value: T | undefined, path: string): T | undefined {
  if (value !== undefined && typeof value !== "function")
    throw invalid(path, `it must be a function, not ${typeName(value)}`);
  return value;
}
