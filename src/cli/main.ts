#!/usr/bin/env node
/** The command line. A command is one file, loaded when it is asked for. */
import { readFileSync } from "node:fs";
import { errorTable, HoldfastError, quote } from "../core/errors.js";

interface Command {
  readonly says: string;
  /** What comes after its name, in words; each is needed. */
  readonly words?: readonly string[];
  readonly flags: readonly string[];
  /** Options that are followed by a value. */
  readonly values?: readonly string[];
  readonly run: (flags: ReadonlySet<string>, given: Given) => Promise<void>;
}

interface Given {
  readonly words: readonly string[];
  readonly values: ReadonlyMap<string, string>;
}

const commands: Readonly<Record<string, Command>> = {
  demo: {
    says: "an agent is killed in the middle of its tool calls and goes on; no key, no network (--keep: its files stay)",
    flags: ["--keep"],
    run: async (flags) => (await import("./demo/demo.js")).demo({ keep: flags.has("--keep") }),
  },
  backup: {
    says: "a copy of a store in one SQLite file, made while others write (--force: replaces a backup that is there)",
    words: ["FILE"],
    flags: ["--force", "--json"],
    values: ["--store"],
    run: async (flags, { words, values }) => (await import("./backup.js")).backup(words[0] ?? "", values.get("--store"), flags),
  },
  "restore-backup": {
    says: "a backup becomes the store (--force: a store that is there is put aside; --yes: nobody is asked)",
    words: ["FILE"],
    flags: ["--force", "--yes", "--json"],
    values: ["--store"],
    run: async (flags, { words, values }) => (await import("./backup.js")).restore(words[0] ?? "", values.get("--store"), flags),
  },
  restored: {
    says: "this store was put back from a copy that Holdfast did not make (--yes: nobody is asked)",
    flags: ["--yes", "--json"],
    values: ["--store"],
    run: async (flags, { values }) => (await import("./backup.js")).restored(values.get("--store"), flags),
  },
  mcp: {
    says: "the agent tools for MCP clients, over stdio (--http PORT: over HTTP; --read-only; --agent ID: only what is its own; --tenant T; --tokens FILE)",
    flags: ["--read-only"],
    values: ["--store", "--http", "--tokens", "--tenant", "--agent"],
    run: async (flags, { values }) =>
      (await import("./mcp.js")).mcp({
        store: values.get("--store"),
        http: values.get("--http"),
        tokens: values.get("--tokens"),
        tenant: values.get("--tenant"),
        agent: values.get("--agent"),
        readOnly: flags.has("--read-only"),
        version: version(),
      }),
  },
};

const help = `holdfast: durable state for AI agents

${Object.entries(commands)
  .map(([name, { says, words = [] }]) => `  holdfast ${[name, ...words].join(" ").padEnd(20)} ${says}`)
  .join("\n")}

  --version, --help; where a store is meant: --store ADDRESS (else HOLDFAST_STORE, else .holdfast/state.db)
`;

/** Tells flags, values and words apart. Behind `--` everything is a word. Answers what is wrong where it is. */
function parse(rest: readonly string[], { words: needed = [], flags: known, values: named = [] }: Command) {
  const flags = new Set<string>();
  const values = new Map<string, string>();
  const words: string[] = [];
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i] as string;
    const [name, inline] = word.startsWith("--") && word.includes("=") ? cut(word) : [word, undefined];
    if (word === "--") {
      words.push(...rest.slice(i + 1));
      break;
    }
    if (named.includes(name)) {
      const value = inline ?? rest[++i];
      // What looks like an option is one: `--agent --read-only` has lost its value, and must not lose the option as well.
      if (value === undefined || (inline === undefined && value.startsWith("--")))
        return `${name} needs a value (${name}=… for one that begins with --)`;
      values.set(name, value);
    } else if (known.includes(word)) flags.add(word);
    else if (word.startsWith("-") || words.length === needed.length) return `takes no ${quote(word)}`;
    else words.push(word);
  }
  if (words.length < needed.length) return `needs ${needed.slice(words.length).join(" ")}`;
  if (words.length > needed.length) return `takes no ${quote(words[needed.length] ?? "")}`;
  return { flags, words, values };
}

const cut = (word: string): readonly [string, string] => [word.slice(0, word.indexOf("=")), word.slice(word.indexOf("=") + 1)];

function version(): string {
  return (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version;
}

async function main(words: readonly string[]): Promise<number> {
  const [word, ...rest] = words;
  if (word === "--version" || word === "-v") {
    process.stdout.write(`${version()}\n`);
    return 0;
  }
  if (word === undefined || word === "--help" || word === "-h" || word === "help") {
    process.stdout.write(help);
    return 0;
  }
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  if (command !== undefined && (rest.includes("--help") || rest.includes("-h"))) {
    const { says, words: needed = [], flags, values = [] } = command;
    const all = [...needed, ...flags.map((name) => `[${name}]`), ...values.map((name) => `[${name} …]`)];
    process.stdout.write(`holdfast ${[word, ...all].join(" ")}\n\n  ${says}\n`);
    return 0;
  }
  const given = command && parse(rest, command);
  if (command === undefined || given === undefined || typeof given === "string") {
    const wrong = typeof given === "string" ? `${word} ${given}` : `there is no command ${quote(word)}`;
    const known = command === undefined ? Object.keys(commands) : [...command.flags, ...(command.values ?? [])];
    const help = command === undefined ? "holdfast --help" : `holdfast ${word} --help`;
    process.stderr.write(`holdfast: ${wrong}. Known: ${known.join(", ")}. Try: ${help}\n`);
    return 2;
  }
  await command.run(given.flags, given);
  return 0;
}

// A reader that has seen enough (| head) is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof HoldfastError)) throw error;
  process.stderr.write(`holdfast: ${error.message} (${error.code})\n`);
  process.exitCode = errorTable[error.code].exit;
}
