/**
 * Use each public call of the library on a store in a file, in the ways that lead to different
 * statements.
 */
import { type Holdfast, open, restoreBackup } from "../../src/index.js";
import { scriptedModel } from "../../src/testing/index.js";

const LARGE = "a body that is kept apart ".repeat(600);

/** `fillNotes` adds so many notes for the index that it removes those it has taken in. */
export async function useWholeLibrary(place: string, fillNotes: () => void): Promise<void> {
  for (const tenant of [undefined, "acme"]) {
    const hold = await open(place, tenant === undefined ? {} : { tenant });
    try {
      await sessions(hold);
      await searching(hold);
      await agents(hold);
      await working(hold);
      await removing(hold, fillNotes);
      await moving(hold, `${place}-copy${tenant ?? ""}.db`);
    } finally {
      await hold.close();
    }
  }
  const hold = await open(place);
  await hold.backup(`${place}.backup`);
  await hold.markRestored();
  await hold.close();
  await restoreBackup(`${place}.backup`, `${place}-restored.db`);
  await (await open(`${place}-restored.db`)).close();
  await restoreBackup(`${place}.backup`, `${place}-restored.db`, { force: true });
  await (await open(`${place}-restored.db`)).close();
}

async function sessions(hold: Holdfast): Promise<void> {
  const session = await hold.session("a", {
    agent: "scribe",
    title: "Kelp",
    tags: ["t"],
    metadata: { k: 1 },
  });
  session.append({ role: "user", content: "kelp grows" });
  session.set("k", 1);
  const first = await session.checkpoint("first");
  session.append({ role: "user", content: LARGE });
  const second = await session.checkpoint();
  const forked = await session.fork(second.id, { id: "held fork" });
  await forked.close();
  await session.rewind(first.id);
  session.append({ role: "assistant", content: "another way" });
  await session.checkpoint();
  await session.history();
  await session.switchBranch(second.id);
  await session.close();
  await hold.sessions.fork(first.id, { id: "fork", key: "fork once" });
  await hold.sessions.rewind("a", first.id, { key: "rewind once" });
  await hold.sessions.switchBranch("a", second.id);
  await hold.sessions.append("a", [{ role: "user", content: "from outside" }], {
    key: "append once",
  });
  await hold.sessions.update("a", { title: "Seaweed", tags: ["t", "u"], archived: true });
  for (const filter of [
    {},
    { agent: "scribe" },
    { status: "in-progress" },
    { tag: "t" },
    { archived: true },
    { archived: false },
  ] as const)
    await hold.sessions.list({ ...filter, limit: 1 });
  await hold.sessions.get("a");
  await hold.sessions.ids("a");
  await hold.sessions.forks("a");
  await hold.sessions.state("a");
  await hold.sessions.state("fork", { at: first.id });
  await hold.checkpoints.create("fork", { label: "made outside", key: "once" });
  await hold.checkpoints.find(first.id.slice(0, 6));
  await hold.checkpoints.latest("a");
  await hold.checkpoints.list("a", { branches: "all" });
  await hold.checkpoints.list("fork");
  await hold.checkpoints.state(second.id);
  await hold.checkpoints.diff(first.id, second.id);
  for await (const event of hold.sessions.events("a", { live: false })) void event;
}

async function searching(hold: Holdfast): Promise<void> {
  await hold.sessions.search("kelp");
  await hold.sessions.index();
  for (const filter of [
    { sessionId: "a" },
    { agent: "scribe" },
    { tag: "t" },
    {
      agent: "scribe",
      tag: "t",
      role: "user",
      since: "2020-01-01T00:00:00Z",
      until: "2100-01-01T00:00:00Z",
    },
  ] as const)
    await hold.sessions.search("kelp", filter);
}

async function agents(hold: Holdfast): Promise<void> {
  await hold.agents.save({ id: "scribe", name: "Scribe", state: { mood: "calm" } });
  await hold.agents.save({ id: "scribe", version: 1, name: "Scribe the second" });
  await hold.agents.get("scribe");
  await hold.agents.list({ limit: 1 });
  const snapshot = await hold.agents.snapshot("scribe", { name: "all" });
  await hold.agents.snapshots("scribe", { limit: 1 });
  await hold.agents.getSnapshot(snapshot.id);
  await hold.agents.restore(snapshot.id);
  await hold.agents.deleteSnapshot(snapshot.id);
}

async function working(hold: Holdfast): Promise<void> {
  const model = scriptedModel([
    { content: "", toolCalls: [{ callId: "1", name: "pay", input: { to: "ana" } }] },
    "Paid.",
  ]);
  const desk = hold.agent({
    name: "desk",
    model,
    tools: {
      pay: {
        mode: "once",
        approval: () => true,
        run: async () => ({ paid: true }),
        check: async () => ({ retry: true }),
      },
    },
  });
  const worker = hold.worker({ agents: [desk], concurrency: 1 });
  await worker.start();
  const turn = await desk.submit("order", "Pay Ana.", { key: "turn once" });
  await turn.result({ timeoutMs: 5_000 });
  const { items } = await hold.effects.list({ status: "waiting" });
  const [{ effectId }] = items as [(typeof items)[number]];
  await hold.effects.get(effectId);
  await hold.effects.approve(effectId, { by: "ana" });
  await turn.result({ timeoutMs: 5_000 });
  await worker.stop();
  await hold.session("signalled").then((session) => session.close());
  await hold.sessions.signal("signalled", "shipped", true, { key: "s" });
  await hold.sessions.cancel("signalled");
}

async function removing(hold: Holdfast, fillNotes: () => void): Promise<void> {
  await hold.retention.set({ keep: 3 });
  await hold.retention.apply();
  const long = await hold.session("long");
  for (let i = 0; i < 5; i++) {
    long.append({ role: "user", content: `kelp number ${i} ${i === 2 ? LARGE : ""}` });
    await long.checkpoint();
  }
  await long.close();
  fillNotes();
  await hold.sessions.index();
  await hold.checkpoints.prune("long", { keep: 1, dryRun: true });
  await hold.checkpoints.prune("long", { keep: 1 });
  await hold.sessions.redact("long", "kelp");
  await hold.sessions.index();
  await hold.sessions.delete("held fork");
  await hold.sessions.delete("long");
  await hold.gc({ dryRun: true });
  await hold.gc();
  await hold.sessions.index();
  await hold.stats();
  await hold.info();
  await hold.verify();
  await hold.verify({ sessionId: "a" });
}

async function moving(hold: Holdfast, place: string): Promise<void> {
  const other = await open(place);
  try {
    const rows: string[] = [];
    for await (const row of hold.export()) rows.push(row);
    await other.import(rows);
    await other.import(rows);
    await other.agents.delete("scribe");
  } finally {
    await other.close();
  }
}
