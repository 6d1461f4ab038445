/**
 * JSON that other programs wrote, read without loss.
 *
 * LOSSLESS-1  a whole number that a double cannot tell from its neighbours, however it is spelled,
 *             and one that overflows it, become text with the same characters.
 * LOSSLESS-2  what is not JSON is refused, also where it would be after LOSSLESS-1.
 * LOSSLESS-3  the time taken is linear in the text; nesting is bounded, so that whoever walks the
 *             value may do so by recursion.
 */
import { HoldfastError, pathTo } from "./errors.js";
import type { Json } from "./json.js";

/** Deeper than Holdfast stores, so that such a value is still refused by its path. */
const MAX_NESTING = 1_000;
/** How many of the numbers that became text are named. */
const NAMED = 5;

type Span = readonly [start: number, end: number];

export interface Parsed {
  readonly value: Json;
  /** How many numbers became text, and where the first of them stand. */
  readonly texts: { readonly count: number; readonly paths: readonly string[] };
  /** Where the values of the outermost object stand in the text. */
  readonly spans: ReadonlyMap<string, Span>;
}

export function parseJson(text: string): Parsed {
  // LOSSLESS-2: first as it stands. A number in the place of a key would be a fine key once it is text.
  const plain = parsePlain(text);
  const { numbers, paths, spans } = scan(text);
  const value = numbers.length === 0 ? plain : (JSON.parse(withTexts(text, numbers)) as Json);
  return { value, texts: { count: numbers.length, paths }, spans };
}

/**
 * Which numbers became text, and what to do about it, in words for their author; undefined where
 * none did.
 */
export function lossIn({ texts: { count, paths } }: Parsed): string | undefined {
  if (count === 0) return undefined;
  const named = paths.map((path) => (path === "" ? "the root" : path)).join(", ");
  if (count === 1)
    return `the number at ${named} is past 2^53 and cannot be kept exactly; send it as a string`;
  const more = count > paths.length ? ` and ${count - paths.length} more places` : "";
  return `the numbers at ${named}${more} are past 2^53 and cannot be kept exactly; send them as strings`;
}

function parsePlain(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new HoldfastError(
      "INVALID_VALUE",
      text.trim() === "" ? "It is empty." : "It is torn, or not JSON.",
      {},
      cause,
    );
  }
}

function withTexts(text: string, numbers: readonly Span[]): string {
  const pieces: string[] = [];
  let from = 0;
  for (const [start, end] of numbers) {
    pieces.push(text.slice(from, start), '"', text.slice(start, end), '"');
    from = end;
  }
  pieces.push(text.slice(from));
  return pieces.join("");
}

/**
 * Tell whether a text, be it JSON or not, says more values than a limit. Stops there, and costs
 * much less than to parse it. An empty list or object counts as two.
 */
export function hasMoreValues(text: string, most: number): boolean {
  let values = 1;
  for (let i = 0; i < text.length && values <= most; i++) {
    const code = text.charCodeAt(i);
    if (code === COMMA || code === OPEN_LIST || code === OPEN_OBJECT) values += 1;
    else if (code === QUOTE) i = stringEnd(text, i) - 1;
  }
  return values > most;
}

interface Frame {
  readonly isObject: boolean;
  /**
   * Of an object: the key whose value is read, as it stands in the text; undefined where the next
   * string is a key.
   */
  key: Span | undefined;
  index: number;
}

