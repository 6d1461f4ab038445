/** Places in a text, and others in their stead. */
export type Span = readonly [from: number, to: number];

/** Finds what is to go, in order. No two of its spans overlap. */
export type Find = (text: string) => readonly Span[];

/** Put a placeholder in the place of each span. Where it stands already, nothing is done. */
export function replaceSpans(text: string, spans: readonly Span[], placeholder: string): string {
  let edited = "";
  let at = 0;
  for (const [from, to] of spans) {
    // What another rule has put there, or the same one in an earlier pass.
    if (from < at || text.startsWith(placeholder, from)) continue;
    edited += text.slice(at, from) + placeholder;
    at = to;
  }
  return at === 0 ? text : edited + text.slice(at);
}

/**
 * The spans of several rules for one kind of thing. Of two that overlap, all goes: nothing of the
 * longer one may stay.
 */
export const findAll =
  (...rules: readonly Find[]): Find =>
  (text) => {
    const spans: [number, number][] = [];
    for (const [from, to] of rules.flatMap((rule) => rule(text)).toSorted((a, b) => a[0] - b[0])) {
      const last = spans.at(-1);
      if (last !== undefined && from < last[1]) last[1] = Math.max(last[1], to);
      else spans.push([from, to]);
    }
    return spans;
  };

/**
 * The first group of a pattern, or all that it finds where it has none. Not tried on texts without
 * any of the hints.
 */
export function findPattern(source: string, flags = "", ...hints: readonly string[]): Find {
  const any = new RegExp(source, `dg${flags}`);
  return (text) => {
    if (hints.length > 0 && !hints.some((hint) => text.includes(hint))) return [];
    return Array.from(text.matchAll(any), ({ indices }) => (indices?.[1] ?? indices?.[0]) as Span);
  };
}

/**
 * Whether a word may begin here: not behind a letter or a digit, unless that ends an escape of
 * JSON, of a URL, or of a terminal's colour.
 */
export function isStart(text: string, at: number): boolean {
  if (at === 0 || !/[A-Za-z0-9]/.test(text[at - 1] as string)) return true;
  if (/[nrtbf]/.test(text[at - 1] as string) && text[at - 2] === "\\") return true;
  return /(?:%[0-9A-Fa-f]{2}|\\u[0-9a-fA-F]{4}|\[[0-9;]{0,8}m)$/.test(
    text.slice(Math.max(0, at - 11), at),
  );
}
