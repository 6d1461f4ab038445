#!/usr/bin/env node
/** The command line. A command is one file, loaded when it is asked for. */
import { readFileSync } from "node:fs";
import { errorTable, HoldfastError, quote } from "../core/errors.js";

interface Command {
  readonly says: string;
  readonly flags: readonly string[];
  readonly run: (flags: ReadonlySet<string>) => Promise<void>;
}

const commands: Readonly<Record<string, Command>> = {
  demo: {
    says: "an agent is killed in the middle of its tool calls and goes on; no key, no network (--keep: its files stay)",
    flags: ["--keep"],
    run: async (flags) => (await import("./demo/demo.js")).demo({ keep: flags.has("--keep") }),
  },
};

const help = `holdfast: durable state for AI agents

${Object.entries(commands)
  .map(([name, { says }]) => `  holdfast ${name.padEnd(8)} ${says}`)
  .join("\n")}

  --version, --help
`;

async function main(words: readonly string[]): Promise<number> {
  const [word, ...rest] = words;
  if (word === "--version" || word === "-v") {
    const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
    process.stdout.write(`${version}\n`);
    return 0;
  }
  if (word === undefined || word === "--help" || word === "-h" || word === "help") {
    process.stdout.write(help);
    return 0;
  }
  const command = Object.hasOwn(commands, word) ? commands[word] : undefined;
  const strange = rest.find((flag) => !command?.flags.includes(flag));
  if (command === undefined || strange !== undefined) {
    const wrong = command === undefined ? `there is no command ${quote(word)}` : `${word} takes no ${quote(strange ?? "")}`;
    process.stderr.write(`holdfast: ${wrong}. Known: ${Object.keys(commands).join(", ")}. Try: holdfast --help\n`);
    return 2;
  }
  await command.run(new Set(rest));
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
