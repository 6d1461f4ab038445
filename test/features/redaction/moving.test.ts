/** What was redacted is moved as it is; what was exported before does not bring it back. */
import { describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.js";
import { filesWith } from "../../support/bytes.js";
import { stores } from "../../support/stores.js";

const SECRET = "Peregrine-Ashdown-31207";

async function fill(hold: Holdfast): Promise<{ readonly early: string; readonly late: string }> {
  const session = await hold.session("p");
  session.append({ role: "user", content: `I am ${SECRET}` });
  session.set("who", SECRET);
  session.set("big", `${SECRET} ${"x".repeat(9_000)}`);
  const { id: early } = await session.checkpoint(`of ${SECRET}`);
  session.append({ role: "assistant", content: `hello ${SECRET}` });
  const { id: late } = await session.checkpoint();
  await session.close();
  return { early, late };
}

async function exported(hold: Holdfast, session?: string): Promise<readonly string[]> {
  const rows: string[] = [];
  for await (const row of hold.export(session === undefined ? undefined : { session }))
    rows.push(row);
  return rows;
}

const textOf = async (hold: Holdfast, id: string): Promise<string> => {
  const session = await hold.session(id);
  await session.close();
  return JSON.stringify([
    session.messages.map(({ content }) => content),
    session.state,
    session.head?.label,
  ]);
};

describe.each(stores)("moving what was redacted, on $name", ({ name, address }) => {
  const isOnDisk = name === "sqlite" || name === "dir";

  test("an export of a redacted session is taken in as it is, and verifies; twice, it is known", async () => {
    const from = await open(address());
    const { early } = await fill(from);
    await from.sessions.fork(early, { id: "f" });
    await from.sessions.redact("p", SECRET);
    const rows = await exported(from);
    expect(rows.join("")).not.toContain(SECRET);
    const at = address();
    const to = await open(at);
    expect((await to.import(rows)).conflicts).toEqual([]);
    expect((await to.import(rows)).sessions.map(({ outcome }) => outcome)).toEqual([
      "known",
      "known",
    ]);
    expect((await to.verify()).findings).toEqual([]);
    for (const id of ["p", "f"]) expect(await textOf(to, id)).toBe(await textOf(from, id));
    // It can be pruned and redacted there like any other.
    await to.checkpoints.prune("p", { keep: 1 });
    expect((await to.sessions.redact("p", "hello")).records).toBe(1);
    expect((await to.verify()).findings).toEqual([]);
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    await from.close();
    await to.close();
  });

  test("an older export does not bring it back: not to a session that is there, nor to what is kept of one that was deleted", async () => {
    const at = address();
    const hold = await open(at);
    const { early, late } = await fill(hold);
    await hold.sessions.fork(early, { id: "f" });
    await hold.sessions.fork(late, { id: "g" });
    const g = await hold.session("g");
    g.append({ role: "user", content: `copied: ${SECRET}` });
    await g.checkpoint();
    await g.close();
    const old = await exported(hold);
    const oldP = await exported(hold, "p");
    await hold.sessions.delete("g");
    await hold.sessions.redact("p", SECRET);
    await hold.gc();
    // A fork that is not there any more began on what is redacted now, and may hold it too: it is
    // refused.
    const again = await hold.import(old);
    expect(again.sessions).toEqual([
      { id: "p", outcome: "known" },
      { id: "f", outcome: "known" },
    ]);
    expect(again.conflicts).toEqual([
      { id: "g", code: "CONFLICT", message: expect.stringContaining("redacted here") },
    ]);
    expect(await textOf(hold, "p")).not.toContain(SECRET);
    // Of a session that was deleted the shared part is kept for a fork. What came after would
    // follow it, with the text.
    await hold.sessions.delete("p");
    const third = await hold.import(oldP);
    expect(third.conflicts).toEqual([
      { id: "p", code: "CONFLICT", message: expect.stringContaining("redacted here") },
    ]);
    expect((await hold.verify()).findings).toEqual([]);
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    expect(await textOf(hold, "f")).toContain("[redacted]");
    await hold.close();
  });

  test("negative control: where nothing was redacted, the same import brings all of it", async () => {
    const hold = await open(address());
    const { early, late } = await fill(hold);
    await hold.sessions.fork(early, { id: "f" });
    await hold.sessions.fork(late, { id: "g" });
    const g = await hold.session("g");
    g.append({ role: "user", content: "more" });
    await g.checkpoint();
    await g.close();
    const old = await exported(hold);
    await hold.sessions.delete("g");
    await hold.sessions.delete("p");
    await hold.gc();
    expect((await hold.import(old)).conflicts).toEqual([]);
    expect(await textOf(hold, "p")).toContain(SECRET);
    await hold.close();
  });

  test("a session that was deleted after its shared part was redacted does not come back with its title, tags and metadata", async () => {
    const hold = await open(address());
    const session = await hold.session("p", { tags: [SECRET], metadata: { of: SECRET } });
    session.append({ role: "user", content: `I am ${SECRET}` });
    const { id } = await session.checkpoint();
    await session.close();
    const old = await exported(hold, "p");
    await hold.sessions.fork(id, { id: "f" });
    await hold.sessions.fork(id, { id: "g" });
    // One that said nothing of its own has a title all the same.
    const oldG = await exported(hold, "g");
    const redactsNothing = async () => {
      await hold.sessions.delete("p");
      expect((await hold.import(old)).conflicts).toEqual([]);
      expect(await hold.sessions.get("p")).toMatchObject({
        title: `I am ${SECRET}`,
        tags: [SECRET],
      });
    };
    // Negative control.
    await redactsNothing();
    await hold.sessions.redact("p", SECRET, { scrub: false });
    for (const gone of ["p", "g"]) await hold.sessions.delete(gone);
    for (const [gone, rows] of [["p", old] as const, ["g", oldG] as const]) {
      const refused = [
        { id: gone, code: "CONFLICT", message: expect.stringContaining("redacted here") },
      ];
      expect((await hold.import(rows, { dryRun: true })).conflicts).toEqual(refused);
      expect((await hold.import(rows)).conflicts).toEqual(refused);
      expect(await hold.sessions.get(gone)).toBeUndefined();
    }
    expect(await textOf(hold, "f")).toBe('[["I am [redacted]"],{},null]');
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });
});
