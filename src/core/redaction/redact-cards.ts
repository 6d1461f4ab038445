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
      find(text, groups, spans);
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

function find(text: string, groups: readonly Group[], spans: Span[]): void {
  for (let first = 0; first < groups.length; ) {
    const last = cardFrom(text, groups, first);
    const { from } = groups[first] as Group;
    const before = text.slice(Math.max(0, from - 40), from);
    if (last !== undefined && (last > first || !(OTHER.test(before) || OTHER_ID.test(before))))
      spans.push([from, (groups[last] as Group).to]);
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
 * The last group of the longest card number that begins with this one; undefined where there is
 * none.
 */
function cardFrom(text: string, groups: readonly Group[], first: number): number | undefined {
  const { from, to, before: start } = groups[first] as Group;
  if (to - from !== 4 && to - from < LEAST) return undefined;
  let found: number | undefined;
  let sizes = "";
  for (let i = first; i < groups.length; i++) {
    const group = groups[i] as Group;
    const size = group.to - group.from;
    const length = group.before + size - start;
    if (length > MOST) break;
    sizes += i === first ? size : `,${size}`;
    if (length >= LEAST && GROUPS.test(sizes) && isCard(text.slice(from, group.to))) found = i;
  }
  return found;
}

function isCard(text: string): boolean {
  const digits = text.replace(/[ -]/g, "");
  if (BEGINS[digits.length]?.test(digits) !== true || /^(.)\1*$/.test(digits)) return false;
  // The last digit is not doubled, nor is every second one before it.
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = digits.charCodeAt(i) - 48;
    const isDoubled = (digits.length - i) % 2 === 0;
    sum += !isDoubled ? digit : digit > 4 ? 2 * digit - 9 : 2 * digit;
  }
  return sum % 10 === 0;
}
