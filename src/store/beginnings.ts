/** Ids that begin alike, in the order of their bytes (PORT-7). */
import { MAX_ID_BYTES } from "../core/values/ids.js";

/** Behind every id that begins with this text, and before all others that come after it. */
export const beyond = (beginning: string): string =>
  beginning + "\u{10ffff}".repeat(MAX_ID_BYTES / 4 + 1);

export function firstFrom(
  ids: Iterable<string>,
  beginning: string,
  limit: number,
): readonly string[] {
  const found: string[] = [];
  for (const id of ids) if (id.startsWith(beginning)) found.push(id);
  return found.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).slice(0, limit);
}
