/**
 * Values. What goes in is JSON and comes out equal, or is refused with the path of the offender;
 * never silently changed.
 *
 * VALUE-1  undefined properties are absent, -0 is 0, key order is kept.
 * VALUE-2  each property is read once: a getter cannot show one value to the check and another to
 *          the encoder.
 * VALUE-3  what is returned is a frozen copy; nothing the caller does later reaches it.
 * VALUE-4  `__proto__` and its like are ordinary keys.
 */
import { HoldfastError, pathTo } from "./errors.js";
import { typeName } from "./ids.js";

/** Any JSON value. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };
/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json };

/**
 * T itself if JSON can hold it; `never` at the leaf that it cannot hold.
 * Interfaces and optional properties pass.
 */
export type Storable<T> = T extends null | boolean | number | string | undefined
  ? T
  : T extends
        | bigint
        | symbol
        | Date
        | Map<never, never>
        | Set<never>
        | RegExp
        | Promise<never>
        | ((...a: never[]) => unknown)
    ? never
    : T extends object
      ? { [K in keyof T]: Storable<T[K]> }
      : unknown extends T
        ? T
        : never;

export const MAX_DEPTH = 512;
export const MAX_VALUE_BYTES = 64 * 1024 * 1024;

export interface Encoded<T = Json> {
  readonly value: T;
  readonly text: string;
  readonly bytes: number;
}

/**
 * Checks, copies, freezes and encodes, in that order and in one walk. `path` names the root in
 * errors.
 */
export function encode(value: unknown, path: string, limit = MAX_VALUE_BYTES): Encoded {
  // Much of what is encoded is one text: there is nothing to walk.
  if (typeof value === "string" && value.length < limit / 8 && value.isWellFormed()) {
    const quoted = JSON.stringify(value);
    return { value, text: quoted, bytes: Buffer.byteLength(quoted) };
  }
  const copy = freeze(value, path, limit);
  const text = JSON.stringify(copy);
  const bytes = Buffer.byteLength(text);
  if (bytes > limit) throw tooLarge(path, limit);
  return { value: copy, text, bytes };
}

/** A frozen copy of a value, checked. */
export function freeze(value: unknown, path: string, limit = MAX_VALUE_BYTES): Json {
  const walk = new Walk(path, limit);
  try {
    return walk.copy(value);
  } catch (error) {
    // Anything else was thrown by a getter or a proxy of the caller's.
    throw walk.refusal ?? unreadable(walk.path(), error);
  }
}

/**
 * From this size on, bytes are counted as JSON writes them, and what was copied is remembered with
 * its size. Before, a lower bound is enough, and a part that is shared is cheap to copy again.
 */
const EXACT_FROM = 64 * 1024;

interface Copied {
  readonly copy: Json;
  readonly size: number;
  readonly depth: number;
}

class Walk {
  refusal: HoldfastError | undefined;
  readonly #root: string;
  /** Where the walk is; left as it is by an error, which is how the error is told its path. */
  readonly #keys: (string | number)[] = [];
  readonly #limit: number;
  /**
   * No more than the bytes of the text so far: each item has a comma or bracket beside itself, but
   * for the root.
   */
  #size = -1;
  #copied: Map<object, Copied> | undefined;

  constructor(root: string, limit: number) {
    this.#root = root;
    this.#limit = limit;
  }

  copy(value: unknown): Json {
    this.#grow(2);
    switch (typeof value) {
      case "string":
        this.#grow(1);
        return this.#text(value);
      case "boolean":
        this.#grow(value ? 3 : 4);
        return value;
      case "number":
        if (!Number.isFinite(value)) throw this.#refuse(`${value} is not JSON`);
        if (this.#size > EXACT_FROM) this.#grow(digits(value) - 1);
        return value === 0 ? 0 : value;
      case "object":
        if (value !== null) return this.#container(value);
        this.#grow(3);
        return null;
      case "undefined":
        throw this.#refuse("undefined is not JSON");
      case "bigint":
        throw this.#refuse(BIGINT);
      default:
        throw this.#refuse(`a ${typeof value} is not JSON`);
    }
  }

  /**
   * Thirty small objects can have a billion paths: one that was copied is not walked again, but
   * counts each time.
   */
  #container(value: object): Json {
    const depth = this.#keys.length;
    if (depth >= MAX_DEPTH) throw this.#refuse(TOO_DEEP);
    const known = this.#copied?.get(value);
    // Deeper than before it may reach below the last level, so there it is walked.
    if (known !== undefined && depth <= known.depth) {
      this.#grow(known.size);
      return known.copy;
    }
    const before = this.#size;
    const copy = Array.isArray(value) ? this.#array(value) : this.#object(value);
    if (before > EXACT_FROM) {
      this.#copied ??= new Map();
      this.#copied.set(value, { copy, size: this.#size - before, depth });
    }
    return copy;
  }

