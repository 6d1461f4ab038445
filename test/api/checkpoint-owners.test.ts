/**
 * A checkpoint belongs to the session that owns its line. On a line that no session owns any more
 * it belongs to the session of the oldest line that goes on from it; where there is none, no call
 * knows it. All calls follow this rule: what one of them names, all others know.
 */
import { afterEach, describe, expect, test } from "vitest";
import type { Checkpoint } from "../../src/core/journal/checkpoint.js";
import { Holdfast } from "../../src/holdfast.js";
import { open } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import { run } from "../cli/command.js";
import { wrapped } from "../support/failures/wrapped.js";
import { coded } from "../support/processes.js";
import { everyStore, stores } from "../support/stores.js";

const holds: Holdfast[] = [];
afterEach(async () => {
  for (const hold of holds.splice(0)) await hold.close();
});

async function at(address: string): Promise<Holdfast> {
  const hold = await open(address);
  holds.push(hold);
  return hold;
}

/** Saves so many checkpoints in a session, and answers their ids. */
async function say(hold: Holdfast, id: string, count = 3): Promise<readonly string[]> {
  const session = await hold.session(id, { agent: "ann" });
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    session.append({ role: "user", content: `${id} ${n}` });
    session.set("n", n);
    ids.push((await session.checkpoint()).id);
  }
  await session.close();
  return ids;
}

interface Made {
  readonly hold: Holdfast;
  /** Checkpoints that must be known, with the session that each belongs to. */
  readonly known: Readonly<Record<string, string>>;
  /** Checkpoints that must not be. */
  readonly gone?: readonly string[];
}

const owned = (ids: readonly string[], by: string): Record<string, string> =>
  Object.fromEntries(ids.map((id) => [id, by]));

/** By what was done to the sessions. `another`: a store of the same kind. */
const situations: Readonly<
  Record<string, (hold: Holdfast, another: () => Promise<Holdfast>) => Promise<Made>>
> = {
  "a plain session": async (hold) => ({ hold, known: owned(await say(hold, "a"), "a") }),
  "a fork of a living session": async (hold) => {
    const a = await say(hold, "a");
    await hold.sessions.fork(a[1] as string, { id: "f" });
    return { hold, known: { ...owned(a, "a"), ...owned(await say(hold, "f", 1), "f") } };
  },
  "a fork of a deleted session": async (hold) => {
    const [first, second, third] = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(second, { id: "f" });
    await hold.sessions.delete("a");
    return { hold, known: owned([first, second], "f"), gone: [third] };
  },
  "two forks of a deleted session": async (hold) => {
    const [first, second, third] = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(first, { id: "f" });
    await hold.sessions.fork(second, { id: "g" });
    await hold.sessions.delete("a");
    return { hold, known: { [first]: "f", [second]: "g" }, gone: [third] };
  },
  "a fork of a fork, with the middle deleted": async (hold) => {
    const a = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(a[1], { id: "f" });
    const f = (await say(hold, "f")) as [string, string, string];
    await hold.sessions.fork(f[1], { id: "g" });
    await hold.sessions.delete("f");
    return {
      hold,
      known: {
        ...owned(a, "a"),
        ...owned(f.slice(0, 2), "g"),
        ...owned(await say(hold, "g", 1), "g"),
      },
      gone: [f[2]],
    };
  },
  "a fork of a fork, with both before it deleted, after gc": async (hold) => {
    const a = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(a[1], { id: "f" });
    const f = (await say(hold, "f")) as [string, string, string];
    await hold.sessions.fork(f[1], { id: "g" });
    for (const id of ["a", "f"]) await hold.sessions.delete(id);
    await hold.gc();
    return { hold, known: owned([...a.slice(0, 2), ...f.slice(0, 2)], "g"), gone: [a[2], f[2]] };
  },
  "a session made again": async (hold) => {
    const before = await say(hold, "a");
    const { id } = await hold.agents.snapshot("ann");
    const [later] = await say(hold, "a", 1);
    await hold.sessions.delete("a");
    await hold.agents.restore(id);
    return { hold, known: owned(before, "a"), gone: [later as string] };
  },
  "a session made again after gc, and gone on with": async (hold) => {
    const before = await say(hold, "a");
    const { id } = await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    await hold.gc();
    await hold.agents.restore(id);
    await hold.gc();
    return { hold, known: owned([...before, ...(await say(hold, "a", 1))], "a") };
  },
  "a session made again after it was pruned": async (hold) => {
    const [first, second, third] = (await say(hold, "a")) as [string, string, string];
    await hold.checkpoints.prune("a", { keep: 1 });
    const { id } = await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    await hold.agents.restore(id);
    return { hold, known: { [third]: "a" }, gone: [first, second] };
  },
  "a session that was not brought back": async (hold) => {
    const b = await say(hold, "b", 1);
    const gone = await say(hold, "a");
    // The snapshot keeps its line.
    await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    return { hold, known: owned(b, "b"), gone };
  },
  "a fork that was moved without its origin": async (hold, another) => {
    const [first, second] = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(second, { id: "f" });
    const own = await say(hold, "f", 1);
    const target = await another();
    await target.import(hold.export({ session: "f" }));
    return { hold: target, known: owned([first, second, ...own], "f") };
  },
  "a session that was rewound": async (hold) => {
    const a = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.rewind("a", a[0]);
    return { hold, known: owned([...a, ...(await say(hold, "a", 1))], "a") };
  },
  "a fork of a deleted session that was rewound": async (hold) => {
    const a = (await say(hold, "a")) as [string, string, string];
    await hold.sessions.fork(a[2], { id: "f" });
    const own = await say(hold, "f", 1);
    await hold.sessions.delete("a");
    await hold.sessions.rewind("f", a[0]);
    return { hold, known: owned([...a, ...own], "f") };
  },
};

