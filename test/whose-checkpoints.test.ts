/**
 * Whose a checkpoint is: of the session that owns its line; if that was deleted, of the oldest session whose past has it; else of none.
 * Whatever one call names, all others know.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Holdfast, open } from "../src/index.js";
import { coded } from "./support/processes.js";
import { stores } from "./support/stores.js";

const at = async (hold: Holdfast, id: string, ...labels: readonly string[]): Promise<string[]> => {
  const session = await hold.session(id, { agent: "clerk" });
  const made: string[] = [];
  for (const label of labels) {
    session.append({ role: "user", content: label });
    made.push((await session.checkpoint(label)).id);
  }
  await session.close();
  return made;
};

/** Each answers the session that is looked at. */
const situations: Readonly<Record<string, (hold: Holdfast, elsewhere: () => Promise<Holdfast>) => Promise<readonly [Holdfast, string]>>> = {
  plain: async (hold) => {
    await at(hold, "s", "a", "b");
    return [hold, "s"];
  },
  "a fork of a living session": async (hold) => {
    const [, b] = await at(hold, "s", "a", "b");
    await hold.fork(b as string, { id: "t" });
    return [hold, "t"];
  },
  "a fork of a deleted session": async (hold) => {
    const [, b] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    await hold.sessions.delete("s");
    return [hold, "t"];
  },
  "a fork of a fork, with the middle deleted": async (hold) => {
    const [, b] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    const [d] = await at(hold, "t", "d", "e");
    await hold.fork(d as string, { id: "u" });
    await hold.sessions.delete("t");
    await hold.gc();
    return [hold, "u"];
  },
  "a fork of a fork, with both deleted": async (hold) => {
    const [, b] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    const [d] = await at(hold, "t", "d", "e");
    await hold.fork(d as string, { id: "u" });
    await hold.sessions.delete("s");
    await hold.sessions.delete("t");
    await hold.gc();
    return [hold, "u"];
  },
  "made again by a restore": async (hold) => {
    await at(hold, "s", "a", "b");
    const { id } = await hold.agents.snapshot("clerk");
    await at(hold, "s", "c");
    await hold.sessions.delete("s");
    await hold.agents.restore(id);
    return [hold, "s"];
  },
  "made again by a restore, after gc and with a fork": async (hold) => {
    const [a] = await at(hold, "s", "a", "b");
    const { id } = await hold.agents.snapshot("clerk");
    await hold.fork(a as string, { id: "t" });
    await hold.sessions.delete("s");
    await hold.gc();
    await hold.agents.restore(id);
    return [hold, "s"];
  },
  "made again by a restore, after it was pruned": async (hold) => {
    await at(hold, "s", "a", "b", "c", "d");
    await hold.checkpoints.prune("s", { keep: 2 });
    const { id } = await hold.agents.snapshot("clerk");
    await hold.sessions.delete("s");
    await hold.agents.restore(id);
    return [hold, "s"];
  },
  "a fork of a deleted session, exported and imported": async (hold, elsewhere) => {
    const [, b] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    await hold.sessions.delete("s");
    const rows: string[] = [];
    for await (const row of hold.export()) rows.push(row);
    const other = await elsewhere();
    await other.import(rows);
    return [other, "t"];
  },
  "a rewound fork of a deleted session": async (hold) => {
    const [a, b] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    await at(hold, "t", "d");
    await hold.sessions.delete("s");
    await hold.rewind("t", a as string);
    return [hold, "t"];
  },
};

describe.each(stores)("checkpoints on $name", ({ address }) => {
  const opened: Holdfast[] = [];
  const start = async () => {
    const hold = await open(address());
    opened.push(hold);
    return hold;
  };
  let hold: Holdfast;
  beforeEach(async () => {
    hold = await start();
  });
  afterEach(async () => {
    for (const one of opened.splice(0)) await one.close();
  });

  test.each(Object.entries(situations))("%s: what one call names, all others know", async (name, make) => {
    const [here, id] = await make(hold, start);
    const { items } = await here.checkpoints.list(id);
    const all = (await here.checkpoints.list(id, { lines: "all" })).items;
    const latest = await here.checkpoints.latest(id);
    const session = await here.session(id);
    const { head } = session;
    await session.close();
    expect(items.length).toBeGreaterThan(0);
    expect(items[0]).toEqual(latest);
    expect(head?.id).toBe(latest?.id);
    // Only one that was pruned is still named as the parent of another.
    const wasPruned = name.endsWith("pruned");
    const parents = wasPruned ? [] : [...items, ...all].flatMap(({ parentId }) => parentId ?? []);
    const named = new Set([latest?.id, head?.id, ...parents, ...[...items, ...all].map((checkpoint) => checkpoint.id)]);
    let n = 0;
    for (const checkpoint of named) {
      const found = await here.checkpoints.get(checkpoint as string);
      expect(found, `${checkpoint}`).toBeDefined();
      // Whose it is, all say alike, and that session is there.
      for (const listed of [...items, ...all]) if (listed.id === checkpoint) expect(listed).toEqual(found);
      expect(await here.sessions.get(found?.sessionId as string)).toBeDefined();
      expect((await here.checkpoints.state(checkpoint as string)).checkpoint).toEqual(found);
      expect(await here.checkpoints.find(checkpoint as string)).toEqual([found]);
      expect((await here.sessions.state(id, { at: checkpoint as string })).messages.length).toBe(found?.messageCount);
      await here.fork(checkpoint as string, { id: `fork-${++n}` });
      expect((await here.checkpoints.latest(`fork-${n}`))?.id).toBe(checkpoint);
      await here.checkpoints.diff(checkpoint as string, latest?.id as string);
    }
    for (const checkpoint of [...items, ...all]) {
      await here.rewind(id, checkpoint.id);
      expect((await here.checkpoints.latest(id))?.id).toBe(checkpoint.id);
    }
    expect(await here.verify()).toMatchObject({ ok: true });
  });

  test("a checkpoint that no session's past has is unknown, and so are those behind a fork's beginning", async () => {
    const [a, b, c] = await at(hold, "s", "a", "b", "c");
    await hold.fork(b as string, { id: "t" });
    await hold.sessions.delete("s");
    expect(await hold.checkpoints.get(a as string)).toMatchObject({ sessionId: "t" });
    expect(await hold.checkpoints.get(c as string)).toBeUndefined();
    await expect(hold.checkpoints.state(c as string)).rejects.toMatchObject(coded("NOT_FOUND"));
    await expect(hold.fork(c as string, { id: "u" })).rejects.toMatchObject(coded("NOT_FOUND"));
    await hold.sessions.delete("t");
    for (const id of [a, b]) expect(await hold.checkpoints.get(id as string)).toBeUndefined();
  });
});
