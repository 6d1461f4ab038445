/**
 * Card numbers: 14 to 19 digits, perhaps in groups as cards have them, that begin like one of a
 * network and check out.
 */
import type { Span } from "./redact-spans.js";

const LEAST = 14;
const MOST = 19;

/** Digits that stand next to each other. */
interface Group {
  readonly from: number;
  readonly to: number;
  /** How many digits of the run come before it. */
  readonly before: number;
}

/**
 * Where they stand, in order. A number begins and ends with a group of digits: inside a longer one
 * nothing is looked for.
 */
export function findCards(text: string): readonly Span[] {
  const spans: Span[] = [];
  for (const groups of runsOf(text)) {
    const last = groups.at(-1) as Group;
    if (last.before + last.to - last.from >= LEAST && stands(text, groups))
      find(new Run(text, groups), spans);
  }
  return spans;
}

/** Whether digits are a number of their own: no part of a digest, a name or a fraction. */
function stands(text: string, groups: readonly Group[]): boolean {
  const { from } = groups[0] as Group;
  const { to } = groups.at(-1) as Group;
  const before = text.slice(Math.max(0, from - 2), from);
  return (
    !/(?:(?<!\\)[A-Za-z_]|[0-9]\.)$/.test(before) &&
    !/^(?:[A-Za-z_]|\.[0-9])/.test(text.slice(to, to + 2))
  );
}

/** What stands right before a number that is something else, unless it is grouped like a card's. */
const OTHER =
  /(?<![A-Za-z])(?:imei|isbn|ean|gtin|upc|order|invoice|tracking|shipment|parcel|serial|snowflake|sku|ticket|timestamp|id)(?: (?:number|no|nr|id)\.?)?["'\s:#=]{0,6}$/i;
const OTHER_ID = /[a-z]Id["'\s:#=]{0,6}$/;

/** Groups of digits with one space or hyphen between them. */
function* runsOf(text: string): Generator<readonly Group[]> {
  let groups: Group[] = [];
  for (const { 0: digits, index } of text.matchAll(/[0-9]+/g)) {
    const before = groups.at(-1);
    const isNext =
      before !== undefined &&
      index === before.to + 1 &&
      (text[before.to] === " " || text[before.to] === "-");
    if (!isNext && before !== undefined) {
      yield groups;
      groups = [];
    }
    groups.push({
      from: index,
      to: index + digits.length,
      before: isNext ? before.before + before.to - before.from : 0,
    });
  }
  if (groups.length > 0) yield groups;
}

function find(run: Run, spans: Span[]): void {
  for (let first = 0; first < run.groups.length; ) {
    const last = run.cardFrom(first);
    const { from } = run.groups[first] as Group;
    const before = run.text.slice(Math.max(0, from - 40), from);
    if (last !== undefined && (last > first || !(OTHER.test(before) || OTHER_ID.test(before))))
      spans.push([from, (run.groups[last] as Group).to]);
    first = (last ?? first) + 1;
  }
}

/**
 * How the numbers of each network begin, by how many digits they have. An IMEI has 15 that check
 * out as well, and begins otherwise.
 */
const BEGINS: Readonly<Record<number, RegExp>> = {
  14: /^3(?:0[0-5]|[689])/,
  15: /^3[47]/,
  16: /^(?:4|5[0-8]|2(?:2|[3-6]|7[0-2])|3(?:0[0-5]|5(?:2[89]|[3-8])|[689])|6[02-7]|8[12])/,
  17: /^6[2-7]/,
  18: /^6[2-7]/,
  19: /^(?:4|5[06-8]|6[0-7])/,
};

/** How digits are grouped on cards: by fours, or 4-6-5 and 4-6-4. */
const GROUPS = /^(?:[0-9]+|4,4,4,[2-7]|4,4,4,4,[1-3]|4,6,[45])$/;

/**
 * A run of digits, with the sums of its beginnings: whether any part of it checks out is told
 * without adding it up again.
 */
class Run {
  readonly text: string;
  readonly groups: readonly Group[];
  readonly #digits: string;
  /** Every second digit doubled, by whether those with even or with odd places are. */
  readonly #sums: readonly [Uint32Array, Uint32Array];

  constructor(text: string, groups: readonly Group[]) {
    this.text = text;
    this.groups = groups;
    this.#digits = text
      .slice((groups[0] as Group).from, (groups.at(-1) as Group).to)
      .replace(/[ -]/g, "");
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

  /**
   * The last group of the longest card number that begins with this one; undefined where there is
   * none.
   */
  cardFrom(first: number): number | undefined {
    const start = (this.groups[first] as Group).before;
    let found: number | undefined;
    for (let i = first; i < this.groups.length; i++) {
      const { from, to, before } = this.groups[i] as Group;
      const end = before + to - from;
      if (end - start > MOST) break;
      if (end - start >= LEAST && this.#isCard(start, end) && this.#isGrouped(first, i)) found = i;
    }
    return found;
  }

  #isCard(start: number, end: number): boolean {
    // The last digit is not doubled, nor is every second one before it.
    const sums = this.#sums[end % 2 === 0 ? 0 : 1];
    if (((sums[end] as number) - (sums[start] as number)) % 10 !== 0) return false;
    const digits = this.#digits.slice(start, end);
    return BEGINS[digits.length]?.test(digits) === true && !/^(.)\1*$/.test(digits);
  }

  #isGrouped(first: number, last: number): boolean {
    return GROUPS.test(
      this.groups
        .slice(first, last + 1)
        .map(({ from, to }) => to - from)
        .join(","),
    );
  }
}
