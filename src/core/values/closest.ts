/** The name that a misspelt one may have meant. */
import { quote } from "./errors.js";

/** A name that is none of those that are known, in words for an error. */
export function notAmong(name: string, known: readonly string[]): string {
  const meant = closest(name, known);
  return `${quote(name)}${meant === undefined ? "" : ` (did you mean ${quote(meant)}?)`}; known are ${known.join(", ") || "none"}`;
}

/** The closest of some words, where one is close enough to be meant. */
export function closest(word: string, known: Iterable<string>): string | undefined {
  const most = word.length < 4 ? 1 : word.length < 8 ? 2 : 3;
  let best: { readonly word: string; readonly steps: number } | undefined;
  for (const other of known) {
    if (other.length > 3 && word.length > 2 && other.startsWith(word)) return other;
    const steps = distance(word, other, most);
    if (steps <= most && (best === undefined || steps < best.steps)) best = { word: other, steps };
  }
  return best?.word;
}

/**
 * How many inbox messages must be changed, added, removed or exchanged with the next; more than
 * `most` is not counted to its end.
 */
function distance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) > most) return most + 1;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min(
        (row[j] as number) + 1,
        (next[j - 1] as number) + 1,
        (row[j - 1] as number) + same,
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] as number) + 1);
      next.push(least);
    }
    if (Math.min(...next) > most) return most + 1;
    before = row;
    row = next;
  }
  return row[b.length] as number;
}
