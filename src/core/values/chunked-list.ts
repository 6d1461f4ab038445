/**
 * A persistent list in chunks: appending, and copying the whole list for a fork, cost the same at
 * any length.
 *
 * Chunks are shared between copies. A copy appends to the last chunk in place only while it is the
 * one that filled it last; otherwise it takes a copy of that one chunk first.
 */
const CHUNK = 512;

interface Chunk<T> {
  readonly items: T[];
}

export class ChunkedList<T> {
  #chunks: Chunk<T>[];
  /** Items of the last chunk that are ours: another copy may have appended more behind them. */
  #lastUsed: number;
  #length: number;
  #flat: readonly T[] | undefined;

  constructor(items: readonly T[] = []) {
    this.#chunks = [];
    this.#lastUsed = 0;
    this.#length = 0;
    for (const item of items) this.push(item);
  }

  get length(): number {
    return this.#length;
  }

  push(item: T): void {
    let last = this.#chunks.at(-1);
    if (last === undefined || this.#lastUsed === CHUNK) {
      last = { items: [] };
      this.#chunks.push(last);
      this.#lastUsed = 0;
    } else if (last.items.length !== this.#lastUsed) {
      last = { items: last.items.slice(0, this.#lastUsed) };
      this.#chunks[this.#chunks.length - 1] = last;
    }
    last.items.push(item);
    this.#lastUsed += 1;
    this.#length += 1;
    this.#flat = undefined;
  }

  /** The item at an index that is in the list. */
  at(index: number): T {
    return this.#chunks[Math.floor(index / CHUNK)]?.items[index % CHUNK] as T;
  }

  splice(start: number, remove: number, ...items: readonly T[]): readonly T[] {
    return this.replace(start, remove, items);
  }

  /**
   * A splice of any number of items: some hundred thousand do not fit on the stack as arguments.
   * Rare next to push, so it may cost as much as the list is long. Answers what it removed.
   */
  replace(start: number, remove: number, items: readonly T[]): readonly T[] {
    const all = this.toArray();
    const removed = all.slice(start, start + remove);
    const fresh = new ChunkedList(all.slice(0, start));
    for (const item of items) fresh.push(item);
    for (const item of all.slice(start + remove)) fresh.push(item);
    this.#chunks = fresh.#chunks;
    this.#lastUsed = fresh.#lastUsed;
    this.#length = fresh.#length;
    this.#flat = undefined;
    return removed;
  }

  copy(): ChunkedList<T> {
    const twin = new ChunkedList<T>();
    twin.#chunks = this.#chunks.slice();
    twin.#lastUsed = this.#lastUsed;
    twin.#length = this.#length;
    twin.#flat = this.#flat;
    return twin;
  }

  /** All items as one array, made when asked for and kept until the list changes. */
  toArray(): readonly T[] {
    if (this.#flat === undefined) {
      const flat: T[] = [];
      this.#chunks.forEach((chunk, i) => {
        const used = i === this.#chunks.length - 1 ? this.#lastUsed : CHUNK;
        for (let n = 0; n < used; n++) flat.push(chunk.items[n] as T);
      });
      this.#flat = flat;
    }
    return this.#flat;
  }
}
