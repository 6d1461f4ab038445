/**
 * How often a query's phrases stand in texts, by the numbers of their words, as the index keeps
 * them.
 */
import type { Phrase, Query } from "../../../../core/search/query.js";
import type { Prepared } from "../driver/prepared.js";
import { numberOf, numbersIn, wordOf } from "./vocabulary.js";

/** What is counted of a text that holds all that is wanted. */
export interface Counted {
  readonly frequencies: readonly number[];
  readonly length: number;
}

/** Whether a number is that of a word that is wanted. */
type Test = (number: number) => boolean;

export class Phrases {
  readonly #statements: Prepared;
  readonly #all: readonly (readonly Test[])[];
  readonly #none: readonly (readonly Test[])[];

  constructor(statements: Prepared, { all, none }: Query) {
    this.#statements = statements;
    this.#all = all.map((phrase) => this.#testsOf(phrase));
    this.#none = none.map((phrase) => this.#testsOf(phrase));
  }

  /** Undefined where it does not hold what is wanted, or holds what is not. */
  count(packed: Uint8Array): Counted | undefined {
    const numbers = numbersIn(packed);
    const frequencies: number[] = [];
    for (const tests of this.#all) {
      const often = frequencyOf(tests, numbers);
      if (often === 0) return undefined;
      frequencies.push(often);
    }
    if (this.#none.some((tests) => frequencyOf(tests, numbers) > 0)) return undefined;
    return { frequencies, length: numbers.length };
  }

  #testsOf({ words, prefix }: Phrase): readonly Test[] {
    return words.map((word, i) => {
      if (prefix && i === words.length - 1) return this.#begins(word);
      // A word that no text has is no reason to look no further: others may have it, and how long
      // it takes must not tell.
      const wanted = this.#statements.of(numberOf).get(word)?.[0];
      return (number) => number === wanted;
    });
  }

  /** By the words of the texts, and not by all words that begin so: those may be others'. */
  #begins(beginning: string): Test {
    const known = new Map<number, boolean>();
    return (number) => {
      let does = known.get(number);
      if (does === undefined) {
        does = String(this.#statements.of(wordOf).get(number)?.[0]).startsWith(beginning);
        known.set(number, does);
      }
      return does;
    };
  }
}

function frequencyOf(tests: readonly Test[], numbers: readonly number[]): number {
  let often = 0;
  for (let i = 0; i + tests.length <= numbers.length; i++) {
    let same = 0;
    while (same < tests.length && tests[same]?.(numbers[i + same] as number)) same += 1;
    if (same === tests.length) often += 1;
  }
  return often;
}
