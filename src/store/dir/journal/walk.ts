/**
 * Walking through a journal from its end, save by save: each seal says where the save before it
 * ends.
 *
 * Damage does not hide what stands before or behind it: rows that are no whole seal are passed
 * over, up to the next that is. The numbers of the saves tell the reader that something is missing.
 * A row may be of any length, and is never in memory whole unless it can be a seal.
 */
import { readRange } from "../files/files.js";
import type { Span } from "./save-offsets.js";
import { bytesBefore, mayBeSeal, type Seal, sealOf } from "./save-rows.js";

const LINE_BREAK = 10;
const FIRST_BYTES = 8 * 1024;
const MOST_BYTES = 1024 * 1024;
/** Far more than the names of all blobs that one save can refer to. */
const MOST_SEAL_BYTES = 64 * 1024 * 1024;

/**
 * Calls `visit` with every whole save before `from`, newest first, until it answers false. Answers
 * whether it came to the beginning.
 */
export function walkBack(
  fd: number,
  from: number,
  floor: number,
  visit: (seal: Seal, span: Span) => boolean,
): boolean {
  const bytes = new Behind(fd);
  for (let end = from; end > floor; ) {
    const sealAt = rowStart(bytes, end, floor);
    const seal = sealIn(bytes, sealAt, end);
    if (seal === undefined) {
      end = sealAt;
      continue;
    }
    const before = bytesBefore(seal);
    // Where rows are missing its lengths lead too far: what is read as its sections does not match
    // their digests.
    const mark = Math.max(floor, sealAt - before.mark);
    const state = Math.max(floor, mark - before.state);
    const start = Math.max(floor, state - before.items);
    if (!visit(seal, { seq: seal.seq, start, state, mark, seal: sealAt, end })) return false;
    end = start;
  }
  return true;
}

function sealIn(bytes: Behind, from: number, to: number): Seal | undefined {
  if (
    to - from > MOST_SEAL_BYTES ||
    !mayBeSeal(bytes.range(from, Math.min(to, from + FIRST_BYTES)))
  )
    return undefined;
  const row = bytes.range(from, to);
  return row.at(-1) === LINE_BREAK ? sealOf(row.subarray(0, -1)) : undefined;
}

/** Where the row begins that ends at `end`. */
function rowStart(bytes: Behind, end: number, floor: number): number {
  let reach = 2048;
  for (let to = end - 1; to > floor; ) {
    const from = Math.max(floor, to - reach);
    const at = bytes.range(from, to).lastIndexOf(LINE_BREAK);
    if (at >= 0) return from + at + 1;
    to = from;
    reach = Math.min(MOST_BYTES, reach * 8);
  }
  return floor;
}

/** Bytes of a file, read in stretches that end where the last one began. */
class Behind {
  readonly #fd: number;
  #bytes: Buffer = Buffer.alloc(0);
  #at = 0;
  #next = FIRST_BYTES;

  constructor(fd: number) {
    this.#fd = fd;
  }

  range(from: number, to: number): Buffer {
    if (from < this.#at || to > this.#at + this.#bytes.length) {
      this.#at = Math.min(from, Math.max(0, to - this.#next));
      this.#bytes = readRange(this.#fd, this.#at, to);
      this.#next = Math.min(MOST_BYTES, this.#next * 8);
    }
    return this.#bytes.subarray(from - this.#at, to - this.#at);
  }
}
