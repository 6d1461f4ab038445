/**
 * What people write to search, as a small tree. There is no text that is refused for how it is
 * written: what is no word says nothing.
 *
 *     word another     both
 *     "two words"      one behind the other
 *     -word  -"a b"    not
 *     begin*           words that begin so; also the last of a phrase: "refund ord"*
 *
 * What is written without a space is a phrase of its words: `a-b`, `body:x`, `snake_case`, and
 * every text in a script without spaces.
 */
import { HoldfastError } from "../values/errors.js";
import { split } from "./words.js";

/** Words one behind the other. */
export interface Phrase {
  readonly words: readonly string[];
  /** The last of them is the beginning of a word. */
  readonly prefix: boolean;
}

export interface Query {
  /** All of these; none where there is nothing to look for. */
  readonly all: readonly Phrase[];
  /** None of these. */
  readonly none: readonly Phrase[];
}

export const MAX_QUERY_CHARS = 10_000;
export const MAX_QUERY_WORDS = 100;

/**
 * A minus, a quotation to its end or to that of the text, or all up to a space or quotation mark;
 * and a star.
 */
const CHUNK = /(-?)(?:"([^"]*)(?:"|$)|([^\s"]+))(\*?)/gu;

export function parseQuery(text: string): Query {
  if (text.length > MAX_QUERY_CHARS)
    throw tooLong(`${MAX_QUERY_CHARS} characters`, MAX_QUERY_CHARS);
  const all = new Map<string, Phrase>();
  const none = new Map<string, Phrase>();
  let count = 0;
  for (const [, minus, quoted, bare, star] of text.toWellFormed().matchAll(CHUNK)) {
    const said = quoted ?? (bare as string);
    const { words } = split(said);
    if (words.length === 0) continue;
    count += words.length;
    if (count > MAX_QUERY_WORDS) throw tooLong(`${MAX_QUERY_WORDS} words`, MAX_QUERY_WORDS);
    const phrase: Phrase = {
      words,
      prefix: star === "*" || (quoted === undefined && said.endsWith("*")),
    };
    // Asked twice is asked once.
    (minus === "-" ? none : all).set(`${words.join(" ")}${phrase.prefix ? "*" : ""}`, phrase);
  }
  return { all: [...all.values()], none: [...none.values()] };
}

function tooLong(limit: string, most: number): HoldfastError {
  return new HoldfastError("TOO_LARGE", `A search takes at most ${limit}. Look for fewer words.`, {
    limit: most,
  });
}
