/** Removing text from a store's files, and from the index for search, that is not in the store any more. */
import { HoldfastError } from "../core/errors.js";
import type { Ground } from "./ground.js";

/** `holds` says of a text that no longer counts whether it must go. Answers what is left, in words. */
export async function scrub({ store }: Ground, holds: (text: string) => boolean): Promise<readonly string[]> {
  const unpurged: string[] = [];
  try {
    await store.index?.purge();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    unpurged.push(`words in the index for search: it could not be gone over (${error.message}).`);
  }
  const { left } = await store.scrub(holds);
  return [...unpurged, ...left];
}