/** What the calls of a session name, each checkpoint as it is told. */
async function named(hold: Holdfast, id: string): Promise<readonly Checkpoint[]> {
  const session = await hold.session(id);
  const { head } = session;
  await session.close();
  const latest = await hold.checkpoints.latest(id);
  expect(head).toEqual(latest);
  const pages = [
    await hold.checkpoints.list(id),
    await hold.checkpoints.list(id, { branches: "all" }),
  ];
  const { items } = (await tool(hold, "checkpoint_list", { session: id, branches: "all" })) as {
    items: readonly { id: string }[];
  };
  expect(items.map((item) => item.id)).toEqual(pages[1]?.items.map((item) => item.id));
  const told: Checkpoint[] = [...pages.flatMap((page) => page.items), ...(latest ? [latest] : [])];
  for await (const event of hold.sessions.events(id, { live: false }))
    if (event.type === "checkpoint") told.push(event.checkpoint);
  return told;
}

/** All checkpoints with their owners, from pages of two. */
async function listed(hold: Holdfast): Promise<Record<string, string>> {
  const items: Checkpoint[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list({
      branches: "all",
      limit: 2,
      ...(cursor !== undefined && { cursor }),
    });
    expect(page.damaged).toBeUndefined();
    items.push(...page.items);
    cursor = page.next;
    if (cursor === undefined) break;
  }
  const owners = Object.fromEntries(items.map(({ id, sessionId }) => [id, sessionId]));
  expect(Object.keys(owners)).toHaveLength(items.length);
  return owners;
}

const tool = async (hold: Holdfast, name: string, input: object): Promise<unknown> =>
  (hold.tools() as unknown as Record<string, { execute(input: object): Promise<unknown> }>)[
    name
  ]?.execute(input);

