/**
 * Reads saves from their places in a journal's file, in few large reads, and only the sections that
 * are wanted.
 */
import { constants } from "node:buffer";
import type { Save } from "../../../core/journal/save.js";
import { HoldfastError } from "../../../core/values/errors.js";
import type { BranchId } from "../../../core/values/ids.js";
import { glance } from "../files/files.js";
import type { Span } from "./save-offsets.js";
import { knownSeal, type Seal, saveOf } from "./save-rows.js";

export interface Wants {
  readonly items: boolean;
  readonly state: boolean;
}

/** To read this much in vain costs less than another read. */
const SKIP_FROM = 32 * 1024;
const READ_AT_ONCE = 256 * 1024;
/** A save is written out of one string, and a character takes three bytes at most. */
const MOST_BYTES = 3 * constants.MAX_STRING_LENGTH;

interface Stretch {
  readonly from: number;
  to: number;
}

export function readSaves(
  fd: number,
  branch: BranchId,
  spans: readonly Span[],
  wants: Wants,
): { readonly save: Save; readonly seal: Seal }[] {
  const bytes = new Stretches(fd, spans, wants);
  return spans.map((span) => {
    if ((wants.items || wants.state) && span.seal - span.start > MOST_BYTES)
      throw damaged(
        branch,
        span,
        `says that it has ${span.seal - span.start} bytes, which is more than any can have`,
      );
    const seal = knownSeal(bytes.text(span.seal, span.end - 1));
    if (seal?.seq !== span.seq) throw damaged(branch, span, "was changed while it was read");
    const ends = {
      items: [span.start, span.state],
      state: [span.state, span.mark],
      mark: [span.mark, span.seal],
    } as const;
    return {
      seal,
      save: saveOf(
        branch,
        seal,
        (section) => bytes.text(ends[section][0], ends[section][1] - 1),
        wants,
      ),
    };
  });
}

const damaged = (branch: BranchId, { seq }: Span, why: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The save at ${branch}-${seq} ${why}. Run verify to see what else is damaged.`,
    { branch, seq },
  );

/** The parts of a file that are wanted, each read when it is first asked for. */
class Stretches {
  readonly #fd: number;
  readonly #stretches: readonly Stretch[];
  #at = 0;
  #buffer: Buffer = Buffer.alloc(0);
  #from = 0;

  constructor(fd: number, spans: readonly Span[], wants: Wants) {
    this.#fd = fd;
    this.#stretches = stretches(spans, wants);
  }

  text(from: number, to: number): string {
    if (from < this.#from || to > this.#from + this.#buffer.length) this.#load(from, to);
    return this.#buffer.toString("utf8", from - this.#from, to - this.#from);
  }

  #load(from: number, to: number): void {
    const holds = ({ from: begin, to: end }: Stretch): boolean => begin <= from && to <= end;
    const found = this.#stretches.findIndex((stretch, i) => i >= this.#at && holds(stretch));
    if (found >= 0) this.#at = found;
    const stretch = found < 0 ? { from, to } : (this.#stretches[found] as Stretch);
    this.#from = stretch.from;
    this.#buffer = glance(this.#fd, stretch.from, stretch.to);
  }
}

/**
 * What is wanted, put together where little lies between. Saves are given by rising or by falling
 * place.
 */
function stretches(spans: readonly Span[], { items, state }: Wants): Stretch[] {
  const all: Stretch[] = [];
  const add = (from: number, to: number): void => {
    const last = all.at(-1);
    const isFurther = last !== undefined && from >= last.to;
    if (isFurther && from - last.to < SKIP_FROM && to - last.from < READ_AT_ONCE) last.to = to;
    else all.push({ from, to });
  };
  const rising =
    (spans[0] as Span).start <= (spans.at(-1) as Span).start ? spans : spans.toReversed();
  for (const span of rising) {
    if (items && !state) add(span.start, span.state);
    add(items && state ? span.start : state ? span.state : span.mark, span.end);
  }
  return rising === spans ? all : all.toReversed();
}
