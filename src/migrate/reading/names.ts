/** Their ids as ours: text, never paths. */
import { createHash } from "node:crypto";

const MAX_BYTES = 200;
const CONTROL = /\p{Cc}/gu;

/**
 * Whether Holdfast takes it as a name: 1 to 200 bytes of well-formed text without control
 * characters.
 */
export const isName = (text: string): boolean =>
  text.length > 0 &&
  text.length <= MAX_BYTES &&
  Buffer.byteLength(text) <= MAX_BYTES &&
  text.isWellFormed() &&
  text.search(CONTROL) === -1;

/**
 * The same text where it is a name; otherwise what is left of it, and a digest that keeps two of
 * them apart. The same each time.
 */
export function nameOf(text: string): string {
  if (isName(text)) return text;
  const words = text.toWellFormed().replace(CONTROL, "_");
  let cut = words.slice(0, 150);
  while (Buffer.byteLength(cut) > 150) cut = cut.slice(0, -1);
  return `${cut.toWellFormed() || "unnamed"}~${shortDigest(text)}`;
}

/** Cut text where half a character stands at its end is well-formed again. */
export const clipped = (text: string, most: number): string =>
  text.length <= most ? text : `${text.slice(0, most - 1).toWellFormed()}…`;

const shortDigest = (text: string): string => digestOf(text).slice(0, 12);
/** Sixteen bytes: what was imported is known again by it. */
export const digestOf = (text: string | Uint8Array): string =>
  createHash("sha256").update(text).digest("hex").slice(0, 32);
