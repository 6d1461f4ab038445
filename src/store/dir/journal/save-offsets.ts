/**
 * Where the saves of a branch stand in its file: numbers alone, and those of the saves that were
 * looked for.
 */

export interface Span {
  readonly seq: number;
  /** Where its items begin, its state, its mark and its seal; and where the next save begins. */
  readonly start: number;
  readonly state: number;
  readonly mark: number;
  readonly seal: number;
  readonly end: number;
}

const FIELDS = ["seq", "start", "state", "mark", "seal", "end"] as const;
const WIDTH = FIELDS.length;

/**
 * By rising place in the file. Grows at both ends: newer saves are appended, older ones are found
 * by walking back.
 */
export class SaveOffsets {
  #numbers = new Float64Array(16 * WIDTH);
  #first = 8;
  #after = 8;

  get length(): number {
    return this.#after - this.#first;
  }

  at(i: number): Span {
    const at = (this.#first + i) * WIDTH;
    const n = this.#numbers as unknown as readonly number[];
    const [seq, start, state, mark, seal, end] = [
      n[at],
      n[at + 1],
      n[at + 2],
      n[at + 3],
      n[at + 4],
      n[at + 5],
    ] as [number, number, number, number, number, number];
    return { seq, start, state, mark, seal, end };
  }

  get lastSeq(): number | undefined {
    return this.#after === this.#first ? undefined : this.#numbers[(this.#after - 1) * WIDTH];
  }

  last(): Span | undefined {
    return this.length === 0 ? undefined : this.at(this.length - 1);
  }

  first(): Span | undefined {
    return this.length === 0 ? undefined : this.at(0);
  }

  push(span: Span): void {
    if (this.#after * WIDTH === this.#numbers.length) this.#grow(0, this.length + 16);
    this.#put(this.#after++, span);
  }

  unshift(span: Span): void {
    if (this.#first === 0) this.#grow(this.length + 16, 0);
    this.#put(--this.#first, span);
  }

  /** Keeps the first so many. */
  keep(count: number): void {
    this.#after = this.#first + count;
  }

  /** The place of the first save whose last record has this number or a higher one. */
  indexOf(seq: number): number {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#numbers[(this.#first + middle) * WIDTH] as number) < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #put(i: number, span: Span): void {
    for (const [n, field] of FIELDS.entries()) this.#numbers[i * WIDTH + n] = span[field];
  }

  #grow(before: number, behind: number): void {
    const grown = new Float64Array((before + this.length + behind) * WIDTH);
    grown.set(this.#numbers.subarray(this.#first * WIDTH, this.#after * WIDTH), before * WIDTH);
    this.#numbers = grown;
    this.#after = before + this.length;
    this.#first = before;
  }
}
