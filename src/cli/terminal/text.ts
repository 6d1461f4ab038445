/**
 * Text on its way to a terminal.
 *
 * TERMINAL-1  what is stored is shown and never sent: control characters, and all others that are
 *             not seen, become visible.
 * TERMINAL-2  texts are measured in columns as terminals show them, and cut between characters as
 *             people see them.
 */

/**
 * Scripts whose letters take another shape beside a joiner. In all other scripts it is not seen.
 */
const JOINED =
  "Arabic Syriac Mongolian Nko Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala Khmer Myanmar Tibetan"
    .split(" ")
    .map((script) => `\\p{Script=${script}}`)
    .join("");

/**
 * Characters that are not seen, by their Unicode properties: controls, half characters, separators
 * of lines, format characters (direction, joiners, tags), those that programs may ignore (variation
 * selectors, fillers), and those that are none. Some format characters of Arabic, Syriac and Kaithi
 * are seen.
 *
 * A joiner stays between two that it joins, and one selector of text or emoji style behind an emoji
 * or in a keycap: without them what is seen changes.
 */
const UNSEEN = new RegExp(
  [
    String.raw`(?!\u200d|[\ufe0e\ufe0f]|[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u{110bd}\u{110cd}])[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]`,
    String.raw`(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f${JOINED}])\u200d`,
    String.raw`\u200d(?![\p{Extended_Pictographic}${JOINED}])`,
    String.raw`(?<![\p{Extended_Pictographic}0-9#*])[\ufe0e\ufe0f]`,
    String.raw`(?<!\p{Extended_Pictographic})[\ufe0e\ufe0f](?!\u20e3)`,
  ].join("|"),
  "u",
);
const UNSEEN_ALL = new RegExp(UNSEEN, "gu");
const NAMED: Readonly<Record<string, string>> = {
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\u001b": "\\e",
  "\0": "\\0",
};

const seen = (character: string): string =>
  NAMED[character] ?? `\\u{${(character.codePointAt(0) as number).toString(16)}}`;

export const isUnseen = (text: string): boolean => UNSEEN.test(text);

/** One line of it. */
export const inline = (text: string): string =>
  UNSEEN.test(text) ? text.replace(UNSEEN_ALL, seen) : text;

/** Lines stay lines, and tabs become spaces; whatever else is not seen becomes visible. */
export function block(text: string): string[] {
  return text.split(/\r?\n/).map((line) => inline(line.replaceAll("\t", "    ")));
}

/** Words of a text in one line: breaks become spaces. */
export const oneLine = (text: string): string => inline(text.replace(/\s+/g, " ").trim());

/**
 * As JSON, in which what is not seen is written as an escape: it says the same to whoever parses
 * it.
 */
