/**
 * From the words of a command line to what a command is given. Node's own parser splits them; what
 * is wrong is said in our words.
 */
import { parseArgs } from "node:util";
import { closest } from "../../core/values/closest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  COMMON_OPTIONS,
  type Command,
  type Common,
  type Option,
  type Options,
  STORE_OPTIONS,
  type Word,
} from "./command.js";

export interface Parsed {
  readonly words: readonly string[];
  readonly options: { readonly [name: string]: string | number | boolean | undefined } & Common;
}

export const optionsOf = (command: Command): Options => ({
  ...command.options,
  ...(command.store ? STORE_OPTIONS : undefined),
  ...COMMON_OPTIONS,
});

export function parse(command: Command, given: readonly string[]): Parsed {
  const known = optionsOf(command);
  const { tokens } = parseArgs({
    args: [...given],
    options: Object.fromEntries(
      Object.entries(known).map(([name, { kind, short }]) => [
        name,
        {
          type: kind === "flag" ? ("boolean" as const) : ("string" as const),
          ...(short !== undefined && { short }),
        },
      ]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const words: string[] = [];
  const options: Record<string, string | number | boolean | undefined> = {};
  for (const [name, { kind }] of Object.entries(known)) if (kind === "flag") options[name] = false;
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    const option = Object.hasOwn(known, token.name) ? known[token.name] : undefined;
    if (option === undefined) throw unknownOption(command, token.rawName, known);
    options[token.name] = valueOf(option, token.rawName, token.value, token.inlineValue);
  }
  if (!options["help"]) checkWords(command, words);
  return { words, options: options as Parsed["options"] };
}

function valueOf(
  option: Option,
  name: string,
  value: string | undefined,
  isInline: boolean | undefined,
): string | number | boolean {
  if (option.kind === "flag") {
    if (value !== undefined) throw usage(`${name} takes no value`);
    return true;
  }
  // What looks like an option is one: `--agent --json` has lost its value, and must not lose the
  // option as well.
  if (value === undefined || (isInline !== true && value.startsWith("-") && value !== "-"))
    throw usage(`${name} needs a value: ${name}=${option.value}`);
  if (option.kind === "number") return numberOf(name, value, option.least, option.most);
  if (option.choices !== undefined) checkChoice(name, value, option.choices);
  return value;
}

function numberOf(name: string, value: string, least: number, most: number): number {
  const found = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
  if (!(found >= least && found <= most))
    throw usage(`${name} is a whole number from ${least} to ${most}, not ${quote(value)}`);
  return found;
}

function checkChoice(name: string, value: string, choices: readonly string[]): void {
  if (choices.includes(value)) return;
  const meant = closest(value, choices);
  throw usage(
    `${name} is one of ${choices.join(", ")}, not ${quote(value)}${meant === undefined ? "" : `. Did you mean ${meant}?`}`,
  );
}

function checkWords(command: Command, words: readonly string[]): void {
  const { words: named, name } = command;
  const needed = named.filter(({ optional }) => optional !== true);
  if (words.length < needed.length)
    throw usage(
      `${name} needs ${needed
        .slice(words.length)
        .map((word) => word.name)
        .join(" ")}`,
    );
  const last = named.at(-1);
  if (words.length > named.length && last?.many !== true)
    throw usage(`${name} takes no ${quote(words[named.length] ?? "")}`);
  for (const [i, value] of words.entries()) {
    const word: Word | undefined = named[Math.min(i, named.length - 1)];
    if (word?.choices !== undefined) checkChoice(word.name, value, word.choices);
  }
}

function unknownOption(command: Command, name: string, known: Options): HoldfastError {
  const meant = closest(
    name.replace(/^-+/, ""),
    Object.keys(known).filter((option) => option.length > 1),
  );
  const advice =
    meant === undefined
      ? `Known: ${Object.keys(known)
          .map((option) => `--${option}`)
          .join(", ")}`
      : `Did you mean --${meant}?`;
  return usage(`${command.name} takes no ${quote(name)}. ${advice}`);
}

export const usage = (why: string): HoldfastError =>
  new HoldfastError("INVALID_OPTION", why.replace(/([^.?])$/, "$1."), {});
