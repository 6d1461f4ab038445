/** Words by number, so that what a text is made of takes little room. */
import type { Prepared } from "../driver/prepared.js";

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

  /** The words, one behind the other. */
  pack(words: readonly string[]): Uint8Array {
    const bytes: number[] = [];
    for (const word of words) push(bytes, this.#numberOf(word));
    return Uint8Array.from(bytes);
  }

  unpack(packed: Uint8Array): string {
    return numbersIn(packed)
      .map((number) => String(this.#statements.of(wordOf).get(number)?.[0]))
      .join(" ");
  }

  #numberOf(word: string): number {
    let number = this.#known.get(word);
    if (number === undefined) {
      number = (this.#statements.of(numberOf).get(word) ??
        this.#statements.of(insert).get(word))?.[0] as number;
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

export function numbersIn(bytes: Uint8Array): number[] {
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