export const json = (value: object, indent?: number): string =>
  JSON.stringify(value, undefined, indent).replace(UNSEEN_ALL, (c) =>
    c === "\n"
      ? c
      : [...Array(c.length).keys()]
          .map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, "0")}`)
          .join(""),
  );

const PLAIN = /^[ -~]*$/;
const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });
/**
 * Segmenting takes time by the square of the length: it is done in pieces, the last character of
 * each with the next.
 */
const PIECE = 256;

function* characters(text: string): Generator<string> {
  let held = "";
  for (let at = 0; at < text.length; at += PIECE) {
    const all = [...graphemes.segment(held + text.slice(at, at + PIECE))];
    held = at + PIECE < text.length ? (all.pop()?.segment ?? "") : "";
    for (const { segment } of all) yield segment;
  }
}

const WIDE =
  /\p{Emoji_Presentation}|\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /^[\p{M}\u200d]+$/u;

function widthOfOne(grapheme: string): number {
  if (WIDE.test(grapheme)) return 2;
  return NO_WIDTH.test(grapheme) ? 0 : 1;
}

/** Without our own colours. */
export const uncoloured = (text: string): string =>
  text.includes("\u001b") ? text.replace(/\p{Cc}\[[0-9;]*m/gu, "") : text;

/** How many columns it takes. Our own colours take none. */
export function width(text: string): number {
  const bare = uncoloured(text);
  if (PLAIN.test(bare)) return bare.length;
  let columns = 0;
  for (const character of characters(bare)) columns += widthOfOne(character);
  return columns;
}

/**
 * More code units than these are never in one column: what is cut need not be gone over to its end.
 */
const UNITS = 32;

/**
 * At most so many columns of it, with an ellipsis where something was cut. For texts without
 * colours.
 */
export function clip(text: string, columns: number): string {
  if (columns === Number.POSITIVE_INFINITY || (text.length <= columns && PLAIN.test(text)))
    return text;
  if (columns <= 0) return "";
  const near = text.slice(0, (columns + 1) * UNITS);
  let used = 0;
  let rest = 0;
  let passed = 0;
  for (const character of characters(near)) {
    used += widthOfOne(character);
    // The last that was taken makes room for the ellipsis.
    if (used > columns) return `${text.slice(0, rest)}…`;
    passed += character.length;
    if (used <= columns - 1) rest = passed;
  }
  return near.length < text.length ? `${text.slice(0, rest)}…` : text;
}

export const pad = (text: string, columns: number): string =>
  text + " ".repeat(Math.max(0, columns - width(text)));
export const padStart = (text: string, columns: number): string =>
  " ".repeat(Math.max(0, columns - width(text))) + text;

/**
 * Broken between words where it is wider; a word that is too long is broken inside. Indentation is
 * kept.
 */
export function wrap(line: string, columns: number): string[] {
  if (columns === Number.POSITIVE_INFINITY || (line.length <= columns && width(line) <= columns))
    return [line];
  const indent = /^ */.exec(line)?.[0] ?? "";
  const room = Math.max(8, columns - indent.length);
  const rows: string[] = [];
  let row = "";
  let used = 0;
  const end = () => {
    const cut = row.replace(/ +$/, "");
    if (cut !== "") rows.push(cut);
    [row, used] = ["", 0];
  };
  for (const word of line.slice(indent.length).split(/( +)/)) {
    const wide = width(word);
    if (used + wide > room) end();
    if (wide > room) {
      const pieces = broken(word, room);
      rows.push(...pieces.slice(0, -1));
      row = pieces.at(-1) ?? "";
      used = width(row);
    } else if (used > 0 || !word.startsWith(" ")) {
      row += word;
      used += wide;
    }
  }
  end();
  return rows.map((piece) => indent + piece);
}

/** Pieces of so many columns. Colours stay whole. */
function broken(word: string, columns: number): string[] {
  const pieces = [""];
  let used = 0;
  for (const part of word.split(/(\p{Cc}\[[0-9;]*m)/u)) {
    const isColour = part.startsWith("\u001b");
    for (const character of isColour ? [part] : characters(part)) {
      const wide = isColour ? 0 : widthOfOne(character);
      if (used + wide > columns) {
        pieces.push("");
        used = 0;
      }
      pieces[pieces.length - 1] += character;
      used += wide;
    }
  }
  return pieces;
}

/** Of a value, as JSON. */
export const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value) ?? "");

export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${round(bytes / 1_000)} kB`;
  return bytes < 1_000_000_000
    ? `${round(bytes / 1_000_000)} MB`
    : `${(bytes / 1_000_000_000).toFixed(2)} GB`;
}

const round = (value: number): string =>
  value < 10 ? value.toFixed(1) : String(Math.round(value));

export const counted = (count: number, what: string, many = `${what}s`): string =>
  `${count.toLocaleString("en-US")} ${count === 1 ? what : many}`;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago a time was; one far back, or yet to come, as its date. */
export function ago(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return inline(iso);
  const passed = now - at;
  if (passed < -5_000) return utc(iso);
  if (passed < 10_000) return "just now";
  if (passed < MINUTE) return `${Math.floor(passed / 1_000)} s ago`;
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  if (passed < 30 * DAY) return `${Math.floor(passed / DAY)} d ago`;
  return iso.slice(0, 10);
}

export const utc = (iso: string): string => iso.replace("T", " ").replace(/(\.\d+)?Z$/, "Z");