describe.each(stores)("checkpoints on $name", ({ address }) => {
  test.each(Object.keys(situations))("%s: what one call names, all others know", async (name) => {
    const make = situations[name] as (typeof situations)[string];
    const { hold, known, gone = [] } = await make(await at(address()), () => at(address()));
    const sessions = (await hold.sessions.list()).items;
    const told = new Map<string, Checkpoint>();
    for (const { id, forkPoint: origin } of sessions) {
      for (const checkpoint of await named(hold, id)) {
        expect(told.get(checkpoint.id) ?? checkpoint).toEqual(checkpoint);
        told.set(checkpoint.id, checkpoint);
      }
      if (origin !== undefined) expect(known).toHaveProperty(origin.checkpointId);
    }
    expect([...told.keys()].filter((id) => !(id in known))).toEqual([]);
    // Each comes once in the list of all, with the session that owns it.
    expect(await listed(hold)).toEqual(known);
    for (const [id, owner] of Object.entries(known)) {
      const checkpoint = (await hold.checkpoints.get(id)) as Checkpoint;
      expect(checkpoint, id).toMatchObject({ id, sessionId: owner });
      expect(told.get(id)).toEqual(checkpoint);
      expect(await hold.checkpoints.find(id)).toEqual([checkpoint]);
      expect(await hold.checkpoints.state(id)).toMatchObject({ checkpoint });
      expect(await hold.sessions.state(owner, { at: id })).toMatchObject({
        session: { id: owner },
      });
      expect((await hold.checkpoints.diff(id, id)).messages).toMatchObject({});
      // The oldest and the newest stand for all of them.
      if (id !== Object.keys(known)[0] && id !== Object.keys(known).at(-1)) continue;
      expect(await hold.sessions.fork(id, { id: "made" })).toMatchObject({
        forkPoint: { sessionId: owner, checkpointId: id },
      });
      await hold.sessions.rewind("made", id);
      await hold.sessions.delete("made");
      const session = await hold.session(owner);
      await (await session.fork(id, { id: "held" })).close();
      await session.close();
      await hold.sessions.delete("held");
      await tool(hold, "checkpoint_fork", { id, as: "tooled" });
      await hold.sessions.delete("tooled");
      expect(await tool(hold, "checkpoint_diff", { from: id, to: id })).toBeDefined();
    }
    const [some] = sessions;
    for (const id of gone) {
      expect(told.has(id), id).toBe(false);
      expect(await hold.checkpoints.get(id)).toBeUndefined();
      expect(await hold.checkpoints.find(id)).toEqual([]);
      for (const refused of [
        () => hold.checkpoints.state(id),
        () => hold.sessions.fork(id, { id: "made" }),
        () => hold.sessions.rewind(some?.id as string, id),
        () => hold.sessions.switchBranch(some?.id as string, id),
        () => hold.sessions.state(some?.id as string, { at: id }),
        () => tool(hold, "checkpoint_fork", { id, as: "tooled" }),
      ])
        await expect(refused()).rejects.toMatchObject(coded("NOT_FOUND"));
      expect(await hold.checkpoints.delete(id)).toEqual({ deleted: false, checkpoints: 0 });
    }
    expect(await hold.verify()).toMatchObject({ ok: true });
    // A session that is deleted tells how many checkpoints go with it. The others pass to an heir.
    for (let left = Object.keys(known).length; left > 0; ) {
      const { id } = (await hold.sessions.list({ limit: 1 })).items[0] as { id: string };
      const would = await hold.sessions.delete(id, { dryRun: true });
      const gone = await hold.sessions.delete(id, { key: id });
      expect(gone).toEqual(would);
      expect(await hold.sessions.delete(id, { key: id })).toEqual(gone);
      expect(await hold.sessions.delete(id)).toEqual({
        deleted: false,
        sessions: 0,
        checkpoints: 0,
        keptFor: [],
      });
      const after = Object.keys(await listed(hold)).length;
      expect(gone).toMatchObject({ deleted: true, sessions: 1, checkpoints: left - after });
      left = after;
    }
  });

  test("a session can be shown at, and go back to, every checkpoint that its list names, also what only a line it has left shares", async () => {
    const hold = await at(address());
    const a = await say(hold, "a");
    await hold.sessions.fork(a[1] as string, { id: "f" });
    await say(hold, "f", 1);
    await hold.sessions.rewind("f", a[0] as string);
    const { items } = await hold.checkpoints.list("f", { branches: "all" });
    expect(items.map(({ id }) => id)).toContain(a[1]);
    for (const { id } of items) {
      await hold.sessions.state("f", { at: id });
      await hold.sessions.rewind("f", id);
      expect(await hold.checkpoints.latest("f")).toMatchObject({ id });
    }
    await expect(hold.sessions.rewind("f", a[2] as string)).rejects.toMatchObject(
      coded("CONFLICT"),
    );
  });

  test("a checkpoint on a line without an owner is deleted, and pruned, by the session it belongs to", async () => {
    const hold = await at(address());
    const a = (await say(hold, "a", 5)) as [string, string, string, string, string];
    await hold.sessions.fork(a[3], { id: "f" });
    const [own] = (await say(hold, "f", 1)) as [string];
    await hold.sessions.delete("a");
    await hold.checkpoints.delete(a[1]);
    await expect(hold.checkpoints.delete(a[3])).rejects.toMatchObject(coded("CONFLICT"));
    expect((await hold.checkpoints.list("f")).items.map(({ id }) => id)).toEqual([
      own,
      a[3],
      a[2],
      a[0],
    ]);
    expect(await hold.checkpoints.prune("f", { keep: 1 })).toEqual({ removed: 2 });
    expect((await hold.checkpoints.list("f")).items.map(({ id }) => id)).toEqual([own, a[3]]);
    expect(await hold.checkpoints.get(a[2])).toBeUndefined();
    expect((await hold.sessions.state("f")).messages).toHaveLength(5);
    expect((await hold.checkpoints.state(a[3])).messages).toHaveLength(4);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });
});

