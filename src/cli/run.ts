/**
 * Runs one command: finds it, parses its words, prints what it answers, and turns what goes wrong
 * into words and an exit code.
 */
import { shownAddress, withoutPasswords } from "../core/values/address.js";
import { closest } from "../core/values/closest.js";
import { errorTable, HoldfastError, quote } from "../core/values/errors.js";
import type { Holdfast } from "../index.js";
import { commands } from "./commands.js";
import {
  type Answer,
  COMMON_OPTIONS,
  type Command,
  type Options,
  type Run,
  STORE_OPTIONS,
} from "./framework/command.js";
import { helpFor, overview, page } from "./framework/help.js";
import { type Proposal, shellLine, shellOptions } from "./framework/next-steps.js";
import { type Parsed, parse } from "./framework/parse.js";
import { openStore } from "./framework/store.js";
import { isColourful, paint } from "./terminal/colours.js";
import { Declined } from "./terminal/declined.js";
import { EXIT_BY, Stopping } from "./terminal/stopping.js";
import { Terminal } from "./terminal/terminal.js";
import { inline, json as jsonText } from "./terminal/text.js";
import { JSON_VERSION } from "./terminal/version.js";

export async function run(words: readonly string[], version: string): Promise<number> {
  const stopping = new Stopping();
  try {
    return await start(words, version, stopping);
  } catch (error) {
    return failed(error, words.includes("--json"), stopping);
  }
}

async function start(
  given: readonly string[],
  version: string,
  stopping: Stopping,
): Promise<number> {
  const [word, ...rest] = commandFirst(given);
  if (word === undefined || word === "--help" || word === "-h" || word === "help")
    return help(rest);
  const command = commands.find(({ name }) => name === word);
  if (command === undefined) throw noCommand(word);
  let parsed: Parsed;
  try {
    parsed = parse(command, rest);
  } catch (error) {
    // Ends the command with what one would want next: how it is used.
    if (error instanceof HoldfastError)
      throw new HoldfastError(
        error.code,
        `${error.message} Try: holdfast help ${command.name}`,
        error.details,
      );
    throw error;
  }
  return parsed.options.help ? help([command.name]) : perform(command, parsed, version, stopping);
}

/** Options that every command takes may stand before it: `holdfast --store x.db ls`. */
function commandFirst(words: readonly string[]): readonly string[] {
  const known: Options = { ...STORE_OPTIONS, ...COMMON_OPTIONS };
  let at = 0;
  for (let word = words[0]; word !== undefined && word.startsWith("--"); word = words[at]) {
    const [name = ""] = word.slice(2).split("=", 1);
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (option === undefined || word === "--help") return words;
    at += option.kind === "flag" || word.includes("=") ? 1 : 2;
  }
  return at === 0 || at >= words.length
    ? words
    : [words[at] as string, ...words.slice(0, at), ...words.slice(at + 1)];
}

async function perform(
  command: Command,
  { words, options }: Parsed,
  version: string,
  stopping: Stopping,
): Promise<number> {
  const terminal = new Terminal({
    utc: options.utc,
    quiet: options.quiet || options.json,
    pager: !options["no-pager"],
  });
  const { tenant } = options;
  const store = options.store === undefined ? undefined : shownAddress(options.store);
  const line = (proposal: Proposal): string => {
    const isOfStore = commands.find(({ name }) => name === proposal.name)?.store === true;
    return shellLine(
      isOfStore
        ? { ...proposal, options: { ...proposal.options, store, tenant, ...proposal.options } }
        : proposal,
    );
  };
  let opened: Holdfast | undefined;
  const running: Run<Options> = {
    words,
    options,
    terminal,
    version,
    commands,
    line,
    get signal() {
      return stopping.signal;
    },
    hold: async ({ make = false } = {}) => {
      opened ??= await openStore(options, { make, looks: command.looks === true });
      return opened;
    },
  };
  let answer: Answer | undefined;
  try {
    answer = await command.run(running);
  } catch (error) {
    throw withStore(
      error,
      store === undefined && tenant === undefined ? undefined : { store, tenant },
    );
  } finally {
    // Before it is shown: whoever reads in a pager keeps nothing open.
    await opened?.close();
  }
  // Ctrl-C is how one that goes on is ended; SIGTERM is not.
  if (answer === undefined)
    return stopping.by === "SIGTERM" ? EXIT_BY.SIGTERM : Number(process.exitCode ?? 0);
  return show(command, answer, options.json, terminal, line);
}

