/**
 * Text as words. Every store is given the words that are found here and nothing else, so that all
 * of them find the same.
 *
 * WORD-1  letters and numbers make words, and the marks that stand on them; all else, emoji too,
 *         stands between words.
 * WORD-2  words are compared without case, compatibility forms and accents: `Café`, `CAFE` and
 *         `ｃａｆé` are one word. Marks that make another letter stay: vowel signs of Indian scripts,
 *         the voicing marks of kana.
 * WORD-3  scripts that are written without spaces (Han, kana, Thai, Lao, Khmer, Burmese and others)
 *         give a word for each character, so that any part of a text is found as a phrase.
 * WORD-4  of a word that is longer than `MAX_WORD` only its beginning counts.
 * WORD-5  a word holds letters, numbers and marks alone: no syntax of any engine can be made of it.
 */
import { clip } from "../messages/truncate.js";

/** Raised when the same text would be split in another way: indexes are then made anew. */
export const WORDS_VERSION = 1;
export const MAX_WORD = 64;

/** Words in their order, and where each stands in the text. */
export interface Words {
  readonly words: readonly string[];
  readonly starts: readonly number[];
  readonly ends: readonly number[];
}

interface Found {
  readonly words: string[];
  readonly starts: number[];
  readonly ends: number[];
}

/** Bounded, so that little is done at once: a script without spaces can go on for a whole book. */
const RUN = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]{0,999}/uy;
const ONLY_RUN = /^[\p{L}\p{N}][\p{L}\p{N}\p{M}]*$/u;
const RUNS = /[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu;
/** Some accents are said to belong to such scripts too; on a Latin letter they do not. */
const UNSPACED =
  /(?!\p{M})[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Yiii}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Mymr}\p{scx=Tale}\p{scx=Talu}\p{scx=Lana}\p{scx=Tavt}\p{scx=Java}\p{scx=Bali}]/u;
/**
 * A character of such a script with the marks behind it; half-width kana have voicing marks of
 * their own.
 */
const CLUSTER = /[^\p{M}][\p{M}\uff9e\uff9f]*/gu;
/** Accents and points. Not the voicing marks of kana, which make another letter. */
const ACCENTS = /(?![\u3099\u309a])(?=\p{M})[\p{sc=Zinh}\p{sc=Hebr}]/gu;

/** What an ASCII code is in a word: 0 nothing, 1 as it stands, 2 a capital letter. */
const ASCII = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 65 && code <= 90) return 2;
  return (code >= 48 && code <= 57) || (code >= 97 && code <= 122) ? 1 : 0;
});

/**
 * Finds words one after another. What it has found so far is a passage's, until `take` is called.
 */
export class Splitter {
  readonly #text: string;
  #at = 0;
  /**
   * Up to here letters of ASCII go on, and then comes what is not ASCII: known once, and not looked
   * for again with each bounded run.
   */
  #foreignAt = 0;
  #found: Found = { words: [], starts: [], ends: [] };

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * Goes on until there are so many words or some more, or the text ends. Answers whether there may
   * be more.
   */
  upTo(count: number): boolean {
    const text = this.#text;
    const end = text.length;
    let at = this.#at;
    while (at < end && this.#found.words.length < count) {
      const code = text.charCodeAt(at);
      if (code < 128 && ASCII[code] === 0) at += 1;
      else at = this.#run(at);
    }
    this.#at = at;
    return at < end;
  }

  get count(): number {
    return this.#found.words.length;
  }

  /** The first `count` words, which are not there any more afterwards. */
  take(count: number): Words {
    const { words, starts, ends } = this.#found;
    if (count >= words.length) {
      this.#found = { words: [], starts: [], ends: [] };
      return { words, starts, ends };
    }
    return {
      words: words.splice(0, count),
      starts: starts.splice(0, count),
      ends: ends.splice(0, count),
    };
  }

  get words(): readonly string[] {
    return this.#found.words;
  }

  /** A run of letters that begins here, if one does. Answers where to go on. */
  #run(start: number): number {
    if (start < this.#foreignAt) return this.#foreign(start);
    const text = this.#text;
    let kinds = 0;
    let at = start;
    for (; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code >= 128) {
        this.#foreignAt = at;
        return this.#foreign(start);
      }
      const kind = ASCII[code] as number;
      if (kind === 0) break;
      kinds |= kind;
    }
    const word = text.slice(start, Math.min(at, start + MAX_WORD));
    this.#push(kinds > 1 ? word.toLowerCase() : word, start, at);
    return at;
  }

  /** The same for a run with other letters than those of ASCII. */
  #foreign(start: number): number {
    RUN.lastIndex = start;
    const run = RUN.exec(this.#text)?.[0];
    if (run === undefined) {
      // Whatever is not ASCII and no letter; before it there may be letters of ASCII.
      const code = this.#text.charCodeAt(start);
      if (code >= 128) return start + (code >= 0xd800 && code <= 0xdbff ? 2 : 1);
      return start + 1;
    }
    if (!UNSPACED.test(run)) this.#fold(run, start);
    else this.#clusters(run, start);
    return start + run.length;
  }

  #clusters(run: string, start: number): void {
    let spaced = 0;
    for (const { 0: cluster, index } of run.matchAll(CLUSTER)) {
      if (!UNSPACED.test(cluster)) continue;
      if (index > spaced) this.#fold(run.slice(spaced, index), start + spaced);
      this.#fold(cluster, start + index);
      spaced = index + cluster.length;
    }
    if (spaced < run.length) this.#fold(run.slice(spaced), start + spaced);
  }

  #fold(raw: string, start: number): void {
    const folded = fold(raw);
    if (folded === "") return;
    const end = start + raw.length;
    if (ONLY_RUN.test(folded)) this.#push(clip(folded, MAX_WORD), start, end);
    // Some characters stand for several words: ½ is 1 and 2.
    else for (const [word] of folded.matchAll(RUNS)) this.#push(clip(word, MAX_WORD), start, end);
  }

  #push(word: string, start: number, end: number): void {
    const { words, starts, ends } = this.#found;
    words.push(word);
    starts.push(start);
    ends.push(end);
  }
}

/** To capitals first: only there are ß and SS, or the three sigmas, one letter. */
function fold(raw: string): string {
  return raw
    .normalize("NFKD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFKD")
    .replace(ACCENTS, "")
    .replaceAll("ς", "σ")
    .normalize("NFKC");
}

export function split(text: string): Words {
  const splitter = new Splitter(text);
  splitter.upTo(Number.POSITIVE_INFINITY);
  return splitter.take(Number.POSITIVE_INFINITY);
}
