/**
 * Commands that are proposed: as somebody can paste them into a shell, whatever ids are in them.
 */
import { isUnseen } from "../terminal/text.js";

type OptionValue = string | number | boolean | undefined;

export interface Proposal {
  readonly name: string;
  readonly words: readonly string[];
  readonly options: { readonly [name: string]: OptionValue };
  /** Why one would, in few words. */
  readonly says: string;
}

/** Options of one letter are short ones. */
export const propose = (
  name: string,
  words: readonly string[] = [],
  options: Proposal["options"] = {},
  says = "",
): Proposal => ({
  name,
  words,
  options,
  says,
});

/** Options come first; words that look like one stand behind `--`. */
export function shellLine({ name, words, options }: Proposal): string {
  const behind = words.some((word) => word.startsWith("-") && word !== "-") ? ["--"] : [];
  return ["holdfast", name, ...shellOptions(options), ...behind, ...words.map(shellWord)].join(" ");
}

export function shellOptions(options: Proposal["options"]): readonly string[] {
  return Object.entries(options).flatMap(([option, value]) => {
    if (value === undefined || value === false) return [];
    const flag = option.length === 1 ? `-${option}` : `--${option}`;
    if (value === true) return [flag];
    const text = String(value);
    return option.length > 1 && text.startsWith("-")
      ? [`${flag}=${shellWord(text)}`]
      : [flag, shellWord(text)];
  });
}

/**
 * As a shell takes it. What is not seen is written as an escape, which bash, zsh and fish 4
 * understand.
 */
export function shellWord(word: string): string {
  if (/^[\w./:@%+,-][\w./:@%+,=~-]*$/.test(word)) return word;
  if (!isUnseen(word)) return `'${word.replaceAll("'", "'\\''")}'`;
  const escaped = [...word].map((c) => {
    if (c === "'" || c === "\\") return `\\${c}`;
    if (!isUnseen(c)) return c;
    const point = (c.codePointAt(0) as number).toString(16);
    return point.length <= 4 ? `\\u${point.padStart(4, "0")}` : `\\U${point.padStart(8, "0")}`;
  });
  return `$'${escaped.join("")}'`;
}
