#!/usr/bin/env node
/** The command line. The version is told before anything else is loaded; a command loads what it needs. */
import { readFileSync } from "node:fs";

const version = (): string =>
  (JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string }).version;

// A reader that has seen enough (| head) is no error.
for (const stream of [process.stdout, process.stderr])
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit();
    throw error;
  });

const words = process.argv.slice(2);
if (words[0] === "--version" || words[0] === "-v" || words[0] === "-V") process.stdout.write(`${version()}\n`);
else process.exitCode = await (await import("./run.js")).run(words, version());
