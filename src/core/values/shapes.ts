/** Shapes of values that were read from a file, a table or a stream. */

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;

/** A place in time that can be shown. */
export const isTime = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Math.abs(value as number) <= 8.64e15;

export const isText = (value: unknown): value is string =>
  typeof value === "string" && value.isWellFormed();

// ---- shapes of objects, by their types

export type Is = (value: unknown) => boolean;

/**
 * All fields that a type has, and no others: a field that is forgotten in a shape would make sound
 * stores unreadable.
 */
export type Shape<T> = { readonly [K in T extends unknown ? keyof T : never]-?: Is };

/**
 * Whether a value is an object with fields of this shape. A field that no reader knows would keep
 * its text from a redaction.
 */
export const fields =
  <T>(shape: Shape<T>): Is =>
  (value) =>
    isObject(value) &&
    Object.keys(value).every((name) => Object.hasOwn(shape, name)) &&
    Object.entries<Is>(shape).every(([name, is]) => is(value[name]));

export const isString: Is = (value) => typeof value === "string";
export const isNumber: Is = (value) => typeof value === "number" && Number.isFinite(value);
export const maybe =
  (is: Is): Is =>
  (value) =>
    value === undefined || is(value);
export const listOf =
  (is: Is): Is =>
  (value) =>
    Array.isArray(value) && value.every((item) => is(item));
export const oneOf =
  (...choices: readonly unknown[]): Is =>
  (value) =>
    choices.includes(value);
