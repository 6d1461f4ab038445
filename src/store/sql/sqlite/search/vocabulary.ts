/** Words by number, so that what a text is made of takes little room: distinct words, as a rising list of numbers. */
import type { Prepared } from "../prepared.js";

const numberOf = "SELECT no FROM word WHERE word = ?";
const insert = "INSERT INTO word (word) VALUES (?) RETURNING no";
const wordOf = "SELECT word FROM word WHERE no = ?";
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

  /** How many words there are, and which. */
  pack(words: readonly string[]): Uint8Array {
    const numbers = [...new Set(words)].map((word) => this.#numberOf(word)).sort((a, b) => a - b);
    const bytes: number[] = [];
    push(bytes, words.length);
    let last = 0;
    for (const number of numbers) {
      push(bytes, number - last);
      last = number;
    }
    return Uint8Array.from(bytes);
  }

  /** A text with just these words and as many; their order is not known any more. */
  unpack(packed: Uint8Array): string {
    const [count = 0, ...steps] = numbersIn(packed);
    const words: string[] = [];
    let last = 0;
    for (const step of steps) {
      last += step;
      words.push(String(this.#statements.of(wordOf).get(last)?.[0]));
    }
    const [first = ""] = words;
    while (words.length < count) words.push(first);
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
