/** Checks of what callers pass: names known, numbers in range. Everything else is refused before it reaches a store. */
import { HoldfastError, quote } from "../core/errors.js";
import { typeName } from "../core/ids.js";

export interface Page<T> {
  readonly items: readonly T[];
  /** Pass it as `cursor` to go on; absent at the end. */
  readonly next?: string;
}

/** Something of a page that cannot be shown. */
export interface Damaged {
  readonly id: string;
  readonly message: string;
}

const MAX_PAGE = 1_000;

export function invalid(path: string, why: string): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, { path });
}

/** An options object with no keys but those that are known; absent means empty. */
export function options<T extends object>(value: T | undefined, what: string, known: readonly (keyof T & string)[]): Partial<T> {
  if (value === undefined) return {};
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(what, `options are an object, not ${typeName(value)}`);
  for (const key of Object.keys(value))
    if (!(known as readonly string[]).includes(key)) throw invalid(what, `there is no option ${quote(key)}; known are ${known.join(", ")}`);
  return value;
}

export function limitOf(value: unknown, path: string, standard = 20): number {
  return value === undefined ? standard : wholeNumber(value, path, 1, MAX_PAGE);
}

export function wholeNumber(value: unknown, path: string, least: number, most: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least || value > most) {
    throw invalid(path, `it must be a whole number from ${least} to ${most}`);
  }
  return value;
}

export function flag(value: unknown, path: string): boolean | undefined {
  if (value !== undefined && typeof value !== "boolean") throw invalid(path, `it must be true or false, not ${typeName(value)}`);
  return value;
}

export function oneOf<T extends string>(value: unknown, path: string, choices: readonly T[]): T | undefined {
  if (value !== undefined && !(choices as readonly unknown[]).includes(value))
    throw invalid(path, `it must be one of ${choices.join(", ")}`);
  return value as T | undefined;
}

export function signalOf(value: unknown): AbortSignal | undefined {
  if (value !== undefined && !(value instanceof AbortSignal)) throw invalid("signal", "it must be an AbortSignal");
  return value;
}

export function callback<T>(value: T | undefined, path: string): T | undefined {
  if (value !== undefined && typeof value !== "function") throw invalid(path, "it must be a function");
  return value;
}

/** The number in a cursor that a list has given out. A letter tells the cursors of one list from those of another. */
export function numberOf(cursor: unknown, letter: "s" | "m" | "d" | "f"): number {
  const found = typeof cursor === "string" ? /^([a-z])([1-9][0-9]{0,14})$/.exec(cursor) : null;
  if (found?.[1] !== letter) throw invalid("cursor", `${typeof cursor === "string" ? quote(cursor) : "it"} did not come from this list`);
  return Number(found[2]);
}

/** A path in the file system that Node and SQLite take for the same. */
export function pathOf(value: unknown, path: string): string {
  if (typeof value !== "string") throw invalid(path, `a path is text, not ${typeName(value)}`);
  if (value === "") throw invalid(path, "the path is empty");
  if (value.includes("\0")) throw invalid(path, "the path holds a NUL character");
  if (!value.isWellFormed()) throw invalid(path, "the path holds half a character (a lone surrogate)");
  return value;
}
