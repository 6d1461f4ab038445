/**
 * Commands on a store of which one session is damaged: it is named, and stands in no other's way.
 */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../src/index.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { scratch } from "../support/stores.js";
import { run } from "./command.js";

/** Two sessions of four checkpoints. Then something is damaged. */
async function damagedStore(damage: (path: string) => void | Promise<void> = withoutLastSave) {
  const cwd = scratch();
  const path = join(cwd, "store.db");
  const hold = await open(path);
  for (const id of ["good", "bad"]) {
    const session = await hold.session(id);
    for (let n = 0; n < 4; n++) {
      session.set("n", n);
      await session.checkpoint();
    }
    await session.close();
  }
  await hold.close();
  await damage(path);
  return (...words: string[]) => run([...words, "--store", path], { cwd });
}

function withoutLastSave(path: string): void {
  const db = openDriver(path);
  db.exec("DELETE FROM save WHERE no = (SELECT max(no) FROM save)");
  db.close();
}

async function withAnchorsOfAnother(path: string): Promise<void> {
  const other = `${path}-other`;
  const hold = await open(other);
  await (await hold.session("a")).checkpoint();
  await hold.close();
  copyFileSync(`${other}-anchors`, `${path}-anchors`);
}

const clerk = {
  name: "clerk",
  model: async () => ({ content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] }),
  tools: { pay: { mode: "once" as const, approval: true, run: () => "paid" } },
};

test("prune --all with rules names a session that cannot be pruned", async () => {
  const cli = await damagedStore();
  const { stdout, exit } = await cli("prune", "--all", "--keep", "1", "--yes", "--json");
  expect(JSON.parse(stdout)).toMatchObject({
    sessions: 2,
    removed: 3,
    failed: [{ sessionId: "bad", code: "CORRUPT" }],
  });
  expect(exit).toBe(1);
});

test("rm deletes a damaged session by its id", async () => {
  const cli = await damagedStore();
  expect(await cli("rm", "ba", "--yes"), "only by the whole of it").toMatchObject({ exit: 3 });
  const { stdout, exit } = await cli("rm", "bad", "--yes", "--json");
  expect(exit).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ sessions: [{ id: "bad", deleted: true }] });
  const { stdout: left } = await cli("ls", "--json");
  expect(JSON.parse(left)).toMatchObject({ items: [{ id: "good" }] });
  expect(JSON.parse(left)).not.toHaveProperty("damaged");
});

test("rm refuses where the whole store is damaged, and not a session", async () => {
  const cli = await damagedStore(withAnchorsOfAnother);
  const { stderr, stdout, exit } = await cli("rm", "good", "--yes");
  expect(exit).toBe(5);
  expect(`${stdout}${stderr}`).toContain("belong to another store");
});

test("effects does not say that nothing waits, nor approve that there is no call, where that is not known", async () => {
  const cli = await damagedStore(async (path) => {
    const hold = await open(path);
    expect(await hold.agent(clerk).run("asks", "pay")).toMatchObject({ status: "waiting" });
    await hold.close();
    withoutLastSave(path);
  });
  const shown = await cli("effects", "--json");
  expect(JSON.parse(shown.stdout)).toMatchObject({ items: [], damaged: [{ id: "asks" }] });
  expect(await cli("approve", "asks")).toMatchObject({ exit: 5 });
  const words = await cli("effects");
  expect(words).toMatchObject({ exit: 0, stderr: expect.stringContaining("asks") });
  expect(words.stdout).not.toContain("Nothing waits");
});