  #array(value: readonly unknown[]): Json {
    const length = lengthOf(value);
    // Each item takes two bytes at least, with its comma.
    if (this.#size + 2 * length > this.#limit) throw this.#tooLarge();
    const copy: Json[] = [];
    for (let i = 0; i < length; i++) {
      this.#keys.push(i);
      copy.push(this.copy(value[i]));
      this.#keys.pop();
    }
    const flaw = listFlaw(value, length);
    if (flaw !== undefined) throw this.#refuse(flaw);
    return Object.freeze(copy);
  }

  #object(value: object): Json {
    const flaw = objectFlaw(value);
    if (flaw !== undefined) throw this.#refuse(flaw);
    const copy: Record<string, Json> = {};
    for (const key of Object.keys(value)) {
      this.#keys.push(key);
      const item = (value as Record<string, unknown>)[key];
      if (item !== undefined) {
        this.#grow(3);
        put(copy, this.#text(key), this.copy(item));
      }
      this.#keys.pop();
    }
    return Object.freeze(copy);
  }

  #text(value: string): string {
    if (this.#size + value.length > this.#limit) throw this.#tooLarge();
    if (!value.isWellFormed()) throw this.#refuse(HALF_A_CHARACTER);
    this.#grow(this.#size + value.length > EXACT_FROM ? escapedBytes(value) : value.length);
    return value;
  }

  #grow(by: number): void {
    this.#size += by;
    if (this.#size > this.#limit) throw this.#tooLarge();
  }

  path(): string {
    // A path of hundreds of levels helps nobody: the first and the last few tell where it is.
    if (this.#keys.length <= 24) return this.#keys.reduce<string>(pathTo, this.#root);
    return this.#keys
      .slice(-8)
      .reduce<string>(pathTo, `${this.#keys.slice(0, 12).reduce<string>(pathTo, this.#root)}…`);
  }

  #refuse(why: string): HoldfastError {
    this.refusal = invalidValue(this.path(), why);
    return this.refusal;
  }

  #tooLarge(): HoldfastError {
    this.refusal = tooLarge(this.#root, this.#limit);
    return this.refusal;
  }
}

/** How many bytes a well-formed text takes in JSON, without its quotes. */
function escapedBytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x22 || code === 0x5c) bytes += 1;
    else if (code < 0x20) bytes += SHORT_ESCAPES.has(code) ? 1 : 5;
    // Each half of a character outside of the first plane takes two bytes.
    else if (code >= 0x80) bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2;
  }
  return bytes;
}

/** \b, \t, \n, \f and \r. */
const SHORT_ESCAPES: ReadonlySet<number> = new Set([8, 9, 10, 12, 13]);

/** How long a number is in JSON. */
const digits = (value: number): number =>
  value >= 0 && value < 10 && Number.isInteger(value) ? 1 : String(value).length;

export const TOO_DEEP = `nested deeper than ${MAX_DEPTH} levels, or in a circle`;
const HALF_A_CHARACTER = "the text holds half a character (a lone surrogate)";
const BIGINT = "a bigint is not JSON; store it as a string";

/** Flaws that a text of JSON can lead to. Every other flaw is a type of the program's own. */
const OF_TEXT = [TOO_DEEP, HALF_A_CHARACTER, BIGINT, "Infinity is not JSON"];
export const isOfText = ({ code, message }: HoldfastError): boolean =>
  code === "TOO_LARGE" || OF_TEXT.some((why) => message.endsWith(`${why}.`));

/**
 * The own properties of an object that must be plain, each read once. One that is undefined is
 * still there.
 */
export function fieldsOf(value: object, path: string): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  let reading: string | undefined;
  let flaw: string | undefined;
  try {
    flaw = objectFlaw(value);
    if (flaw === undefined) {
      for (const key of Object.keys(value)) {
        reading = key;
        put(fields, key, (value as Record<string, unknown>)[key]);
      }
    }
  } catch (cause) {
    throw unreadable(reading === undefined ? path : pathTo(path, reading), cause);
  }
  if (flaw !== undefined) throw invalidValue(path, flaw);
  return fields;
}

