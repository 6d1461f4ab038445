/** Commands on a store of which one session is damaged: it is named, and stands in no other's way. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../src/index.js";
import { scratch } from "../support/stores.js";
import { run } from "./command.js";

const Database = createRequire(import.meta.url)("better-sqlite3") as new (
  path: string,
) => { exec(sql: string): void; close(): void };

/** Two sessions of four checkpoints. The newest save of "bad" is missing. */
async function damagedStore() {
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
  const db = new Database(path);
  db.exec("DELETE FROM save WHERE no = (SELECT max(no) FROM save)");
  db.close();
  return (...words: string[]) => run([...words, "--store", path, "--json"], { cwd });
}

test("prune --all with rules names a session that cannot be pruned", async () => {
  const cli = await damagedStore();
  const { stdout, exit } = await cli("prune", "--all", "--keep", "1", "--yes");
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
  const { stdout, exit } = await cli("rm", "bad", "--yes");
  expect(exit).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ sessions: [{ id: "bad", deleted: true }] });
  const { stdout: left } = await cli("ls");
  expect(JSON.parse(left)).toMatchObject({ items: [{ id: "good" }] });
  expect(JSON.parse(left)).not.toHaveProperty("damaged");
});
