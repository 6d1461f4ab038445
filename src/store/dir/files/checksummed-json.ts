/**
 * Small JSON files that carry a digest of themselves: a changed bit is damage that is seen, and not
 * a value that is believed (D3).
 */
import { digest } from "../../../core/values/digest.js";

const CHECK = 16;
const HEAD = '{\n  "check": "';
const AFTER = '",\n';

export function sealedText(value: object): string {
  const rest = `${JSON.stringify(value, null, 2).slice(2)}\n`;
  return `${HEAD}${digest(rest).slice(0, CHECK)}${AFTER}${rest}`;
}

/** What the text says, or undefined where it is damaged. */
export function unsealed<T>(text: string): T | undefined {
  const at = HEAD.length + CHECK;
  const rest = text.slice(at + AFTER.length);
  if (
    !text.startsWith(HEAD) ||
    !text.startsWith(AFTER, at) ||
    digest(rest).slice(0, CHECK) !== text.slice(HEAD.length, at)
  )
    return undefined;
  try {
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

/**
 * In the place of a text that is damaged: no digest fits it, so whoever reads the row is told (D3).
 */
export const DAMAGED = "\0damaged";
