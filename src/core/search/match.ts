/**
 * Whether words are a query's, how often, and how much that says. What engines find in their own
 * way is compared with this.
 */
import type { Phrase, Query } from "./query.js";

/** Where a phrase stands in words: the number of its first word at each place. */
function placesOf({ words: wanted, prefix }: Phrase, words: readonly string[]): number[] {
  const places: number[] = [];
  const last = wanted.length - 1;
  const end = wanted[last] as string;
  if (last === 0 && !prefix) {
    for (let i = words.indexOf(end); i >= 0; i = words.indexOf(end, i + 1)) places.push(i);
    return places;
  }
  for (let i = 0; i + last < words.length; i++) {
    let same = 0;
    while (same < last && words[i + same] === wanted[same]) same += 1;
    if (same < last) continue;
    const found = words[i + last] as string;
    if (prefix ? found.startsWith(end) : found === end) places.push(i);
  }
  return places;
}

export const frequency = (phrase: Phrase, words: readonly string[]): number =>
  placesOf(phrase, words).length;

/**
 * Where each of the wanted phrases stands; undefined where one does not, or one does that must not.
 */
export function occurrences(
  { all, none }: Query,
  words: readonly string[],
): readonly (readonly number[])[] | undefined {
  const found: number[][] = [];
  for (const phrase of all) {
    const places = placesOf(phrase, words);
    if (places.length === 0) return undefined;
    found.push(places);
  }
  for (const phrase of none) if (placesOf(phrase, words).length > 0) return undefined;
  return found;
}

const USUAL_WORDS = 64;
const K1 = 1.2;
const B = 0.75;

/**
 * How well a text fits. It takes nothing but the text: how rare a word is, and how long texts are,
 * would tell of the texts of others.
 */
export function scoreOf(frequencies: readonly number[], words: number): number {
  const much = K1 * (1 - B + (B * words) / USUAL_WORDS);
  let sum = 0;
  for (const often of frequencies) sum += (often * (K1 + 1)) / (often + much);
  return sum;
}