/** Goes over a text that is known to be JSON. */
function scan(text: string): { numbers: Span[]; paths: string[]; spans: Map<string, Span> } {
  const numbers: Span[] = [];
  const paths: string[] = [];
  const spans = new Map<string, Span>();
  const frames: Frame[] = [];
  let member = 0;
  const endMember = (end: number): void => {
    const [frame] = frames;
    if (frames.length === 1 && frame?.key !== undefined)
      spans.set(keyText(text, frame.key), [member, end]);
  };
  for (let i = 0; i < text.length; ) {
    const frame = frames[frames.length - 1];
    switch (text.charCodeAt(i)) {
      case QUOTE: {
        const end = stringEnd(text, i);
        if (frame?.isObject && frame.key === undefined) frame.key = [i, end];
        i = end;
        continue;
      }
      case COLON:
        if (frames.length === 1) member = i + 1;
        break;
      case OPEN_OBJECT:
      case OPEN_LIST:
        if (frames.length === MAX_NESTING)
          throw new HoldfastError(
            "INVALID_VALUE",
            `It is nested deeper than ${MAX_NESTING} levels.`,
            { limit: MAX_NESTING },
          );
        frames.push({ isObject: text.charCodeAt(i) === OPEN_OBJECT, key: undefined, index: 0 });
        break;
      case CLOSE_OBJECT:
      case CLOSE_LIST:
        endMember(i);
        frames.pop();
        break;
      case COMMA:
        endMember(i);
        if (frame !== undefined) {
          frame.key = undefined;
          frame.index += 1;
        }
        break;
      default:
        if (isNumeric(text.charCodeAt(i))) {
          const end = numberEnd(text, i);
          if (isPastDouble(text, i, end)) {
            numbers.push([i, end]);
            if (paths.length < NAMED) paths.push(pathOf(text, frames));
          }
          i = end;
          continue;
        }
    }
    i += 1;
  }
  return { numbers, paths, spans };
}

const QUOTE = 34;
const COMMA = 44;
const COLON = 58;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/**
 * After the string that begins at `start`, or after the text. A quote is its end where an even
 * number of backslashes stands before it.
 */
function stringEnd(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); ; at = text.indexOf('"', at + 1)) {
    if (at === -1) return text.length;
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((at - 1 - before) % 2 === 0) return at + 1;
  }
}

/** A digit or a minus. */
const isNumeric = (code: number): boolean => (code >= 48 && code <= 57) || code === 45;

function numberEnd(text: string, start: number): number {
  let end = start + 1;
  for (;;) {
    const code = text.charCodeAt(end);
    // + . e E
    if (!(isNumeric(code) || code === 43 || code === 46 || code === 69 || code === 101)) return end;
    end += 1;
  }
}

function isPastDouble(text: string, start: number, end: number): boolean {
  if (end - start < 4) return false;
  const literal = text.slice(start, end);
  const number = Number(literal);
  if (/^-?\d+$/.test(literal)) return !Number.isSafeInteger(number);
  if (!Number.isFinite(number)) return true;
  // A whole number in another spelling (`9007199254740993.0`). From 1e21 on such a literal is a
  // rounded number.
  const isLarge = Math.abs(number) > Number.MAX_SAFE_INTEGER && Math.abs(number) < 1e21;
  return isLarge && wholeNumber(literal) !== BigInt(number);
}

/**
 * The whole number that a literal with a fraction or an exponent stands for; undefined where it
 * stands for none.
 */
function wholeNumber(literal: string): bigint | undefined {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(literal) ?? [];
  const digits = whole + fraction;
  const zeros = Number(exponent) - fraction.length;
  if (zeros >= 0) return BigInt(`${sign}${digits}${"0".repeat(Math.min(zeros, 400))}`);
  return /^0*$/.test(digits.slice(zeros))
    ? BigInt(`${sign}${digits.slice(0, zeros) || "0"}`)
    : undefined;
}

const keyText = (text: string, [start, end]: Span): string =>
  JSON.parse(text.slice(start, end)) as string;

function pathOf(text: string, frames: readonly Frame[]): string {
  const keys = frames.map(({ isObject, key, index }) =>
    isObject && key !== undefined ? keyText(text, key) : index,
  );
  const path = keys.reduce<string>(pathTo, "");
  return path.startsWith(".") ? path.slice(1) : path;
}

/** A part of a JSON text without the whitespace between its tokens, in pieces. */
export function* compacted(text: string, [start, end]: Span): Generator<string> {
  let pieces: string[] = [];
  let from = start;
  for (let i = start; i < end; ) {
    const code = text.charCodeAt(i);
    if (code === QUOTE) {
      i = stringEnd(text, i);
      continue;
    }
    // Space, tab, line feed, carriage return.
    if (code === 32 || code === 9 || code === 10 || code === 13) {
      if (i > from) pieces.push(text.slice(from, i));
      from = i + 1;
      if (pieces.length === 1_000) {
        yield pieces.join("");
        pieces = [];
      }
    }
    i += 1;
  }
  yield pieces.join("") + text.slice(from, end);
}
