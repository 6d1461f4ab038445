/**
 * Values. What goes in is JSON and comes out equal, or is refused with the path of the offender; never silently changed.
 *
 * V1  undefined properties are absent, -0 is 0, key order is kept.
 * V2  each property is read once: a getter cannot show one value to the check and another to the encoder.
 * V3  what is returned is a frozen copy; nothing the caller does later reaches it.
 * V4  `__proto__` and its like are ordinary keys.
 */
import { HoldfastError, quote } from "./errors.js";
import { typeName } from "./ids.js";

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** T itself where JSON can hold it; `never` at the offending leaf. Interfaces and optional properties pass. */
export type Storable<T> = T extends null | boolean | number | string | undefined
  ? T
  : T extends bigint | symbol | Date | Map<never, never> | Set<never> | RegExp | Promise<never> | ((...a: never[]) => unknown)
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

/** Checks, copies, freezes and encodes, in that order and in one walk. `path` names the root in errors. */
export function encode(value: unknown, path: string): Encoded {
  const copy = freeze(value, path);
  const text = JSON.stringify(copy);
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_VALUE_BYTES) throw tooLarge(path);
  return { value: copy, text, bytes };
}

/** A frozen copy of a value, checked. */
export function freeze(value: unknown, path: string): Json {
  const walk = new Walk(path);
  return walk.copy(value);
}

class Walk {
  readonly #root: string;
  readonly #keys: (string | number)[] = [];
  #size = 0;

  constructor(root: string) {
    this.#root = root;
  }

  copy(value: unknown): Json {
    // Counting nodes as well as text bounds a value that refers to the same big part many times over.
    this.#size += 1;
    if (this.#size > MAX_VALUE_BYTES) throw tooLarge(this.#path());
    switch (typeof value) {
      case "string":
        return this.#text(value);
      case "boolean":
        return value;
      case "number":
        if (!Number.isFinite(value)) throw this.#refuse(`${value} is not JSON`);
        return value === 0 ? 0 : value;
      case "object":
        if (value === null) return null;
        if (this.#keys.length >= MAX_DEPTH) throw this.#refuse(`nested deeper than ${MAX_DEPTH} levels, or in a circle`);
        return Array.isArray(value) ? this.#array(value) : this.#object(value);
      case "undefined":
        throw this.#refuse("undefined is not JSON");
      case "bigint":
        throw this.#refuse("a bigint is not JSON; store it as a string");
      default:
        throw this.#refuse(`a ${typeof value} is not JSON`);
    }
  }

  #text(value: string): string {
    this.#size += value.length;
    if (this.#size > MAX_VALUE_BYTES) throw tooLarge(this.#path());
    if (!value.isWellFormed()) throw this.#refuse("the text holds half a character (a lone surrogate)");
    return value;
  }

  #array(value: readonly unknown[]): Json {
    const length = value.length;
    if (length > MAX_VALUE_BYTES) throw tooLarge(this.#path());
    const copy: Json[] = [];
    for (let i = 0; i < length; i++) {
      this.#keys.push(i);
      copy.push(this.copy(this.#read(value, i)));
      this.#keys.pop();
    }
    if (Object.keys(value).length > length) throw this.#refuse("an array with named properties is not JSON");
    return Object.freeze(copy);
  }

  #object(value: object): Json {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null && !isForeignPlain(prototype)) {
      throw this.#refuse(`${typeName(value)} is not JSON`);
    }
    if (Object.getOwnPropertySymbols(value).length > 0) throw this.#refuse("a symbol as a key is not JSON");
    const copy: Record<string, Json> = {};
    for (const key of Object.keys(value)) {
      this.#keys.push(key);
      const item = this.#read(value as Record<string, unknown>, key);
      if (item !== undefined) put(copy, this.#text(key), this.copy(item));
      this.#keys.pop();
    }
    return Object.freeze(copy);
  }

  #read(from: Record<string, unknown> | readonly unknown[], key: string | number): unknown {
    try {
      return (from as Record<string | number, unknown>)[key];
    } catch (cause) {
      throw new HoldfastError("INVALID_VALUE", `${this.#path()}: reading it threw an error.`, { path: this.#path() }, cause);
    }
  }

  #path(): string {
    let path = this.#root;
    // A path of hundreds of levels helps nobody: the first and the last few tell where it is.
    const keys = this.#keys.length > 24 ? [...this.#keys.slice(0, 12), undefined, ...this.#keys.slice(-8)] : this.#keys;
    for (const key of keys) {
      if (key === undefined) path += "…";
      else if (typeof key === "number") path += `[${key}]`;
      else path += /^[A-Za-z_$][\w$]{0,99}$/.test(key) ? `.${key}` : `[${quote(key)}]`;
    }
    return path;
  }

  #refuse(why: string): HoldfastError {
    const path = this.#path();
    return new HoldfastError("INVALID_VALUE", `${path}: ${why}.`, { path });
  }
}

function tooLarge(path: string): HoldfastError {
  return new HoldfastError("TOO_LARGE", `${path}: larger than ${MAX_VALUE_BYTES / 1024 / 1024} MiB.`, { path, limit: MAX_VALUE_BYTES });
}

/** The root prototype of another realm (a vm context, an iframe): plain there, so plain here. */
function isForeignPlain(prototype: unknown): boolean {
  return Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype as object, "hasOwnProperty");
}

/** Assignment that treats `__proto__` as the ordinary key it is in JSON. */
export function put<T>(into: Record<string, T>, key: string, value: T): void {
  if (key === "__proto__") Object.defineProperty(into, key, { value, enumerable: true, configurable: true, writable: true });
  else into[key] = value;
}

/** Freezes what JSON.parse made: stored text was checked when it was written. */
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
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => equal(item, b[i]));
  }
  const left = a as JsonObject;
  const right = b as JsonObject;
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => Object.hasOwn(right, key) && equal(left[key], right[key]));
}
