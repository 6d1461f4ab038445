/** Whether words are a query's, how often, and how much that says. What engines do in their own way is compared with this. */
import type { Phrase, Query } from "./query.js";

/** Where a phrase stands in words: the number of its first word at each place. */
export function* placesOf({ words: wanted, prefix }: Phrase, words: readonly string[]): Generator<number> {
  const last = wanted.length - 1;
  const end = wanted[last] as string;
  const first = wanted[0] as string;
  for (let i = 0; i + last < words.length; i++) {
    if (last > 0 && words[i] !== first) continue;
    let same = 1;
    while (same < last && words[i + same] === wanted[same]) same += 1;
    if (last > 0 && same < last) continue;
    const found = words[i + last] as string;
    if (prefix ? found.startsWith(end) : found === end) yield i;
  }
}

export function frequency(phrase: Phrase, words: readonly string[]): number {
  let count = 0;
  for (const _ of placesOf(phrase, words)) count += 1;
  return count;
}

/** How often each of the wanted phrases occurs; undefined where one does not, or one does that must not. */
export function frequencies({ all, none }: Query, words: readonly string[]): readonly number[] | undefined {
  const counts: number[] = [];
  for (const phrase of all) {
    const count = frequency(phrase, words);
    if (count === 0) return undefined;
    counts.push(count);
  }
  for (const phrase of none) for (const _ of placesOf(phrase, words)) return undefined;
  return counts;
}

/** Of all that can be found. */
export interface Corpus {
  readonly documents: number;
  readonly words: number;
}

/**
 * BM25 as SQLite's FTS5 computes it, so that all stores give the same: k1 is 1.2, b is 0.75, and a phrase that more than half of the
 * documents hold counts next to nothing instead of less. `counts` says how many documents hold each phrase.
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
    const length = K1 * (1 - B + (B * words) / this.#averageWords);
    let sum = 0;
    for (let i = 0; i < frequencies.length; i++) {
      const often = frequencies[i] as number;
      sum += (this.#weights[i] as number) * ((often * (K1 + 1)) / (often + length));
    }
    return rounded(sum);
  }
}

const K1 = 1.2;
const B = 0.75;

/** Engines differ in the last bits. What differs by less is equal, and the newer comes first. */
export const rounded = (score: number): number => Math.round(score * 1e9) / 1e9;
