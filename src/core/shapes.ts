/** Shapes of values that were read from a file, a table or a stream. */

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** A place in time that can be shown. */
export const isTime = (value: unknown): value is number => Number.isSafeInteger(value) && Math.abs(value as number) <= 8.64e15;

export const isText = (value: unknown): value is string => typeof value === "string" && value.isWellFormed();
