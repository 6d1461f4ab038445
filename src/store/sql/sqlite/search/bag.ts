/** The words of a text without their order, as the index keeps them: which of a query's phrases they can hold, and how often. */
import { isWord, ownFrequency } from "../../../../core/search/match.js";
import type { Phrase, Query } from "../../../../core/search/query.js";
import type { Prepared } from "../prepared.js";
import { countsIn, numberOf, wordOf } from "./vocabulary.js";

/** What is counted of a text that holds all that is wanted. */
export interface Counted {
  readonly frequencies: readonly number[];
  readonly length: number;
}

export class Bag {
  readonly #statements: Prepared;
  readonly #query: Query;
  /** Of the words of the query. One that no text has is no reason to look no further: others may have it, and that must not be told. */
  readonly #numbers = new Map<string, number | undefined>();
  readonly #words = new Map<number, string>();
  /** Whether the order of words matters, which a bag does not know. */
  readonly needsOrder: boolean;

  constructor(statements: Prepared, query: Query) {
    this.#statements = statements;
    this.#query = query;
    this.needsOrder = [...query.all, ...query.none].some(({ words }) => words.length > 1);
    for (const { words } of [...query.all, ...query.none])
      for (const word of words) this.#numbers.set(word, statements.of(numberOf).get(word)?.[0] as number | undefined);
  }

  /** Undefined where it cannot hold what is wanted, or holds a word that is not. */
  count(packed: Uint8Array): Counted | undefined {
    const counts = countsIn(packed);
    const frequencies: number[] = [];
    for (const phrase of this.#query.all) {
      const often = this.#often(phrase, counts);
      if (often === 0) return undefined;
      frequencies.push(ownFrequency(phrase, often));
    }
    if (this.#query.none.some((phrase) => phrase.words.length === 1 && this.#often(phrase, counts) > 0)) return undefined;
    let length = 0;
    for (const count of counts.values()) length += count;
    return { frequencies, length };
  }

  /** Of a single word how often it is there; of others whether all their words are. */
  #often(phrase: Phrase, counts: ReadonlyMap<number, number>): number {
    const countOf = (word: string) => counts.get(this.#numbers.get(word) ?? 0) ?? 0;
    const { words, prefix } = phrase;
    if (isWord(phrase)) return countOf(words[0] as string);
    const whole = prefix ? words.slice(0, -1) : words;
    if (whole.some((word) => countOf(word) === 0)) return 0;
    return !prefix || this.#hasBeginning(words.at(-1) as string, counts) ? 1 : 0;
  }

  /** By the words of the text, and not by all words that begin so: those may be others'. */
  #hasBeginning(beginning: string, counts: ReadonlyMap<number, number>): boolean {
    for (const number of counts.keys()) {
      let word = this.#words.get(number);
      if (word === undefined) {
        word = String(this.#statements.of(wordOf).get(number)?.[0]);
        this.#words.set(number, word);
      }
      if (word.startsWith(beginning)) return true;
    }
    return false;
  }
}
