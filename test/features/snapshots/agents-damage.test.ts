/**
 * D3: what is damaged of agents and their snapshots is told, stands in the way of nothing else, and
 * can be put right or deleted.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { type HoldfastError, open, type Snapshot } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { everyStore, stores } from "../../support/stores.js";

const code = (expected: string) =>
  expect.objectContaining({ code: expected }) as unknown as HoldfastError;

async function say(hold: Holdfast, id: string, agent: string, text: string): Promise<void> {
  const session = await hold.session(id, { agent });
  session.append({ role: "user", content: text });
  await session.checkpoint();
  await session.close();
}

const texts = async (hold: Holdfast, id: string) => {
  const session = await hold.session(id);
  const found = session.messages.map(({ content }) => content);
  await session.close();
  return found;
};

describe.each(stores)("damage on $name", ({ address }) => {
  let hold: Holdfast;
  let store: Store;
  afterEach(() => hold.close());
  const fresh = async () => {
    store = await openStore(address());
    hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
  };

  /**
   * What a changed bit makes of a document. Its pins stay; it is a version later, for no store has
   * to write the same one again.
   */
  async function damage(kind: string, id: string, from: string, to: string): Promise<void> {
    const row = await store.documents.get(kind, id);
    if (!row?.text.includes(from)) throw new Error(`there is no ${from} in ${kind} ${id}`);
    const { of, version, text, body } = row;
    await store.apply(
      [],
      [
        {
          kind,
          id,
          when: {},
          put: { of, version: version + 1, text: text.replace(from, to), body, pins: [] },
        },
      ],
    );
  }

  /** An agent whose record is at version 3 and damaged, with a snapshot of version 1. */
  async function damagedRecord(): Promise<Snapshot> {
    await fresh();
    await hold.agents.save({ id: "ann", system: "Help.", state: { n: 1 } });
    await say(hold, "a", "ann", "one");
    const snap = await hold.agents.snapshot("ann");
    await hold.agents.save({ id: "ann", state: { n: 2 } });
    await say(hold, "a", "ann", "two");
    await damage("agent", "ann", '"n":2', '"n":3');
    return snap;
  }

  test("a record that is damaged is not shown, and whoever asks is told what can be done", async () => {
    await damagedRecord();
    await expect(hold.agents.get("ann")).rejects.toMatchObject({
      code: "CORRUPT",
      message: expect.stringMatching(/restore.*save.*delete/i),
    });
    expect(await hold.agents.list()).toEqual({
      items: [],
      damaged: [{ id: "ann", message: expect.stringContaining("damaged") }],
    });
    await expect(hold.agents.snapshot("ann")).rejects.toEqual(code("CORRUPT"));
  });

  test("a save that names no version writes over it, from what it is given alone; one that names one does not", async () => {
    await damagedRecord();
    for (const version of [0, 2, 3, 4])
      await expect(hold.agents.save({ id: "ann", version, state: {} })).rejects.toEqual(
        code("CORRUPT"),
      );
    const saved = await hold.agents.save({ id: "ann", state: { n: 4 } });
    expect(saved).toMatchObject({ version: 4, name: "ann", state: { n: 4 } });
    expect(saved.system).toBeUndefined();
    expect(await hold.agents.get("ann")).toMatchObject({
      version: 4,
      state: { n: 4 },
      activeSessions: ["a"],
    });
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("of saves that race over it, each counts", async () => {
    await damagedRecord();
    const saves = await Promise.all(
      Array.from({ length: 4 }, (_, i) => hold.agents.save({ id: "ann", metadata: { i } })),
    );
    expect(saves.map(({ version }) => version).sort((a, b) => a - b)).toEqual([4, 5, 6, 7]);
  });

  test("it is deleted with all that the agent has", async () => {
    await damagedRecord();
    expect(await hold.agents.delete("ann")).toEqual({ sessions: 1, snapshots: 1, keptFor: [] });
    expect(await hold.agents.get("ann")).toBeUndefined();
    expect(await hold.sessions.get("a")).toBeUndefined();
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
  });

  test("RESTORE-3: a sound snapshot is restored over it; what was left of it is kept with the recovery, and said there", async () => {
    const snap = await damagedRecord();
    const { recovery, agent } = await hold.agents.restore(snap.id);
    expect(agent).toMatchObject({ version: 4, system: "Help.", state: { n: 1 } });
    expect(await hold.agents.get("ann")).toMatchObject({ version: 4, state: { n: 1 } });
    expect(await texts(hold, "a")).toEqual(["one"]);
    expect(recovery).toMatchObject({
      kind: "recovery",
      description: expect.stringContaining("damaged"),
      sessions: 1,
    });
    expect(recovery?.version).toBeUndefined();
    expect((await store.documents.get("snapshot", recovery?.id as string))?.body).toContain(
      '\\"n\\":3',
    );
    // Back to what could be read: the sessions. The record stays.
    await hold.agents.restore(recovery?.id as string);
    expect(await texts(hold, "a")).toEqual(["one", "two"]);
    expect(await hold.agents.get("ann")).toMatchObject({ version: 4, state: { n: 1 } });
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
  });

  test("a snapshot that is damaged is named apart, in the page it would stand in, and can be deleted with what it pins", async () => {
    await fresh();
    await say(hold, "a", "ann", "one");
    const [first, second, third] = [
      await hold.agents.snapshot("ann", { name: "first" }),
      await hold.agents.snapshot("ann", { name: "second" }),
      await hold.agents.snapshot("ann", { name: "third", kind: "automatic" }),
    ];
    await damage("snapshot", second.id, "second", "secund");
    const damaged = [{ id: second.id, message: expect.stringContaining("damaged") }];
    expect(await hold.agents.snapshots("ann")).toEqual({ items: [third, first], damaged });
    expect(await hold.agents.snapshots("ann", { kind: "manual" })).toEqual({
      items: [first],
      damaged,
    });
    const page = await hold.agents.snapshots("ann", { limit: 1 });
    expect(page).toEqual({ items: [third], next: expect.any(String) });
    expect(await hold.agents.snapshots("ann", { limit: 1, cursor: page.next as string })).toEqual({
      items: [first],
      damaged,
    });
    await expect(hold.agents.restore(second.id)).rejects.toEqual(code("CORRUPT"));
    for (const { id } of [first, second, third]) await hold.agents.deleteSnapshot(id);
    expect(await hold.agents.snapshots("ann")).toEqual({ items: [] });
    for (const { id } of await store.branches({ kind: "session", session: "a" }))
      expect(await store.documents.pins(id)).toEqual([]);
    await expect(hold.agents.deleteSnapshot(second.id)).rejects.toEqual(code("NOT_FOUND"));
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
  });
});

