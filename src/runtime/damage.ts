/** Going on where something is damaged that is not what was asked for. */
import { HoldfastError } from "../core/errors.js";

/** What is answered, or undefined where something damaged stands in the way. */
export async function unlessDamaged<T>(ask: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return undefined;
    throw error;
  }
}
