/**
 * Whether words are a query's, how often, and how much that says. What engines do in their own way
 * is compared with this.
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

/** Of all that can be found. */
export interface Corpus {
  readonly documents: number;
  readonly words: number;
}

/**
 * BM25 as SQLite's FTS5 computes it, so that all stores give the same: k1 is 1.2, b is 0.75, and a
 * phrase that more than half of the documents hold counts next to nothing instead of less. `counts`
 * says how many documents hold each phrase.
 */
export class Scoring {
  readonly #weights: readonly number[];
  readonly #averageWords: number;

  constructor({ documents, words }: Corpus, counts: readonly number[]) {
    this.#averageWords = words / documents;
    this.#weights = counts.map((count) => {
      const weight = Math.log((documents - count + 0.5) / (count + 0.5));
      return weight <= 0 ? 1e-6 : weight;
    });
  }

  score(frequencies: readonly number[], words: number): number {
    return scored(frequencies, words / this.#averageWords, this.#weights);
  }
}

/** `length` is that of the text, measured by the one that is usual. */
function scored(
  frequencies: readonly number[],
  length: number,
  weights?: readonly number[],
): number {
  const much = K1 * (1 - B + B * length);
  let sum = 0;
  for (let i = 0; i < frequencies.length; i++) {
    const often = frequencies[i] as number;
    sum += (weights?.[i] ?? 1) * ((often * (K1 + 1)) / (often + much));
  }
  return rounded(sum);
}

const USUAL_WORDS = 64;

/**
 * The score of a text that is looked for in the sessions of one agent, or in one session. It takes
 * nothing but the text: how rare a word is, and how long texts are, would tell of the texts of
 * others.
 */
export const ownScore = (frequencies: readonly number[], words: number): number =>
  scored(frequencies, words / USUAL_WORDS);

const K1 = 1.2;
const B = 0.75;

/** Engines differ in the last bits. What differs by less is equal, and the newer comes first. */
export const rounded = (score: number): number => Math.round(score * 1e9) / 1e9;