const directories = everyStore.filter(({ address }) => address().startsWith("dir:"));

/** Where a file is damaged, kind and name are known from its path, and nothing else. */
describe.each(directories)("damaged files on $name", ({ address }) => {
  let hold: Holdfast;
  afterEach(() => hold.close());

  const contents: Readonly<Record<string, (text: string) => string>> = {
    "another object": () => "{}",
    nothing: () => "",
    "one letter changed": (text) => text.replace('"of"', '"og"'),
    "half of it": (text) => text.slice(0, text.length / 2),
  };
  const damageFile = (root: string, kind: string, id: string, change: (text: string) => string) => {
    const path = join(root, "documents", kind, `${id}.json`);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, change(text));
    expect(readFileSync(path, "utf8")).not.toBe(text);
  };

  async function world() {
    const place = address();
    hold = await open(place);
    const snaps: Snapshot[] = [];
    for (const agent of ["ann", "bob"]) {
      await hold.agents.save({ id: agent, state: { n: 1 } });
      await say(hold, `s-${agent}`, agent, "one");
      const session = await hold.session(`s-${agent}`);
      // No checkpoint at its end: only the snapshot lets a line begin there.
      await session.effect("note", {}, { mode: "once", key: "k" }, async () => "noted");
      await session.close();
      snaps.push(await hold.agents.snapshot(agent));
      await say(hold, `s-${agent}`, agent, "two");
    }
    await hold.close();
    return {
      root: place.slice("dir:".length),
      place,
      ann: snaps[0] as Snapshot,
      bob: snaps[1] as Snapshot,
    };
  }

  test.each(Object.entries(contents))(
    "a snapshot of one agent (%s) stands in the way of no other's",
    async (_name, change) => {
      const { root, place, ann, bob } = await world();
      damageFile(root, "snapshot", bob.id, change);
      hold = await open(place);
      const damaged = [{ id: bob.id, message: expect.stringContaining("damaged") }];
      expect(await hold.agents.snapshots("ann")).toEqual({ items: [ann], damaged });
      expect(await hold.agents.snapshots("bob")).toEqual({ items: [], damaged });
      const { recovery } = await hold.agents.restore(ann.id);
      expect(await texts(hold, "s-ann")).toEqual(["one"]);
      expect(recovery?.id).not.toBe(bob.id);
      await hold.agents.deleteSnapshot(ann.id);
      expect(await hold.agents.delete("ann")).toEqual({ sessions: 1, snapshots: 1, keptFor: [] });
      expect(await hold.agents.get("ann")).toBeUndefined();
      // What it keeps is not known: nothing is freed before it is deleted.
      expect(readdirSync(join(root, "documents", "snapshot"))).toEqual([`${bob.id}.json`]);
      await expect(hold.gc()).rejects.toEqual(code("CORRUPT"));
      await hold.agents.deleteSnapshot(bob.id);
      expect(await hold.agents.snapshots("bob")).toEqual({ items: [] });
      expect((await hold.gc()).saves).toBeGreaterThan(0);
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
      // Once more, by somebody who reads all of it anew.
      await hold.close();
      hold = await open(place);
      expect(await hold.agents.snapshots("bob")).toEqual({ items: [] });
    },
  );

  test.each(Object.entries(contents))(
    "a record (%s) is saved over, restored over, and deleted",
    async (_name, change) => {
      const { root, place, ann } = await world();
      for (const agent of ["ann", "bob"]) damageFile(root, "agent", agent, change);
      hold = await open(place);
      await expect(hold.agents.get("ann")).rejects.toEqual(code("CORRUPT"));
      expect((await hold.agents.list()).damaged?.map(({ id }) => id).toSorted()).toEqual([
        "ann",
        "bob",
      ]);
      const { recovery } = await hold.agents.restore(ann.id);
      expect(await hold.agents.get("ann")).toMatchObject({ version: 2, state: { n: 1 } });
      expect(recovery?.description).toContain("damaged");
      expect(await hold.agents.save({ id: "bob", state: { n: 2 } })).toMatchObject({ version: 1 });
      await hold.close();
      damageFile(root, "agent", "bob", change);
      hold = await open(place);
      expect((await hold.agents.list()).items.map(({ id }) => id)).toEqual(["ann"]);
      await hold.agents.delete("bob");
      expect(await hold.agents.get("bob")).toBeUndefined();
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    },
  );

  test.each(Object.entries(contents))(
    "a record (%s) pins nothing: what is of others is pruned, redacted and freed",
    async (_name, change) => {
      const { root, place } = await world();
      damageFile(root, "agent", "bob", change);
      hold = await open(place);
      await hold.checkpoints.prune("s-ann", { keep: 1 });
      await hold.sessions.redact("s-ann", "one");
      await hold.sessions.delete("s-ann");
      await hold.gc();
      // A snapshot that is damaged may keep any of it.
      await hold.close();
      for (const name of readdirSync(join(root, "documents", "snapshot")))
        damageFile(root, "snapshot", name.replace(".json", ""), change);
      hold = await open(place);
      await expect(hold.gc()).rejects.toEqual(code("CORRUPT"));
      await expect(hold.checkpoints.prune("s-bob", { keep: 1 })).rejects.toEqual(code("CORRUPT"));
      await expect(hold.sessions.redact("s-bob", "one")).rejects.toEqual(code("CORRUPT"));
    },
  );

  test.each(Object.entries(contents))(
    "a session is deleted beside a damaged snapshot (%s); what it leaves is freed later",
    async (_name, change) => {
      const { root, place, ann, bob } = await world();
      damageFile(root, "snapshot", bob.id, change);
      hold = await open(place);
      expect(await hold.sessions.delete("s-ann")).toMatchObject({
        deleted: true,
        keptFor: [],
        snapshots: [ann.id],
      });
      expect(await hold.sessions.delete("s-bob")).toMatchObject({ deleted: true, keptFor: [] });
      expect((await hold.sessions.list()).items).toEqual([]);
      await expect(hold.gc()).rejects.toEqual(code("CORRUPT"));
      await hold.agents.deleteSnapshot(bob.id);
      await hold.agents.restore(ann.id);
      expect(await texts(hold, "s-ann")).toEqual(["one"]);
      expect((await hold.gc()).saves).toBeGreaterThan(0);
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    },
  );

  test("a record whose id is no plain name is named by its id, where what is left of it tells it, and deleted by it", async () => {
    const place = address();
    const ids = ["Desk Bot", 'a "quoted\\" one', "ünï/cødé"];
    hold = await open(place);
    for (const id of ids) await hold.agents.save({ id });
    await hold.close();
    const directory = join(place.slice("dir:".length), "documents", "agent");
    for (const name of readdirSync(directory))
      damageFile(place.slice("dir:".length), "agent", name.replace(".json", ""), (text) =>
        text.slice(0, -20),
      );
    hold = await open(place);
    const { damaged } = await hold.agents.list();
    expect(damaged?.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) await hold.agents.delete(id);
    expect(await hold.agents.list()).toEqual({ items: [] });
    // One that tells another's id is not taken for it.
    await hold.agents.save({ id: "Desk Bot" });
    await hold.close();
    const [file] = readdirSync(directory) as [string];
    damageFile(place.slice("dir:".length), "agent", file.replace(".json", ""), (text) =>
      text.replace('"id": "Desk Bot"', '"id": "Desk Bat"'),
    );
    hold = await open(place);
    expect((await hold.agents.list()).damaged?.map(({ id }) => id)).toEqual([
      file.replace(".json", ""),
    ]);
  });

  test("PORT-8: no document has the number of one that was damaged", async () => {
    const { root, place, bob } = await world();
    const store = await openStore(place);
    const last = (await store.documents.get("snapshot", bob.id))?.no as number;
    await store.close();
    damageFile(root, "snapshot", bob.id, () => "{}");
    hold = await open(place);
    await hold.agents.deleteSnapshot(bob.id);
    const { id } = await hold.agents.snapshot("bob");
    await hold.close();
    const again = await openStore(place);
    expect((await again.documents.get("snapshot", id))?.no).toBeGreaterThan(last);
    await again.close();
  });
});
