/** Runs one command: finds it, parses its words, prints what it answers, and turns what goes wrong into words and an exit code. */
import { errorTable, HoldfastError, quote } from "../core/errors.js";
import type { Holdfast } from "../index.js";
import { paint } from "./colours.js";
import type { Answer, Command, Options, Run } from "./command.js";
import { commands } from "./commands.js";
import { helpFor, overview, page } from "./help.js";
import { type Parsed, parse } from "./parse.js";
import { openStore, whereOf } from "./store.js";
import { closest } from "./suggest.js";
import { Terminal } from "./terminal.js";
import { json as jsonText } from "./text.js";

/** Of what --json prints. It rises when a field goes or changes its meaning. */
export const JSON_VERSION = 1;
const STOPPED = 130;

export async function run(words: readonly string[], version: string): Promise<number> {
  const isJson = words.includes("--json");
  try {
    return await start(words, version);
  } catch (error) {
    return failed(error, isJson);
  }
}

async function start([word, ...rest]: readonly string[], version: string): Promise<number> {
  if (word === undefined || word === "--help" || word === "-h" || word === "help") return help(rest);
  const command = commands.find(({ name }) => name === word);
  if (command === undefined) throw noCommand(word);
  let parsed: Parsed;
  try {
    parsed = parse(command, rest);
  } catch (error) {
    // Ends the command with what one would want next: how it is used.
    if (error instanceof HoldfastError)
      throw new HoldfastError(error.code, `${error.message} Try: holdfast help ${command.name}`, error.details);
    throw error;
  }
  return parsed.options.help ? help([command.name]) : perform(command, parsed, version);
}

async function perform(command: Command, { words, options }: Parsed, version: string): Promise<number> {
  const terminal = new Terminal({ utc: options.utc, quiet: options.quiet || options.json, pager: !options["no-pager"] });
  const stopping = new Stopping();
  let opened: Holdfast | undefined;
  const running: Run<Options> = {
    words,
    options,
    terminal,
    version,
    where: whereOf(options),
    get signal() {
      return stopping.signal;
    },
    hold: async ({ make = false } = {}) => {
      opened ??= await openStore(options, { make, looks: command.looks === true });
      return opened;
    },
  };
  try {
    const answer = await command.run(running);
    return answer === undefined ? Number(process.exitCode ?? 0) : show(command, answer, options.json, terminal);
  } finally {
    await opened?.close();
  }
}

async function show(
  { name }: Command,
  { json, lines, next = [], notes = [], pages = false, exit = 0 }: Answer,
  isJson: boolean,
  terminal: Terminal,
): Promise<number> {
  if (isJson) process.stdout.write(`${jsonText({ version: JSON_VERSION, command: name, ...json }, 2)}\n`);
  else {
    await terminal.print(lines, pages);
    for (const note of notes) terminal.tell(note);
    terminal.next(next);
  }
  return exit;
}

/** Ctrl-C, for commands that ask for it: the first stops them between two steps, the second at once. */
class Stopping {
  #stop: AbortController | undefined;

  get signal(): AbortSignal {
    if (this.#stop === undefined) {
      const stop = new AbortController();
      this.#stop = stop;
      const ask = () => {
        if (stop.signal.aborted) process.exit(STOPPED);
        stop.abort();
      };
      process.on("SIGINT", ask);
      process.on("SIGTERM", ask);
    }
    return this.#stop.signal;
  }
}

async function help([word, ...rest]: readonly string[]): Promise<number> {
  const terminal = new Terminal({ utc: false, quiet: false, pager: true });
  const columns = Math.min(terminal.columns, 110);
  if (word === "--markdown") {
    process.stdout.write(page(commands));
    return 0;
  }
  const name = word?.startsWith("-") ? rest[0] : word;
  const command = commands.find((known) => known.name === name);
  if (name !== undefined && command === undefined) throw noCommand(name);
  terminal.print(command === undefined ? overview(commands, terminal.paint, columns) : helpFor(command, terminal.paint, columns), true);
  return 0;
}

function noCommand(word: string): HoldfastError {
  const names = commands.filter(({ hidden }) => !hidden).map(({ name }) => name);
  const meant = OTHER_NAMES[word] ?? closest(word, names);
  const advice = meant === undefined ? "Try: holdfast help" : `Did you mean: holdfast ${meant}?`;
  return new HoldfastError("INVALID_OPTION", `There is no command ${quote(word)}. ${advice}`, { found: word });
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

function failed(error: unknown, isJson: boolean): number {
  if (error instanceof Error && error.name === "AbortError") {
    process.stderr.write(
      isJson ? `${jsonText({ version: JSON_VERSION, error: { code: "STOPPED", message: "Stopped." } })}\n` : "holdfast: stopped.\n",
    );
    return STOPPED;
  }
  const { red } = paint(process.stderr.isTTY === true && !isJson && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb");
  if (error instanceof HoldfastError) {
    const { code, message, details, retryable } = error;
    const text = isJson
      ? jsonText({ version: JSON_VERSION, error: { code, message, retryable, details } })
      : `${red("holdfast:")} ${message} (${code})`;
    process.stderr.write(`${text}\n`);
    return errorTable[code].exit;
  }
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  const advice = process.env["HOLDFAST_DEBUG"] ? `\n${stack ?? ""}` : " HOLDFAST_DEBUG=1 shows where.";
  process.stderr.write(
    isJson
      ? `${jsonText({ version: JSON_VERSION, error: { code: "UNEXPECTED", message } })}\n`
      : `holdfast: unexpected: ${message}.${advice}\n`,
  );
  return 1;
}
