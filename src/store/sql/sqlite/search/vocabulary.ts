/** Words by number, so that what a text is made of takes little room: distinct words, as a rising list of numbers, each with how often it is there. */
import type { Prepared } from "../prepared.js";

export const numberOf = "SELECT no FROM word WHERE word = ?";
const insert = "INSERT INTO word (word) VALUES (?) RETURNING no";
export const wordOf = "SELECT word FROM word WHERE no = ?";
const MOST_KNOWN = 200_000;

export class Vocabulary {
  readonly #statements: Prepared;
  readonly #known = new Map<string, number>();

  constructor(statements: Prepared) {
    this.#statements = statements;
  }

  /** Numbers may have been taken back, or words removed. */
  forget(): void {
    this.#known.clear();
  }

  /** Which words there are, and how often. */
  pack(words: readonly string[]): Uint8Array {
    const counts = new Map<string, number>();
    for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
    const numbered = [...counts].map(([word, count]) => [this.#numberOf(word), count] as const).sort(([a], [b]) => a - b);
    const bytes: number[] = [];
    let last = 0;
    for (const [number, count] of numbered) {
      push(bytes, number - last);
      push(bytes, count);
      last = number;
    }
    return Uint8Array.from(bytes);
  }

  /** A text with just these words, each as often; their order is not known any more. */
  unpack(packed: Uint8Array): string {
    const words: string[] = [];
    for (const [number, count] of countsIn(packed)) {
      const word = String(this.#statements.of(wordOf).get(number)?.[0]);
      for (let i = 0; i < count; i++) words.push(word);
    }
    return words.join(" ");
  }

  #numberOf(word: string): number {
    let number = this.#known.get(word);
    if (number === undefined) {
      number = (this.#statements.of(numberOf).get(word) ?? this.#statements.of(insert).get(word))?.[0] as number;
      if (this.#known.size >= MOST_KNOWN) this.#known.clear();
      this.#known.set(word, number);
    }
    return number;
  }
}

/** The numbers of the words of a text, and how often each is there. */
export function countsIn(packed: Uint8Array): Map<number, number> {
  const numbers = numbersIn(packed);
  const counts = new Map<number, number>();
  let last = 0;
  for (let i = 0; i + 1 < numbers.length; i += 2) {
    last += numbers[i] as number;
    counts.set(last, numbers[i + 1] as number);
  }
  return counts;
}

/** Seven bits to a byte, the low ones first. */
function push(bytes: number[], value: number): void {
  let rest = value;
  for (; rest > 127; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  bytes.push(rest);
}

function numbersIn(bytes: Uint8Array): number[] {
  const numbers: number[] = [];
  let value = 0;
  let scale = 1;
  for (const byte of bytes) {
    value += (byte % 128) * scale;
    scale *= 128;
    if (byte > 127) continue;
    numbers.push(value);
    value = 0;
    scale = 1;
  }
  return numbers;
}
