/**
 * Lines of bounded length out of what a client sends. One that is too long is let go as it comes,
 * so that it costs no memory; what is kept of it is enough to tell, mostly, whose question it was.
 * The next line is read as if nothing had been.
 */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;
/**
 * How much of a line that is too long is kept from its beginning, and from its end: there its id
 * is.
 */
export const KEPT_BYTES = 4_096;
/** Many small parts take more room than what they hold. */
const MAX_PARTS = 1_024;
const NEWLINE = 10;

export interface TooLong {
  readonly bytes: number;
  /** Of the request, where it could be told. */
  readonly id: string | number | undefined;
}

export class Lines {
  readonly #most: number;
  #parts: Buffer[] = [];
  #bytes = 0;
  #head: Buffer | undefined;
  #tail = Buffer.alloc(0);

  constructor(most = MAX_LINE_BYTES) {
    this.#most = most;
  }

  /** The lines that end in this chunk. */
  *take(chunk: Buffer): Generator<Buffer | TooLong> {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(NEWLINE, from);
      this.#add(chunk.subarray(from, end === -1 ? chunk.length : end + 1));
      if (end === -1) return;
      yield this.#line();
      from = end + 1;
    }
  }

  /** What stands behind the last line. */
  rest(): Buffer | undefined {
    return this.#bytes === 0 || this.#bytes > this.#most ? undefined : Buffer.concat(this.#parts);
  }

  #add(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes > this.#most) {
      this.#head ??= Buffer.concat([...this.#parts, part], Math.min(this.#bytes, KEPT_BYTES));
      this.#parts = [];
      const end = part.subarray(-KEPT_BYTES);
      const more = KEPT_BYTES - end.length;
      this.#tail = Buffer.concat([this.#tail.subarray(Math.max(0, this.#tail.length - more)), end]);
      return;
    }
    this.#parts.push(part);
    if (this.#parts.length > MAX_PARTS) this.#parts = [Buffer.concat(this.#parts)];
  }

  #line(): Buffer | TooLong {
    const isWhole = this.#bytes <= this.#most;
    const line = isWhole
      ? Buffer.concat(this.#parts)
      : { bytes: this.#bytes, id: idIn(this.#head?.toString() ?? "", this.#tail.toString()) };
    this.#parts = [];
    this.#bytes = 0;
    this.#head = undefined;
    this.#tail = Buffer.alloc(0);
    return line;
  }
}

/**
 * Where clients put the id of a request: before its params, or behind them at the very end.
 * Anywhere else it may be part of what is said.
 */
export function idIn(head: string, tail: string): string | number | undefined {
  const id = /"id":\s*(-?\d{1,15}|"[^"\\]{0,200}")/;
  const before = head.slice(0, Math.max(0, head.indexOf('"params"')));
  const found = id.exec(before) ?? new RegExp(`${id.source}\\s*}\\s*$`).exec(tail);
  return found === null ? undefined : (JSON.parse(found[1] as string) as string | number);
}
