/**
 * Lines from a client, whole and of bounded length. One that is too long is let go as it comes, so that it costs no memory, and is
 * answered where it can be told whose question it was; the next line is read as if nothing had been.
 */
import { Transform, type TransformCallback } from "node:stream";

export const MAX_LINE_BYTES = 16 * 1024 * 1024;
/** How much of a line that is too long is kept from its beginning, and from its end: there its id is. */
const KEPT_BYTES = 4_096;
const NEWLINE = 10;

export interface TooLong {
  readonly bytes: number;
  /** Of the request, where it could be told. */
  readonly id: string | number | undefined;
}

export class Lines extends Transform {
  readonly #most: number;
  readonly #tooLong: (line: TooLong) => void;
  #parts: Buffer[] = [];
  #bytes = 0;
  #head = Buffer.alloc(0);
  #tail = Buffer.alloc(0);

  constructor(tooLong: (line: TooLong) => void, most = MAX_LINE_BYTES) {
    super();
    this.#tooLong = tooLong;
    this.#most = most;
  }

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    for (let from = 0; from < chunk.length; ) {
      const end = chunk.indexOf(NEWLINE, from);
      this.#take(chunk.subarray(from, end === -1 ? chunk.length : end + 1));
      if (end === -1) break;
      this.#end();
      from = end + 1;
    }
    done();
  }

  #take(part: Buffer): void {
    this.#bytes += part.length;
    if (this.#bytes <= this.#most) {
      this.#parts.push(part);
      return;
    }
    const [kept, ...more] = this.#parts;
    if (kept !== undefined) {
      this.#head = Buffer.concat([kept, ...more]).subarray(0, KEPT_BYTES);
      this.#head = Buffer.from(this.#head);
      this.#parts = [];
    }
    const seen = Buffer.concat([this.#tail, part]);
    this.#tail = Buffer.from(seen.subarray(-KEPT_BYTES));
  }

  #end(): void {
    if (this.#bytes <= this.#most) this.push(this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts));
    else this.#tooLong({ bytes: this.#bytes, id: idIn(this.#head.toString(), this.#tail.toString()) });
    this.#parts = [];
    this.#bytes = 0;
    this.#head = Buffer.alloc(0);
    this.#tail = Buffer.alloc(0);
  }
}

/** Where clients put the id of a request: before its params, or behind them at the very end. Anywhere else it may be part of what is said. */
function idIn(head: string, tail: string): string | number | undefined {
  const id = /"id":\s*(-?\d{1,15}|"[^"\\]{0,200}")/;
  const before = head.slice(0, Math.max(0, head.indexOf('"params"')));
  const found = id.exec(before) ?? new RegExp(`${id.source}\\s*}\\s*$`).exec(tail);
  return found === null ? undefined : (JSON.parse(found[1] as string) as string | number);
}
