/**
 * A store with a bit of everything, and all that a caller can see of one: what is moved must look
 * the same.
 */
import { RowReader, RowWriter, type TransferRow } from "../../src/core/transfer/export-format.js";
import type { Checkpoint, Holdfast, SessionSummary } from "../../src/index.js";

export async function rich(hold: Holdfast): Promise<void> {
  const big = (text: string) => text.repeat(Math.ceil(9_000 / text.length));
  const a = await hold.session("a", {
    agent: "x",
    title: "The first",
    tags: ["t", "ü"],
    metadata: { __proto__: null, "10": 1, "2": [true] },
  });
  a.append({ role: "user", content: "What holds kelp to the rock?" });
  a.set("plan", ["look", "ask"]);
  const first = await a.checkpoint({ label: "first", metadata: { why: "because" } });
  a.append(
    { role: "assistant", content: big("A holdfast. ") },
    {
      role: "user",
      content: [{ type: "file", mediaType: "x/y", data: { bytes: Buffer.from(big("png")) } }],
    },
  );
  a.set("notes", big("note "));
  a.splice("plan", 1, 1, "read", "rest");
  const second = await a.checkpoint();
  a.splice("messages", 0, 1);
  a.unset("plan");
  await a.checkpoint("third");

  const b = await a.fork(second.id, { id: "b" });
  b.append({ role: "user", content: big("A holdfast. ") });
  const inB = await b.checkpoint("in b");
  b.set("only", "b");
  await b.checkpoint();
  const c = await b.fork(inB.id, { id: "c" });
  c.append({ role: "user", content: "in c" });
  await c.checkpoint("in c");
  await c.fail("no luck");
  await hold.sessions.fork(inB.id, { id: "nothing yet" });
  await b.close();
  await c.close();

  await a.rewind(first.id);
  a.append({ role: "user", content: "another way" });
  await a.checkpoint("other line");
  const [, , third] = (await hold.checkpoints.list("a", { branches: "all" })).items;
  await a.rewind(first.id);
  await a.checkpoint("a third line");
  await a.switchBranch((third as Checkpoint).id);
  a.append({ role: "user", content: "switched" });
  await a.complete({ done: true });
  await a.close();

  const pruned = await hold.session("pruned", { agent: "y" });
  for (let i = 0; i < 12; i++) {
    pruned.append({ role: "user", content: `${i} ${"x".repeat(200)}` });
    if (i % 3 === 2) pruned.splice("messages", 0, 2);
    pruned.set("k", `${i} ${"y".repeat(200)}`);
    await pruned.checkpoint(`p${i}`);
  }
  await pruned.close();
  const at = (await hold.checkpoints.list("pruned")).items[4] as Checkpoint;
  await hold.sessions.fork(at.id, { id: "fork of pruned" });
  await hold.checkpoints.prune("pruned", { keep: 2 });

  const gone = await hold.session("gone", { agent: "y" });
  gone.append({ role: "user", content: "I was here" });
  const left = await gone.checkpoint();
  gone.set("more", 1);
  const later = await gone.checkpoint();
  gone.set("more", 2);
  await gone.checkpoint();
  await gone.close();
  await hold.sessions.fork(left.id, { id: "orphan" });
  const other = await hold.session("orphan");
  other.append({ role: "assistant", content: "Who?" });
  await other.checkpoint();
  await other.close();
  await hold.sessions.fork(later.id, { id: "orphan too" });
  await hold.sessions.delete("gone");
  await hold.sessions.delete("b");

  await (await hold.session("empty", { agent: "ü".repeat(100) })).close();
  await hold.sessions.update("orphan", { title: "Left behind", archived: true, tags: ["t"] });
}

export interface Seen {
  readonly session: SessionSummary;
  readonly past: readonly Checkpoint[];
  readonly all: readonly Checkpoint[];
  readonly states: readonly unknown[];
  readonly now: unknown;
}

/**
 * Which of the sessions that share a deleted one's checkpoints is the oldest depends on the order
 * in which they came into the store.
 */
const unowned = (checkpoint: Checkpoint): Checkpoint => ({
  ...checkpoint,
  sessionId: "" as Checkpoint["sessionId"],
});

/** All that a caller can see of a session. */
export async function look(hold: Holdfast, id: string): Promise<Seen> {
  const past = await everyPage((cursor) => hold.checkpoints.list(id, { limit: 1_000, ...cursor }));
  const all = await everyPage((cursor) =>
    hold.checkpoints.list(id, { limit: 1_000, branches: "all", ...cursor }),
  );
  const states = [];
  for (const { id: at } of new Map(
    [...past, ...all].map((checkpoint) => [checkpoint.id, checkpoint]),
  ).values())
    states.push({ ...(await hold.checkpoints.state(at)), checkpoint: at });
  const opened = await hold.session(id);
  const now = {
    messages: opened.messages,
    state: opened.state,
    status: opened.status,
    head: opened.head && unowned(opened.head),
  };
  await opened.close();
  const session = (await hold.sessions.get(id)) as SessionSummary;
  return { session, past: past.map(unowned), all: all.map(unowned), states, now };
}

export async function lookAtAll(hold: Holdfast): Promise<readonly Seen[]> {
  const sessions = await everyPage((cursor) => hold.sessions.list({ limit: 1_000, ...cursor }));
  const seen = [];
  for (const { id } of sessions) seen.push(await look(hold, id));
  return seen;
}

async function everyPage<T>(
  list: (cursor: { cursor?: string }) => Promise<{ items: readonly T[]; next?: string }>,
): Promise<T[]> {
  const items: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await list(cursor === undefined ? {} : { cursor });
    items.push(...page.items);
    cursor = page.next;
    if (cursor === undefined) return items;
  }
}

export async function rowsOf(rows: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

/** The rows after a change to what they say, each sealed anew: what a forger would write. */
export function forged(
  rows: readonly string[],
  change: (rows: TransferRow[]) => readonly TransferRow[],
): string[] {
  const reader = new RowReader();
  const writer = new RowWriter();
  const read = rows.map((row) => reader.read(row.slice(0, -1)));
  const changed = change(read.slice(0, -1));
  return [...changed, { end: { rows: changed.length + 1, sessions: 0 } }].map((row) =>
    writer.write(row),
  );
}