/** A message that ends with a command to run names the store that was meant. */
function withStore(error: unknown, where: Proposal["options"] | undefined): unknown {
  if (
    !(error instanceof HoldfastError) ||
    where === undefined ||
    !/: holdfast [^"]*$/.test(error.message)
  )
    return error;
  return new HoldfastError(
    error.code,
    [error.message, ...shellOptions(where)].join(" "),
    error.details,
    error.cause,
  );
}

async function show(
  { name }: Command,
  { json, lines, next = [], notes = [], pages = false, exit = 0 }: Answer,
  isJson: boolean,
  terminal: Terminal,
  line: (proposal: Proposal) => string,
): Promise<number> {
  // Known also to whoever stops reading.
  process.exitCode = exit;
  if (isJson)
    process.stdout.write(`${jsonText({ version: JSON_VERSION, command: name, ...json }, 2)}\n`);
  else {
    await terminal.print(lines, pages);
    for (const note of notes) terminal.tell(note);
    terminal.next(next.map((proposal) => [line(proposal), proposal.says]));
  }
  return exit;
}

async function help(words: readonly string[]): Promise<number> {
  const terminal = new Terminal({ utc: false, quiet: false, pager: true });
  const columns = Math.min(terminal.columns, 110);
  if (words.includes("--markdown")) {
    process.stdout.write(page(commands));
    return 0;
  }
  const name = words.find((word) => !word.startsWith("-"));
  const command = commands.find((known) => known.name === name);
  if (name !== undefined && command === undefined) throw noCommand(name);
  if (words.includes("--json")) {
    const told = (command === undefined ? commands.filter(({ hidden }) => !hidden) : [command]).map(
      ({ run: _run, ...described }) => described,
    );
    process.stdout.write(
      `${jsonText({ version: JSON_VERSION, command: "help", commands: told }, 2)}\n`,
    );
    return 0;
  }
  await terminal.print(
    command === undefined
      ? overview(commands, terminal.paint, columns)
      : helpFor(command, terminal.paint, columns),
    true,
  );
  return 0;
}

function noCommand(word: string): HoldfastError {
  const names = commands.filter(({ hidden }) => !hidden).map(({ name }) => name);
  const other = Object.hasOwn(OTHER_NAMES, word) ? OTHER_NAMES[word] : undefined;
  // An option that is misplaced is no misspelt command.
  const meant = other ?? (word.startsWith("-") ? undefined : closest(word, names));
  const advice = meant === undefined ? "Try: holdfast help" : `Did you mean: holdfast ${meant}?`;
  return new HoldfastError("INVALID_OPTION", `There is no command ${quote(word)}. ${advice}`, {
    found: word,
  });
}

/** What people call them elsewhere. */
const OTHER_NAMES: Readonly<Record<string, string>> = {
  list: "ls",
  sessions: "ls",
  history: "log",
  checkpoints: "log",
  cat: "show",
  get: "show",
  grep: "search",
  find: "search",
  follow: "tail",
  watch: "tail",
  delete: "rm",
  remove: "rm",
  reset: "rewind",
  undo: "rewind",
  checkout: "rewind",
  branch: "fork",
  stop: "cancel",
  kill: "cancel",
  check: "verify",
  fsck: "verify",
  compact: "gc",
  vacuum: "gc",
  status: "doctor",
  pending: "effects",
};

function failed(error: unknown, isJson: boolean, { by }: Stopping): number {
  const { red } = paint(isColourful(process.stderr, process.env));
  const told = (code: string, message: string, more: object = {}) =>
    process.stderr.write(
      withoutPasswords(
        isJson
          ? `${jsonText({ version: JSON_VERSION, error: { code, message, ...more } })}\n`
          : `${red("holdfast:")} ${message}\n`,
      ),
    );
  if (error instanceof Declined) {
    told("DECLINED", "Nothing was done.");
    return 1;
  }
  if (error instanceof Error && error.name === "AbortError") {
    told("STOPPED", "Stopped.");
    return EXIT_BY[by ?? "SIGINT"];
  }
  if (error instanceof HoldfastError) {
    const { code, message, details, retryable } = error;
    told(code, isJson ? message : `${inline(message)} (${code})`, { retryable, details });
    return errorTable[code].exit;
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const where = process.env["HOLDFAST_DEBUG"]
    ? `\n${(stack ?? "").split("\n").map(inline).join("\n")}`
    : "";
  told(
    "UNEXPECTED",
    isJson
      ? message
      : `Unexpected: ${inline(message)}.${where === "" ? " HOLDFAST_DEBUG=1 shows where." : where}`,
  );
  return 1;
}
