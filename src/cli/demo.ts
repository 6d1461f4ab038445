/**
 * The demo: a child process saves the steps of a session, one durable save each, and says so after each. It is killed with SIGKILL at
 * random instants and started again until the work is done; then what it said is compared with what is there.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { open } from "../index.js";

const STEPS = 400;
const KILLS = 5;

const colourful = process.stdout.isTTY && !process.env["NO_COLOR"] && process.env["TERM"] !== "dumb";
const paint = (code: number) => (text: string) => (colourful ? `\x1b[${code}m${text}\x1b[0m` : text);
const [bold, dim, red, green] = [paint(1), paint(2), paint(31), paint(32)];
const say = (text = "") => process.stdout.write(`${text}\n`);

export async function demo(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  const file = join(directory, "demo.db");
  say(bold("A session is saved step by step, and its process killed at random instants."));
  say(dim(`store: ${file} (SQLite, write-ahead log, synced at every save)`));
  say();
  try {
    const acknowledged = new Map<number, string>();
    for (let kills = 0; ; ) {
      const { killed, from } = await work(file, acknowledged, kills < KILLS);
      const began = from === 0 ? "from the beginning" : `from step ${from + 1}, where the last one stopped`;
      if (!killed) {
        say(`  ${green("done")}    went on ${began}, to step ${STEPS}`);
        break;
      }
      kills += 1;
      say(`  ${red("SIGKILL")} ${began}; ${acknowledged.size} saves acknowledged so far`);
    }
    say();
    await report(file, acknowledged);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** One life of the child. Answers whether it was killed, and the step it went on from. */
async function work(file: string, acknowledged: Map<number, string>, kill: boolean): Promise<{ killed: boolean; from: number }> {
  const child = spawn(process.execPath, [fileURLToPath(new URL("./demo-child.js", import.meta.url)), file, String(STEPS)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once("close", (code, signal) => resolve({ code, signal })),
  );
  let from = 0;
  let timer: NodeJS.Timeout | undefined;
  for await (const row of createInterface({ input: child.stdout as NonNullable<ChildProcess["stdout"]> })) {
    const [word, step, digest] = row.split(" ");
    if (word === "from") from = Number(step);
    if (word !== "saved") continue;
    acknowledged.set(Number(step), digest ?? "");
    if (kill) timer ??= setTimeout(() => child.kill("SIGKILL"), 5 + Math.random() * 20);
  }
  const { code, signal } = await ended;
  clearTimeout(timer);
  if (signal === null && code !== 0) throw new Error(`the demo's child ended with code ${code}`);
  return { killed: signal === "SIGKILL", from };
}

async function report(file: string, acknowledged: ReadonlyMap<number, string>): Promise<void> {
  await using hold = await open(file);
  const found = new Map<number, string>();
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list("demo", { limit: 1000, ...(cursor === undefined ? {} : { cursor }) });
    for (const { step, digest } of page.items) found.set(step, digest);
    if (page.next === undefined) break;
    cursor = page.next;
  }
  const lost = [...acknowledged].filter(([step, digest]) => found.get(step) !== digest).length;
  const { ok, checked } = await hold.verify();
  const { messages } = await hold.checkpoints.state((await hold.checkpoints.latest("demo"))?.id ?? "");
  const inOrder = messages.every(({ content }, i) => content === `step ${i + 1}`);
  const verdict = (good: boolean) => (good ? green("yes") : red("NO"));
  say(`  saves acknowledged              ${acknowledged.size}`);
  say(`  found again, digest by digest   ${acknowledged.size - lost}`);
  say(`  lost                            ${lost === 0 ? green("0") : red(String(lost))}`);
  say(`  every step once, in order       ${verdict(inOrder && messages.length === STEPS)}`);
  say(`  digest chain intact             ${verdict(ok)} (${checked} saves verified)`);
  say();
  say("Next: README.md shows the same in ten lines of your own.");
  if (lost > 0 || !ok || !inOrder) process.exitCode = 1;
}
