/**
 * What a command is: one description from which its parsing, its help, its page in the docs and the
 * shell's completion are made, and the function that does it.
 *
 * A command answers with what it found, as data and as lines of text; who called it decides which
 * of the two is printed. Only streams print by themselves.
 */
import type { Holdfast } from "../../index.js";
import type { Terminal } from "../terminal/terminal.js";
import type { Proposal } from "./next-steps.js";

/** What a word or a value stands for, so that the shell can complete it. */
export type Completes =
  | "session"
  | "checkpoint"
  | "agent"
  | "effect"
  | "snapshot"
  | "file"
  | "command";

interface Described {
  readonly says: string;
}

export interface FlagOption extends Described {
  readonly kind: "flag";
  readonly short?: string;
}
export interface TextOption extends Described {
  readonly kind: "text";
  /** What stands for its value in the help. */
  readonly value: string;
  readonly short?: string;
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}
export interface NumberOption extends Described {
  readonly kind: "number";
  readonly value: string;
  readonly short?: string;
  readonly least: number;
  readonly most: number;
}
export type Option = FlagOption | TextOption | NumberOption;
export type Options = { readonly [name: string]: Option };

type ValueOf<O extends Option> = O extends FlagOption
  ? boolean
  : O extends NumberOption
    ? number | undefined
    : string | undefined;
export type Values<O extends Options> = { readonly [K in keyof O]: ValueOf<O[K]> };

export const flag = (says: string, short?: string): FlagOption => ({
  kind: "flag",
  says,
  ...(short !== undefined && { short }),
});
export const text = (
  value: string,
  says: string,
  more: Partial<Pick<TextOption, "choices" | "completes" | "short">> = {},
): TextOption => ({
  kind: "text",
  value,
  says,
  ...more,
});
export const number = (
  value: string,
  says: string,
  least: number,
  most: number,
  short?: string,
): NumberOption => ({
  kind: "number",
  value,
  says,
  least,
  most,
  ...(short !== undefined && { short }),
});

export interface Word extends Described {
  readonly name: string;
  readonly optional?: true;
  /** Any number of them, at least one unless it is optional; only the last may be. */
  readonly many?: true;
  readonly choices?: readonly string[];
  readonly completes?: Completes;
}

export const SESSION: Word = {
  name: "SESSION",
  says: "its id, or the beginning of it",
  completes: "session",
};

/** What every command takes that looks into a store. */
export const STORE_OPTIONS = {
  store: text(
    "ADDRESS",
    "a file (SQLite), dir:PATH, postgres://… ; else HOLDFAST_STORE, else .holdfast/state.db",
    { completes: "file" },
  ),
  tenant: text("NAME", "whose sessions these are"),
} as const satisfies Options;

/** What every command takes. */
export const COMMON_OPTIONS = {
  json: flag("print one JSON document, or lines of JSON for what goes on, with a version"),
  utc: flag("print times in UTC instead of how long ago they were"),
  quiet: flag("print no hints", "q"),
  "no-pager": flag("do not hand long output to a pager"),
  help: flag("print this", "h"),
} as const satisfies Options;

export type Common = Values<typeof COMMON_OPTIONS> & Partial<Values<typeof STORE_OPTIONS>>;

/** What a command found. */
export interface Answer {
  readonly json: object;
  readonly lines: Iterable<string>;
  /** What one would want to do next. */
  readonly next?: readonly Proposal[];
  /** Told on stderr, behind the lines. */
  readonly notes?: readonly string[];
  /** Long ones go through a pager on a terminal. */
  readonly pages?: boolean;
  readonly exit?: number;
}

export interface Run<O extends Options> {
  readonly words: readonly string[];
  readonly options: Values<O> & Common;
  readonly terminal: Terminal;
  /**
   * Opens the store that was named; it is closed when the command is over. One that is not there is
   * refused, unless it may be made.
   */
  readonly hold: (o?: { readonly make?: boolean }) => Promise<Holdfast>;
  /** A command that is proposed, as somebody can paste it: with the store that was named. */
  readonly line: (proposal: Proposal) => string;
  /** Aborts at Ctrl-C: long work stops between two steps, and says how far it came. */
  readonly signal: AbortSignal;
  readonly version: string;
  /** All commands, for one that speaks of them. */
  readonly commands: readonly Command[];
}

export interface Command {
  readonly name: string;
  readonly group: Group;
  /** One line. */
  readonly says: string;
  /** What else there is to know. */
  readonly more?: string;
  readonly words: readonly Word[];
  readonly options: Options;
  /** Whether it looks into a store. */
  readonly store: boolean;
  /** It only looks, and quickly: nothing is checked for it that `verify` checks. */
  readonly looks?: true;
  readonly examples: readonly (readonly [command: string, says: string])[];
  /** Not shown where commands are listed. */
  readonly hidden?: true;
  readonly run: (run: Run<Options>) => Promise<Answer | undefined>;
}

export const GROUPS = {
  begin: "Begin here",
  look: "Look at sessions",
  steer: "Go back, go another way",
  decide: "Calls that wait for somebody",
  agents: "Agents and their snapshots",
  keep: "Keep it small, keep it sound",
  move: "Move it, copy it",
  serve: "Serve it",
} as const;
export type Group = keyof typeof GROUPS;

interface Given<O extends Options> {
  readonly name: string;
  readonly group: Group;
  readonly says: string;
  readonly more?: string;
  readonly words?: readonly Word[];
  readonly options?: O;
  readonly store?: boolean;
  readonly looks?: true;
  readonly examples?: Command["examples"];
  readonly hidden?: true;
  readonly run: (run: Run<O>) => Promise<Answer | undefined>;
}

/** Options are typed inside of `run`, and looked up by name outside of it. */
export function command<const O extends Options = {}>({
  words = [],
  store = true,
  examples = [],
  ...given
}: Given<O>): Command {
  return {
    ...given,
    words,
    store,
    examples,
    options: given.options ?? {},
    run: given.run as unknown as Command["run"],
  };
}
