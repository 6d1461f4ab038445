/** Card numbers: 13 to 19 digits, perhaps in groups with a space or a hyphen between them, that begin like one and check out. */

type Span = readonly [from: number, to: number];

const LEAST = 13;
const MOST = 19;

/** Digits that stand next to each other. */
interface Group {
  readonly from: number;
  readonly to: number;
  /** How many digits of the run come before it. */
  readonly before: number;
}

/** Where they stand, in order. A number begins and ends with a group of digits: inside a longer one nothing is looked for. */
export function findCards(text: string): readonly Span[] {
  const spans: Span[] = [];
  for (const groups of runsOf(text)) {
    const last = groups.at(-1) as Group;
    if (last.before + last.to - last.from >= LEAST) find(new Run(text, groups), spans);
  }
  return spans;
}

/** Groups of digits with one space or hyphen between them. */
function* runsOf(text: string): Generator<readonly Group[]> {
  let groups: Group[] = [];
  for (const { 0: digits, index } of text.matchAll(/[0-9]+/g)) {
    const before = groups.at(-1);
    const isNext = before !== undefined && index === before.to + 1 && (text[before.to] === " " || text[before.to] === "-");
    if (!isNext && before !== undefined) {
      yield groups;
      groups = [];
    }
    groups.push({ from: index, to: index + digits.length, before: isNext ? before.before + before.to - before.from : 0 });
  }
  if (groups.length > 0) yield groups;
}

function find(run: Run, spans: Span[]): void {
  for (let first = 0; first < run.groups.length; ) {
    const last = run.cardFrom(first);
    if (last !== undefined) spans.push([(run.groups[first] as Group).from, (run.groups[last] as Group).to]);
    first = (last ?? first) + 1;
  }
}

/** No card begins with 0, 1 or 7, and with 2 only those of a few: dates and times do. */
const BEGINS = /^(?:[345689]|2[2-7])/;

/** A run of digits, with the sums of its beginnings: whether any part of it checks out is told without adding it up again. */
class Run {
  readonly groups: readonly Group[];
  readonly #digits: string;
  /** Every second digit doubled, by whether those with even or with odd places are. */
  readonly #sums: readonly [Uint32Array, Uint32Array];

  constructor(text: string, groups: readonly Group[]) {
    this.groups = groups;
    this.#digits = text.slice((groups[0] as Group).from, (groups.at(-1) as Group).to).replace(/[ -]/g, "");
    const { length } = this.#digits;
    this.#sums = [new Uint32Array(length + 1), new Uint32Array(length + 1)];
    for (let i = 0; i < length; i++) {
      const digit = this.#digits.charCodeAt(i) - 48;
      const doubled = digit > 4 ? 2 * digit - 9 : 2 * digit;
      for (const parity of [0, 1] as const) {
        const sums = this.#sums[parity];
        sums[i + 1] = (sums[i] as number) + (i % 2 === parity ? doubled : digit);
      }
    }
  }

  /** The last group of the longest card number that begins with this one; undefined where there is none. */
  cardFrom(first: number): number | undefined {
    const start = (this.groups[first] as Group).before;
    let found: number | undefined;
    for (let i = first; i < this.groups.length; i++) {
      const { from, to, before } = this.groups[i] as Group;
      const end = before + to - from;
      if (end - start > MOST) break;
      if (end - start >= LEAST && this.#isCard(start, end)) found = i;
    }
    return found;
  }

  #isCard(start: number, end: number): boolean {
    // The last digit is not doubled, nor is every second one before it.
    const sums = this.#sums[end % 2 === 0 ? 0 : 1];
    if (((sums[end] as number) - (sums[start] as number)) % 10 !== 0) return false;
    const digits = this.#digits.slice(start, end);
    return BEGINS.test(digits) && !/^(.)\1*$/.test(digits);
  }
}
