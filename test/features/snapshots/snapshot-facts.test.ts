/** Facts about snapshots: how many there are, how large each is, and its digest. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import {
  type Holdfast,
  type MessageInput,
  open,
  restoreBackup,
  type Snapshot,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { SNAPSHOT } from "../../../src/store/port/documents.js";
import { scratch, stores } from "../../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});
async function fresh(place: string): Promise<Holdfast> {
  const hold = await open(place);
  opened.push(hold);
  return hold;
}

const messages = (id: string): readonly MessageInput[] => [
  { role: "user", content: `in ${id}` },
  { role: "user", content: "an aside" },
];

async function withTwoSessions(
  place: string,
): Promise<{ readonly hold: Holdfast; readonly snap: Snapshot }> {
  const hold = await fresh(place);
  await hold.agents.save({ id: "ann", state: { mood: "señorial" } });
  for (const id of ["s1", "s2"])
    await hold.sessions.append(id, messages(id), {
      create: true,
      agent: "ann",
      title: `Title of ${id}`,
    });
  return { hold, snap: await hold.agents.snapshot("ann", { name: "first" }) };
}

/** What the list, and a look at the one, tell of a snapshot. */
async function shown(hold: Holdfast, id: string): Promise<Snapshot> {
  const { items } = await hold.agents.snapshots("ann");
  const listed = items.find((snapshot) => snapshot.id === id) as Snapshot;
  expect(await hold.agents.getSnapshot(id)).toEqual(listed);
  return listed;
}

describe.each(stores)("snapshots on $name", ({ address, traits }) => {
  test("stats counts them: made, restored, deleted, and with their agent", async () => {
    const { hold, snap } = await withTwoSessions(address());
    expect(await hold.stats()).toMatchObject({ agents: 1, sessions: 2, snapshots: 1 });
    await hold.agents.restore(snap.id);
    expect((await hold.stats()).snapshots).toBe(2);
    await hold.agents.deleteSnapshot(snap.id);
    expect((await hold.stats()).snapshots).toBe(1);
    await hold.agents.save({ id: "bob" });
    await hold.agents.snapshot("bob");
    expect((await hold.stats()).snapshots).toBe(2);
    await hold.agents.delete("ann");
    expect((await hold.stats()).snapshots).toBe(1);
  });

  test("size and digest are those of the stored text, and a second process sees the same", async () => {
    const place = address();
    const { hold, snap } = await withTwoSessions(place);
    expect(await shown(hold, snap.id)).toEqual(snap);
    // The same record and the same sessions: the same digest, under other words.
    const twin = await hold.agents.snapshot("ann", {
      name: "second",
      kind: "pre-operation",
      metadata: { by: "me" },
    });
    expect([twin.digest, twin.sizeBytes]).toEqual([snap.digest, snap.sizeBytes]);
    await hold.sessions.append("s1", [{ role: "user", content: "more" }]);
    expect((await hold.agents.snapshot("ann")).digest).not.toBe(snap.digest);
    if (!traits.durable) return;
    await hold.close();
    const store = await openStore(place);
    const body = (await store.documents.get(SNAPSHOT, snap.id))?.body as string;
    await store.close();
    expect(snap.sizeBytes).toBe(Buffer.byteLength(body));
    expect(snap.digest).toBe(createHash("sha256").update(body).digest("base64url"));
    expect(await shown(await fresh(place), snap.id)).toEqual(snap);
  });

  test("a redaction that changes a title in a snapshot changes its size and digest; one that changes a message does not", async () => {
    const { hold, snap } = await withTwoSessions(address());
    await hold.sessions.redact("s2", "an aside");
    expect(await shown(hold, snap.id)).toEqual(snap);
    await hold.sessions.redact("s1", "Title of s1");
    const after = await shown(hold, snap.id);
    expect(after.digest).not.toBe(snap.digest);
    expect(after.sizeBytes).not.toBe(snap.sizeBytes);
    expect((await hold.verify()).ok).toBe(true);
    expect((await hold.agents.restore(snap.id)).snapshot).toEqual(after);
  });
});

test("a backup holds the same snapshots; a snapshot of what was imported has the digest of the one before the export", async () => {
  const directory = scratch();
  const { hold, snap } = await withTwoSessions(join(directory, "a.db"));
  await hold.backup(join(directory, "copy.db"));
  await restoreBackup(join(directory, "copy.db"), join(directory, "b.db"));
  expect(await shown(await fresh(join(directory, "b.db")), snap.id)).toEqual(snap);
  const other = await fresh(join(directory, "c.db"));
  await other.import(hold.export());
  expect((await other.stats()).snapshots).toBe(0);
  const taken = await other.agents.snapshot("ann");
  expect([taken.digest, taken.sizeBytes]).toEqual([snap.digest, snap.sizeBytes]);
});

test("a restore that is asked for again, after its snapshot was deleted, answers without the digest", async () => {
  const { hold, snap } = await withTwoSessions("memory:");
  await hold.agents.restore(snap.id, { key: "k" });
  await hold.agents.deleteSnapshot(snap.id);
  const { name: _name, ...rest } = snap;
  expect((await hold.agents.restore(snap.id, { key: "k" })).snapshot).toEqual({
    ...rest,
    digest: "",
    metadata: {},
  });
});