/** The items of an array, each read once; undefined for what is no array. */
export function itemsOf(value: unknown, path: string): readonly unknown[] | undefined {
  const items: unknown[] = [];
  let reading: number | undefined;
  let refusal: HoldfastError | undefined;
  try {
    if (!isList(value)) return undefined;
    const length = lengthOf(value);
    if (length > MAX_VALUE_BYTES) refusal = tooLarge(path, MAX_VALUE_BYTES);
    for (let i = 0; i < length && refusal === undefined; i++) {
      reading = i;
      const item: unknown = value[i];
      if (item === undefined) refusal = invalidValue(pathTo(path, i), "undefined is not JSON");
      items.push(item);
    }
    reading = undefined;
    const flaw = refusal === undefined ? listFlaw(value, length) : undefined;
    if (flaw !== undefined) refusal = invalidValue(path, flaw);
  } catch (cause) {
    throw unreadable(reading === undefined ? path : pathTo(path, reading), cause);
  }
  if (refusal !== undefined) throw refusal;
  return items;
}

/** Whether it is an array; a proxy that was revoked is none, and is refused where it is read. */
export function isList(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/**
 * Whether an object has no fields but its own, and hides nothing: not a Map, a Date, a Promise, or
 * an instance of a class.
 */
export function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || isForeignPlain(prototype);
}

function objectFlaw(value: object): string | undefined {
  if (!isPlain(value)) return `${typeName(value)} is not JSON`;
  return Object.getOwnPropertySymbols(value).length > 0 ? SYMBOL_KEY : undefined;
}

/** Asked after the items were read, so that one which came in meanwhile is seen. */
function listFlaw(value: readonly unknown[], length: number): string | undefined {
  if (Object.keys(value).length > length) return "an array with named properties is not JSON";
  return Object.getOwnPropertySymbols(value).length > 0 ? SYMBOL_KEY : undefined;
}

const SYMBOL_KEY = "a symbol as a key is not JSON";

/** A proxy may say anything of its length. */
function lengthOf(value: readonly unknown[]): number {
  const length: unknown = value.length;
  if (typeof length !== "number" || !Number.isSafeInteger(length))
    throw new TypeError("The length of the array is not a whole number.");
  return length;
}

export function invalidValue(path: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError("INVALID_VALUE", `${path}: ${why}.`, { path }, cause);
}

function unreadable(path: string, cause: unknown): HoldfastError {
  return invalidValue(path, "reading it threw an error", cause);
}

function tooLarge(path: string, limit: number): HoldfastError {
  return new HoldfastError("TOO_LARGE", `${path}: larger than ${limit / 1024 / 1024} MiB.`, {
    path,
    limit,
  });
}

/** The root prototype of another realm (a vm context, an iframe): plain there, so plain here. */
function isForeignPlain(prototype: unknown): boolean {
  return (
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype as object, "hasOwnProperty")
  );
}

/** Assignment that treats `__proto__` as the ordinary key it is in JSON. */
export function put<T>(into: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__")
    Object.defineProperty(into, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  else into[key] = value;
}

/** Where stored values stand in a section: in a base, a list of effects, an effect, a body. */
const FRAME_DEPTH = 16;

/**
 * Parse text that was stored. Another hand may have sealed it, so that it is no JSON, or nested so
 * deep that walking it ends the stack.
 */
export function parseStored(text: string, damage: (cause?: unknown) => HoldfastError): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw damage(cause);
  }
  if (isDeeper(value, MAX_DEPTH + FRAME_DEPTH)) throw damage();
  return value;
}

/** Tell whether a value has more levels than a limit. Never goes deeper than that itself. */
export function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value))
    return value.some((item) => typeof item === "object" && isDeeper(item, levels - 1));
  for (const key in value) {
    const item = (value as Record<string, unknown>)[key];
    if (typeof item === "object" && isDeeper(item, levels - 1)) return true;
  }
  return false;
}

/**
 * Tell whether JSON text holds half a character. `JSON.stringify` writes that as an escape, and
 * nothing else that begins like it.
 */
export const holdsHalf = (text: string): boolean =>
  text.includes("\\ud") && /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text);

/** Freezes what `parseStored` made. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const item of Array.isArray(value) ? value : Object.values(value)) deepFreeze(item);
  }
  return value;
}

/** Equality of JSON values; the order of keys does not matter. */
export function equal(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, i) => equal(item, b[i]))
    );
  }
  const left = a as JsonObject;
  const right = b as JsonObject;
  const keys = Object.keys(left);
  return (
    keys.length === Object.keys(right).length &&
    keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]))
  );
}

/** The value's text with the keys of every object in order: the same for values that are equal. */
export function sortedText(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(sortedText).join(",")}]`;
  const fields = value as JsonObject;
  const keys = Object.keys(fields).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${sortedText(fields[key] as Json)}`).join(",")}}`;
}

/** The size of a value's text, and of a text that may not be there. */
export const jsonBytes = (value: Json): number => Buffer.byteLength(JSON.stringify(value));
export const textBytes = (text: string | null): number =>
  text === null ? 0 : Buffer.byteLength(text);
