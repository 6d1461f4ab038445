/** Read the SQL statements that stand in source files, so that a test can tell whether it has seen all of them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface SqlInSource {
  readonly file: string;
  readonly text: string;
  /** Matches each text that the literal can make. A `${…}` in it stands for any text. */
  readonly pattern: RegExp;
}

const VERBS = /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\s/;

/** Find all literals below a directory that begin with a verb of SQL. */
export function sqlBelow(directory: string, skipped: readonly string[]): readonly SqlInSource[] {
  const found: SqlInSource[] = [];
  for (const file of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts") || skipped.some((prefix) => file.startsWith(prefix))) continue;
    for (const parts of literalsIn(readFileSync(join(directory, file), "utf8"))) {
      const text = parts.join("…");
      if (VERBS.test(text)) found.push({ file, text, pattern: new RegExp(parts.map(escaped).join("[\\s\\S]*"), "i") });
    }
  }
  return found;
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** All string literals of a program, each as the fixed parts around its `${…}`. Those inside of a `${…}` come too. */
export function literalsIn(source: string): readonly (readonly string[])[] {
  const found: (readonly string[])[] = [];
  let at = 0;
  const isNext = (text: string) => source.startsWith(text, at);
  const quoted = (quote: string): void => {
    const begin = ++at;
    for (; at < source.length && !isNext(quote) && !isNext("\n"); at++) if (isNext("\\")) at++;
    found.push([source.slice(begin, at)]);
    at++;
  };
  const template = (): void => {
    const parts: string[] = [];
    let begin = ++at;
    for (; at < source.length && !isNext("`"); at++) {
      if (isNext("\\")) at++;
      else if (isNext("${")) {
        parts.push(source.slice(begin, at));
        at += 2;
        code("}");
        begin = at + 1;
      }
    }
    found.push([...parts, source.slice(begin, at)]);
    at++;
  };
  /** Stands at the closing brace afterwards. */
  const code = (end: string | undefined): void => {
    for (let depth = 0; at < source.length; ) {
      if (end !== undefined && depth === 0 && isNext(end)) return;
      if (isNext("//")) at = Math.max(at + 2, source.indexOf("\n", at));
      else if (isNext("/*")) at = source.indexOf("*/", at) + 2;
      else if (isNext('"') || isNext("'")) quoted(source[at] as string);
      else if (isNext("`")) template();
      else {
        if (isNext("{")) depth++;
        if (isNext("}")) depth--;
        at++;
      }
    }
  };
  code(undefined);
  return found;
}