test("the command line knows them by the beginning of their ids", async () => {
  const { address } = everyStore[1] as (typeof stores)[number];
  const place = address();
  const hold = await at(place);
  const { known } = await (
    situations["a fork of a deleted session"] as (typeof situations)[string]
  )(hold, () => at(address()));
  const cli = (...words: string[]) => run([...words, "--store", place], { cwd: "." });
  const [first, second] = Object.keys(known) as [string, string];
  const [line, seq] = second.split("-") as [string, string];
  const short = `${line.slice(0, 6)}-${seq}`;
  expect((await cli("log", "f", "--json")).stdout).toContain(first);
  expect((await cli("show", short, "--json")).stdout).toContain(second);
  expect(await cli("diff", first, short)).toMatchObject({ exit: 0 });
  expect(await cli("fork", short, "--id", "g")).toMatchObject({ exit: 0 });
  expect((await hold.sessions.get("g"))?.forkPoint).toEqual({
    sessionId: "f",
    checkpointId: second,
  });
});

test("a delete counts what goes, and reads no further back than that", async () => {
  const store = await openStore("memory:");
  let rows = 0;
  const counting = wrapped(store, {
    saves: async (line, query) => {
      const found = await store.saves(line, query);
      rows += found.length;
      return found;
    },
  });
  const hold = new Holdfast(counting, thisMachine(), { now: Date.now }, 30_000, { indexed: false });
  holds.push(hold);
  const ids = await say(hold, "a", 1_000);
  await hold.sessions.fork(ids[989] as string, { id: "b" });
  await hold.sessions.fork(ids[989] as string, { id: "c" });
  rows = 0;
  expect(await hold.sessions.delete("a", { dryRun: true })).toMatchObject({
    checkpoints: 10,
    keptFor: ["b", "c"],
  });
  expect(rows).toBeLessThan(300);
  await hold.sessions.delete("a");
  rows = 0;
  // The checkpoints of the past belong to it now, and another fork inherits them.
  expect(await hold.sessions.delete("b")).toMatchObject({ checkpoints: 0, keptFor: [] });
  expect(rows).toBeLessThan(300);
  expect(await hold.sessions.delete("c", { dryRun: true })).toMatchObject({ checkpoints: 990 });
});
