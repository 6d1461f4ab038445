/**
 * Texts drawn from a fixed seed. No secret of the corpus is real, and none stands in a file:
 * scanners of secrets look through those.
 */
export interface Draw {
  /** A number from 0 to `below` - 1. */
  number(below: number): number;
  /**
   * So many characters of an alphabet. At least one is a digit where the alphabet has digits, as in
   * nearly every real token.
   */
  of(alphabet: string, length: number): string;
  one<T>(items: readonly T[]): T;
}

export const LOWER = "abcdefghijklmnopqrstuvwxyz";
export const UPPER = LOWER.toUpperCase();
export const DIGITS = "0123456789";
export const HEX = "0123456789abcdef";
export const LETTERS = LOWER + UPPER;
export const ALNUM = LETTERS + DIGITS;
export const URL64 = `${ALNUM}_-`;
export const BASE64 = `${ALNUM}+/`;
export const BASE32 = `${UPPER}234567`;

export function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const number = (below: number): number => Math.floor(next() * below);
  return {
    number,
    of(alphabet, length) {
      const drawn = Array.from({ length }, () => alphabet[number(alphabet.length)] as string);
      const digits = [...alphabet].filter((char) => DIGITS.includes(char));
      if (digits.length > 0 && !drawn.some((char) => digits.includes(char)))
        drawn[number(length)] = digits[number(digits.length)] as string;
      return drawn.join("");
    },
    one: (items) => items[number(items.length)] as never,
  };
}

export const uuid = (draw: Draw): string =>
  `${draw.of(HEX, 8)}-${draw.of(HEX, 4)}-4${draw.of(HEX, 3)}-a${draw.of(HEX, 3)}-${draw.of(HEX, 12)}`;
