/** Going on where something is damaged, or gone, that is not what was asked for. */
import { type ErrorCode, HoldfastError } from "../../core/values/errors.js";

/** What is answered, or undefined where something damaged stands in the way. */
export const unlessDamaged = <T>(ask: () => T | Promise<T>): Promise<T | undefined> =>
  unless("CORRUPT", ask);

/** The same where there is nothing any more of what it is about. */
export const unlessGone = <T>(ask: () => T | Promise<T>): Promise<T | undefined> =>
  unless("NOT_FOUND", ask);

/** Tell whether something is found. Damage in its place is something, too. */
export async function isThere(find: () => Promise<object | undefined>): Promise<boolean> {
  const found = await unlessDamaged(async () => ({ it: await find() }));
  return found === undefined || found.it !== undefined;
}

async function unless<T>(code: ErrorCode, ask: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof HoldfastError && error.code === code) return undefined;
    throw error;
  }
}
