/**
 * The demo: a support agent refunds orders in a process of its own, which is killed with SIGKILL in
 * the middle of its calls, at a different point every time, and started again until the work is
 * done. Then the bank's own ledger is asked what really happened.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { open } from "../../index.js";
import { isColourful, paint } from "../terminal/colours.js";
import { ORDERS, POINTS, type Point } from "./agent.js";
import { type Entry, World } from "./world.js";

const { bold, dim, red, green, cyan } = paint(isColourful(process.stdout, process.env));
let say = (text = ""): void => void process.stdout.write(`${text}\n`);
/** On a terminal there is time to read. */
const beat = () => (process.stdout.isTTY ? sleep(250) : undefined);

interface Death {
  readonly point: Point;
  readonly order: number;
}

/** Every point once for the first order, in another sequence each time, and one for the second. */
function deaths(): readonly Death[] {
  const [first = 0, second = 0] = ORDERS;
  // The mail comes after the money: whoever dies there has been through the others.
  const [mail, money] = [POINTS.at(-1) as Point, POINTS.slice(0, -1)];
  const shuffled = money.map((point) => ({ point, by: Math.random() })).sort((a, b) => a.by - b.by);
  return [
    ...shuffled.map(({ point }) => ({ point, order: first })),
    { point: mail, order: first },
    { point: money[Math.floor(Math.random() * money.length)] as Point, order: second },
  ];
}

export interface DemoReport {
  readonly kills: number;
  readonly orders: readonly {
    readonly order: number;
    readonly refunds: number;
    readonly mails: number;
  }[];
  readonly modelCalls: number;
  readonly replies: number;
  readonly saves: number;
  /** Nothing happened twice, and what is stored is sound. */
  readonly ok: boolean;
  /** Where its files are; absent where they did not stay. */
  readonly store?: string;
}

export async function demo({
  keep,
  silent,
}: {
  readonly keep: boolean;
  readonly silent: boolean;
}): Promise<DemoReport> {
  if (silent) say = () => {};
  const directory = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
  try {
    // Here, where it can be told: a store that cannot be opened would end each process that is
    // started for it.
    await (await open(join(directory, "agent.db"))).close();
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
  say(
    bold(
      "A support agent refunds two orders. Its process is killed in the middle of its calls, again and again.",
    ),
  );
  say(dim(`store   ${join(directory, "agent.db")}  (SQLite, synced at every commit)`));
  say(
    dim(
      `ledger  ${join(directory, "ledger.jsonl")}  (what the bank and the mail server really did)`,
    ),
  );
  say();
  let found: DemoReport;
  try {
    const planned = deaths();
    let kills = 0;
    for (const [i, death] of [...planned, undefined].entries())
      if (await live(directory, i + 1, death)) kills += 1;
    say();
    found = await report(directory, kills);
  } finally {
    if (!keep) rmSync(directory, { recursive: true, force: true });
  }
  say("Next:");
  const kept = [
    ["npx holdfast log order-42 --graph", "its checkpoints"],
    ["npx holdfast show order-42", "the conversation, and what became of each call"],
  ] as const;
  const again = [
    ["npx holdfast demo --keep", "the same, and the files stay for you to look at"],
  ] as const;
  if (keep) say(`  ${cyan(`export HOLDFAST_STORE=${join(directory, "agent.db")}`)}`);
  for (const [command, says] of [...(keep ? kept : again), ...NEXT])
    say(`  ${cyan(command.padEnd(35))}${says}`);
  return keep ? { ...found, store: join(directory, "agent.db") } : found;
}

const NEXT = [
  ["node examples/boxes.mjs", "a small agent of your own: stop it with Ctrl-C, start it again"],
  ["README.md", "approval, workers, forks, Postgres"],
] as const;

/** One life of the process. Answers whether it was killed. */
async function live(directory: string, life: number, death: Death | undefined): Promise<boolean> {
  const file = fileURLToPath(new URL("./child.js", import.meta.url));
  const args = death === undefined ? [] : [death.point, String(death.order)];
  const child = spawn(process.execPath, [file, directory, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
    child.once("close", (code, signal) => resolve({ code, signal })),
  );
  say(bold(`process ${life}`));
  for await (const row of createInterface({
    input: child.stdout as NonNullable<ChildProcess["stdout"]>,
  })) {
    const event = JSON.parse(row) as {
      says?: string;
      output?: string;
      failed?: string;
      point?: string;
    };
    if (event.says !== undefined) say(`  ${dim("›")} ${event.says}`);
    if (event.output !== undefined) say(`  ${green("✔")} ${event.output}`);
    if (event.failed !== undefined) throw new Error(event.failed);
    if (event.point !== undefined) {
      await beat();
      child.kill("SIGKILL");
      say(`  ${red("✖ SIGKILL")} ${event.point}`);
    }
    await beat();
  }
  const { code, signal } = await ended;
  if (signal === null && code !== 0) throw new Error(`the demo's process ended with code ${code}`);
  return signal === "SIGKILL";
}

async function report(directory: string, kills: number): Promise<DemoReport> {
  const entries = new World(join(directory, "ledger.jsonl")).entries();
  await using hold = await open(join(directory, "agent.db"));
  const count = (order: number, who: Entry["who"], did?: string) =>
    entries.filter(
      (entry) =>
        entry.order === order && entry.who === who && (did === undefined || entry.did === did),
    ).length;
  let ok = true;
  const times = (n: number) => {
    if (n === 1) return green("once");
    ok = false;
    return red(`${n} times`);
  };
  say(bold(`After ${kills} kills, from the ledger of the bank and the mail server:`));
  for (const order of ORDERS) {
    const again = count(order, "bank", "recognised the key");
    say(
      `  order ${order}   refunded ${times(count(order, "bank", "refund"))}, mail sent ${times(count(order, "mail"))}`,
    );
    if (again > 0)
      say(
        dim(
          `             (the bank was asked ${again} more ${again === 1 ? "time" : "times"} under the same key, and recognised it)`,
        ),
      );
  }
  const replies = ORDERS.reduce((sum, order) => sum + count(order, "model"), 0);
  const distinct = new Set(entries.filter(({ who }) => who === "model").map(({ key }) => key)).size;
  if (replies !== distinct) ok = false;
  say(
    `  model      asked ${replies} times for ${distinct} replies: ${replies === distinct ? green("none paid twice") : red("some paid twice")}`,
  );
  say();
  say(bold(`The history of order-${ORDERS[0]}:`));
  const { items } = await hold.checkpoints.list(`order-${ORDERS[0]}`, { limit: 100 });
  for (const { step, kind, status, messageCount, createdAt } of items.toReversed())
    say(
      `  ${dim(createdAt.slice(11, 23))}  step ${step}  ${kind.padEnd(10)} ${status.padEnd(11)} ${String(messageCount).padStart(2)} messages`,
    );
  const { ok: intact, checked } = await hold.verify();
  if (!intact) ok = false;
  say(`  ${checked} saves, digest chain ${intact ? green("intact") : red("BROKEN")}`);
  say();
  const orders = ORDERS.map((order) => ({
    order,
    refunds: count(order, "bank", "refund"),
    mails: count(order, "mail"),
  }));
  return { kills, orders, modelCalls: replies, replies: distinct, saves: checked, ok };
}
