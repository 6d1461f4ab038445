#!/usr/bin/env node
/**
 * The command line. The version is told before anything else is loaded; a command loads what it
 * needs.
 */
import { readFileSync, writeSync } from "node:fs";

const version = (): string =>
  (
    JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
      version: string;
    }
  ).version;

const UNWRITTEN = 1;

// A reader that has seen enough (| head) is no error. Other output that cannot be written is one,
// and is told in one line.
for (const [name, stream] of [
  ["stdout", process.stdout],
  ["stderr", process.stderr],
] as const)
  stream.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    if (code === "EPIPE") process.exit();
    try {
      writeSync(
        2,
        `holdfast: The output could not be written to ${name} (${code ?? message}). Write it to a place with room.\n`,
      );
    } catch {
      // There is nowhere left to say it.
    }
    process.exit(UNWRITTEN);
  });

const words = process.argv.slice(2);
if (words[0] === "--version" || words[0] === "-v" || words[0] === "-V")
  process.stdout.write(`${version()}\n`);
else process.exitCode = await (await import("./run.js")).run(words, version());
