/**
 * Runs the command line, and compares what it printed with what is kept. `run` runs it in this
 * process, which takes a tenth of the time of a new one. `runApart` and `onTerminal` start a
 * process, as people do.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import { run as runCommand } from "../../src/cli/run.js";
import type { World } from "./world.js";

export const bin = fileURLToPath(new URL("../../dist/bin/holdfast.js", import.meta.url));
const golden = (name: string) => fileURLToPath(new URL(`./golden/${name}.txt`, import.meta.url));

export interface Ended {
  readonly exit: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly input?: string;
}

/** Nothing of whoever runs the tests shows through. */
const bare = ({ env }: RunOptions): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  ...(process.env["TMPDIR"] && { TMPDIR: process.env["TMPDIR"] }),
  HOME: "/nowhere",
  USER: "ana",
  LANG: "C.UTF-8",
  ...env,
});

const { version } = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
) as { version: string };
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command in this process. Commands run one after the other, because each has the
 * environment and the directory to itself.
 */
export function run(words: readonly string[], o: Omit<RunOptions, "input"> = {}): Promise<Ended> {
  const running = last.then(() => inThisProcess(words, o));
  last = running.catch(() => {});
  return running;
}

async function inThisProcess(words: readonly string[], o: RunOptions): Promise<Ended> {
  const [cwd, env, { exitCode }] = [process.cwd(), { ...process.env }, process];
  const listeners = SIGNALS.map((name) => process.listeners(name));
  const [stdout, stderr] = [captured(process.stdout), captured(process.stderr)];
  // A command that ends its process does so in its last step.
  let ended: number | undefined;
  const endings = vi.spyOn(process, "exit").mockImplementation((code) => {
    ended = Number(code ?? 0);
    return undefined as never;
  });
  replaceEnvironment(bare(o));
  process.chdir(o.cwd ?? cwd);
  try {
    const exit = await runCommand(words, version);
    return { exit: ended ?? exit, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    endings.mockRestore();
    for (const stream of [stdout, stderr]) stream.release();
    replaceEnvironment(env);
    process.chdir(cwd);
    process.exitCode = exitCode;
    for (const [i, name] of SIGNALS.entries())
      for (const listener of process.listeners(name))
        if (!listeners[i]?.includes(listener)) process.off(name, listener);
  }
}

function replaceEnvironment(env: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
}

/** Takes all that is written to a stream, until it is released. */
function captured(stream: NodeJS.WriteStream) {
  const chunks: Buffer[] = [];
  const writes = vi
    .spyOn(stream, "write")
    .mockImplementation((chunk: string | Uint8Array, ...more: readonly unknown[]): boolean => {
      chunks.push(Buffer.from(chunk as string));
      const done = more.findLast((one) => typeof one === "function") as (() => void) | undefined;
      if (done !== undefined) queueMicrotask(done);
      return true;
    });
  return {
    text: () => Buffer.concat(chunks).toString("utf8"),
    release: () => writes.mockRestore(),
  };
}

/** Runs a command as a process of its own. */
export function runApart(words: readonly string[], o: RunOptions = {}): Promise<Ended> {
  return ended(process.execPath, [bin, ...words], o);
}

/** On a terminal of 80 columns: all that it prints comes together, and it is asked. */
export async function onTerminal(
  words: readonly string[],
  o: RunOptions & { readonly columns?: number } = {},
): Promise<Ended> {
  const quoted = [process.execPath, bin, ...words]
    .map((word) => `'${word.replaceAll("'", "'\\''")}'`)
    .join(" ");
  const line = `stty cols ${o.columns ?? 80} rows 60 -echo; ${quoted}`;
  const { exit, stdout, stderr } = await ended("script", ["-qec", line, "/dev/null"], {
    ...o,
    env: { TERM: "xterm-256color", HOLDFAST_PAGER: "cat", ...o.env },
  });
  return { exit, stdout: stdout.replaceAll("\r\n", "\n"), stderr };
}

function ended(file: string, args: readonly string[], o: RunOptions): Promise<Ended> {
  const child = spawn(file, args, { cwd: o.cwd, env: bare(o), stdio: ["pipe", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  child.stdin.on("error", () => {});
  if (o.input === undefined) child.stdin.end();
  else {
    // Once it is asked for: a terminal shows twice what is typed before.
    const answer = () => {
      if (!stdout.includes("[y/N]")) return;
      child.stdout.off("data", answer);
      child.stdin.write(o.input as string);
    };
    child.stdout.on("data", answer);
  }
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exit) => {
      child.stdin.destroy();
      resolve({ exit, stdout, stderr });
    });
  });
}

type Steadied = Pick<World, "lines" | "snapshot" | "snapshotDigest">;

/**
 * What is random in an output gets a name of the same length: lines of journals, by the order of
 * their making.
 */
export function steady(text: string, { lines, snapshot, snapshotDigest }: Steadied): string {
  let steady = text
    .replaceAll(snapshot, "snap-ssssssssssssssss")
    .replaceAll(snapshotDigest.slice(0, 8), "dddddddd");
  for (const [i, line] of lines.entries()) {
    const letter = String.fromCharCode(97 + i);
    steady = steady
      .replaceAll(line, letter.repeat(16))
      .replaceAll(line.slice(0, 8), letter.repeat(8));
  }
  // Digests are salted, keys are drawn, and what is stored says which process wrote it.
  return steady
    .replace(/"sizeBytes": \d+\n}/, '"sizeBytes": …\n}')
    .replace(/"digest": ?"[\w-]{43}"/g, '"digest":"…"')
    .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, "…");
}

/**
 * Compared with the file; `GOLDEN=write npx vitest run test/cli` writes what there is now, to be
 * looked at before it is kept.
 */
export function expectGolden(name: string, { exit, stdout, stderr }: Ended, world: Steadied): void {
  const text = `${steady(stdout, world)}--- stderr\n${steady(stderr, world)}--- exit ${exit}\n`;
  // What is not sent to a terminal can be read in the file.
  const readable = text.replaceAll("\u001b", "␛");
  if (process.env["GOLDEN"] === "write") writeFileSync(golden(name), readable);
  expect(existsSync(golden(name)) ? readFileSync(golden(name), "utf8") : undefined).toBe(readable);
}
