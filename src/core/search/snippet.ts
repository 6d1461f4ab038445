/** The part of a text that shows why it was found. */
import type { Phrase, Query } from "./query.js";
import type { Words } from "./words.js";

export interface Snippet {
  /** One row of text, with … where it was cut. */
  readonly text: string;
  /** What was looked for, as places in that text: from, and up to but not including. */
  readonly matches: readonly (readonly [start: number, end: number])[];
}

/** About how long a snippet is, and how much of it stands before what was found. */
const SNIPPET_CHARS = 200;
const BEFORE = 60;

interface Hit {
  readonly phrase: number;
  readonly start: number;
  readonly end: number;
}

/** `occurrences` says where each phrase stands. */
export function snippetOf(
  text: string,
  { starts, ends }: Words,
  { all }: Query,
  occurrences: readonly (readonly number[])[],
): Snippet {
  const hits: Hit[] = [];
  for (let phrase = 0; phrase < all.length; phrase++) {
    const last = (all[phrase] as Phrase).words.length - 1;
    for (const i of occurrences[phrase] as readonly number[])
      hits.push({ phrase, start: starts[i] as number, end: ends[i + last] as number });
  }
  if (hits.length > 1) hits.sort((a, b) => a.start - b.start || b.end - a.end);
  const first = best(hits);
  const from = cutFrom(text, first?.start ?? 0, starts, ends);
  const to = cutTo(
    text,
    Math.max(from + SNIPPET_CHARS, Math.min(first?.end ?? 0, from + 2 * SNIPPET_CHARS)),
    from,
    ends,
  );
  const lead = from > 0 ? "…" : "";
  // One space for each: places stay what they are.
  const shown = lead + text.slice(from, to).replace(UNSEEN, " ") + (to < text.length ? "…" : "");
  const matches: (readonly [number, number])[] = [];
  let last = from;
  for (const { start, end } of hits) {
    if (start < last || start >= to) continue;
    const stop = Math.min(end, to);
    matches.push([start - from + lead.length, stop - from + lead.length]);
    last = stop;
  }
  return { text: shown, matches };
}

/** Whatever would break the row, or not be seen. */
const UNSEEN = /\p{Cc}|[^\S ]/gu;

/** Where the most different phrases stand near each other; the first such place. */
function best(hits: readonly Hit[]): Hit | undefined {
  if (hits.length < 2) return hits[0];
  let found = hits[0];
  let most = 0;
  let end = 0;
  const near = new Map<number, number>();
  for (const hit of hits) {
    for (
      ;
      end < hits.length && (hits[end] as Hit).end <= hit.start + SNIPPET_CHARS - BEFORE;
      end++
    ) {
      const { phrase } = hits[end] as Hit;
      near.set(phrase, (near.get(phrase) ?? 0) + 1);
    }
    if (near.size > most) {
      most = near.size;
      found = hit;
    }
    const left = (near.get(hit.phrase) ?? 1) - 1;
    if (left > 0) near.set(hit.phrase, left);
    else near.delete(hit.phrase);
  }
  return found;
}

/** A place at or before the first hit where a word begins. */
function cutFrom(
  text: string,
  hit: number,
  starts: readonly number[],
  ends: readonly number[],
): number {
  if (hit <= BEFORE) return 0;
  const least = hit - BEFORE;
  const i = indexFrom(starts, least);
  const start = starts[i] ?? hit;
  // Nothing but what is no word stands before: cut among that, between characters as a reader sees
  // them.
  if (start < hit || (ends[i - 1] ?? 0) > least) return start;
  return boundaryFrom(text, least, hit);
}

/** A place at or before `most` where a word ends. */
function cutTo(text: string, most: number, from: number, ends: readonly number[]): number {
  if (most >= text.length) return text.length;
  const i = indexFrom(ends, most + 1) - 1;
  const end = ends[i] ?? 0;
  return end > from + SNIPPET_CHARS / 2 ? end : boundaryTo(text, from, most);
}

/** The first that is at least so much, in numbers that rise. */
function indexFrom(numbers: readonly number[], least: number): number {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

function boundaryFrom(text: string, least: number, hit: number): number {
  const begin = Math.max(0, least - SNIPPET_CHARS);
  for (const { index } of graphemes.segment(text.slice(begin, hit)))
    if (begin + index >= least) return begin + index;
  return hit;
}

function boundaryTo(text: string, from: number, most: number): number {
  let end = from;
  for (const { index, segment } of graphemes.segment(text.slice(from, most + SNIPPET_CHARS))) {
    if (from + index + segment.length > most) break;
    end = from + index + segment.length;
  }
  return end > from ? end : most;
}
