/**
 * What agents' snapshots say of sessions is redacted with them, and what a dry run says would be
 * left is left.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import type { Snapshot } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { filesWith } from "../../support/bytes.js";
import { stores } from "../../support/stores.js";

const SECRET = "Zephyrine-40417";

describe.each(stores)("redaction and snapshots on $name", ({ name, address }) => {
  const isOnDisk = name === "sqlite" || name === "dir";
  let at: string;
  let store: Store;
  let hold: Holdfast;
  beforeEach(async () => {
    at = address();
    store = await openStore(at);
    hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
  });
  afterEach(() => hold.close());

  const body = async ({ id }: Snapshot) => (await store.documents.get("snapshot", id))?.body ?? "";
  const titles = async () =>
    Object.fromEntries((await hold.sessions.list()).items.map(({ id, title }) => [id, title]));

  /**
   * A session whose first words are its title, with a fork of it, a fork that is deleted, and a
   * session that says the same.
   */
  async function family(): Promise<Snapshot> {
    const session = await hold.session("c", { agent: "ann" });
    session.append({ role: "user", content: `my ${SECRET} is out`, id: "m1" });
    const { id } = await session.checkpoint();
    await session.close();
    await hold.sessions.fork(id, { id: "fork" });
    await hold.sessions.fork(id, { id: "gone" });
    const same = await hold.session("same", { agent: "ann" });
    same.append({ role: "user", content: `my ${SECRET} is out` });
    await same.checkpoint();
    await same.close();
    const snap = await hold.agents.snapshot("ann");
    await hold.sessions.delete("gone");
    return snap;
  }

  test("a function that would change its own words again is run over a snapshot once", async () => {
    const snap = await family();
    await hold.sessions.redact("c", (text) => text.replace(SECRET, `${SECRET}, more`));
    expect(await body(snap)).toContain(`my ${SECRET}, more is out`);
    expect(await body(snap)).not.toContain("more, more");
  });

  test.each([
    ["a message", { message: "m1" }, "[redacted]"],
    ["a text", SECRET, "my [redacted] is out"],
  ] as const)(
    "titles of forks in snapshots go with those of the session: %s",
    async (_name, what, title) => {
      const snap = await family();
      const dry = await hold.sessions.redact("c", what, { dryRun: true });
      expect(await body(snap)).toContain(SECRET);
      const report = await hold.sessions.redact("c", what);
      expect(dry).toMatchObject({ outside: true, sharedWith: ["fork"] });
      expect(report).toMatchObject({ outside: true, sharedWith: ["fork"] });
      // It was not shared with this one, which only says the same: it is for itself to be redacted.
      expect((await body(snap)).split(SECRET)).toHaveLength(2);
      await hold.sessions.redact("same", SECRET);
      expect(await body(snap)).not.toContain(SECRET);
      for (const id of ["c", "fork", "same"]) await hold.sessions.delete(id);
      await hold.agents.restore(snap.id);
      expect(await titles()).toEqual({
        c: title,
        fork: title,
        gone: title,
        same: "my [redacted] is out",
      });
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
      if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    },
  );

  test("a snapshot that is damaged does not stop it, and is named; a dry run says the same", async () => {
    const snap = await family();
    const row = await store.documents.get("snapshot", snap.id);
    if (row === undefined) throw new Error("no snapshot");
    const { of, version, text } = row;
    const put = { of, version: version + 1, text, body: `${row.body} `, pins: [] };
    await store.apply([], [{ kind: "snapshot", id: snap.id, when: {}, put }]);
    await hold.agents.save({ id: "ann", system: `Help ${SECRET}.` });
    const dry = await hold.sessions.redact("c", SECRET, { dryRun: true, scrub: false });
    const { left, records } = await hold.sessions.redact("c", SECRET, { scrub: false });
    expect(records).toBe(1);
    expect(left).toEqual([
      expect.stringContaining('agent "ann"'),
      expect.stringContaining(snap.id),
      expect.stringContaining("files"),
    ]);
    expect(dry.left).toEqual(left);
    // Negative control: a dry run of what is nowhere says that nothing would be left.
    await hold.agents.deleteSnapshot(snap.id);
    expect((await hold.sessions.redact("c", "nowhere", { dryRun: true })).left).toEqual([]);
  });
});
