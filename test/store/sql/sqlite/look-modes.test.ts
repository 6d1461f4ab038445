/**
 * Stores of which a process may read some files and not others: it looks at all it can, or says
 * which file it may not read.
 */
import { chmodSync, copyFileSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { open } from "../../../../src/index.js";
import { type Child, startPuppet } from "../../../support/children/child.mjs";
import { fresh } from "../../../support/places.js";

let reader: Child;
const made: string[] = [];

/** Root may read every file. So as root, the process that looks becomes another user. */
beforeAll(async () => {
  reader = startPuppet();
  if (process.getuid?.() === 0) await reader.ask({ do: "setuid", uid: 65_534 });
});
afterAll(() => reader.end());
afterEach(async () => {
  await reader.ask({ do: "close" });
  for (const directory of made.splice(0)) chmodSync(directory, 0o755);
});

const PARTS = ["", "-wal", "-shm", "-anchors"] as const;
type Part = (typeof PARTS)[number];

/**
 * Makes a store of two checkpoints. `killed`: with the files that a killed process leaves. `old`:
 * the file has only the first of them.
 */
async function store(how: "closed" | "killed" | "old"): Promise<string> {
  const [directory, draft] = [fresh(), join(fresh(), "store.db")];
  const path = join(directory, "store.db");
  made.push(directory);
  for (const round of [1, 2]) {
    const hold = await open(draft);
    const session = await hold.session("a");
    session.append({ role: "user", content: "words" });
    await session.checkpoint();
    if (how === "killed")
      for (const part of PARTS)
        if (existsSync(draft + part)) copyFileSync(draft + part, path + part);
    await hold.close();
    if (how === "closed" || (how === "old" && round === 1)) copyFileSync(draft, path);
    copyFileSync(`${draft}-anchors`, `${path}-anchors`);
  }
  return path;
}

/** Lets each user read the files of a store, and no user write them, or read these. */
function forbid(path: string, ...parts: Part[]): void {
  const directory = join(path, "..");
  for (const name of readdirSync(directory)) chmodSync(join(directory, name), 0o444);
  for (const part of parts) chmodSync(path + part, 0);
  chmodSync(directory, 0o555);
}

const isAll = { checkpoints: 2 };

test.each(["closed", "killed"] as const)(
  "a store that is read-only for its owner, too, left by a process that was %s",
  async (how) => {
    const path = await store(how);
    forbid(path);
    await reader.ask({ do: "open", path });
    expect(await reader.ask({ do: "list", session: "a" })).toMatchObject(isAll);
  },
);

test("a backup that is read-only for its owner, too", async () => {
  const path = join(fresh(), "store.db");
  made.push(join(path, ".."));
  const hold = await open(await store("closed"));
  await hold.backup(path);
  await hold.close();
  forbid(path);
  await reader.ask({ do: "open", path });
  expect(await reader.ask({ do: "list", session: "a" })).toMatchObject(isAll);
});

test("an empty file that is read-only shows no session", async () => {
  const path = join(fresh(), "store.db");
  made.push(join(path, ".."));
  writeFileSync(path, "");
  forbid(path);
  expect((await reader.ask({ do: "open", path })).error).toBeUndefined();
});

test.each(["closed", "killed"] as const)(
  "anchors that may not be read are gone without, and the look says so (%s)",
  async (how) => {
    const path = await store(how);
    forbid(path, "-anchors");
    await reader.ask({ do: "open", path });
    expect(await reader.ask({ do: "list", session: "a" })).toMatchObject(isAll);
    expect(await reader.ask({ do: "verify" })).toMatchObject({ ok: true });
    const { concerns } = await reader.ask({ do: "about" });
    expect(concerns).toContainEqual(
      expect.objectContaining({
        code: "ANCHORS_UNREAD",
        message: expect.stringContaining(`${path}-anchors`),
      }),
    );
  },
);

test("negative control: anchors that may be read tell a lost end", async () => {
  const path = await store("old");
  forbid(path);
  await reader.ask({ do: "open", path });
  expect(await reader.ask({ do: "verify" })).toMatchObject({ ok: false });
  const { concerns } = await reader.ask({ do: "about" });
  expect(concerns).not.toContainEqual(expect.objectContaining({ code: "ANCHORS_UNREAD" }));
});

test.each<Part>(["", "-wal", "-shm"])(
  "a file that may not be read (store.db%s) is named, with what to do",
  async (part) => {
    const path = await store("killed");
    forbid(path, part);
    const { error } = await reader.ask({ do: "open", path });
    expect(error).toMatchObject({
      code: "IO",
      details: { path: path + part },
      message: expect.stringMatching(
        /may not read ".*store\.db.*"\. Give it the permission, or run it as the user who owns the file\./,
      ),
    });
  },
);

test.each<Part>(["-wal", "-shm"])(
  "beside a file that may be written, one that may not (store.db%s): a look, and a write names it",
  async (part) => {
    const path = await store("killed");
    chmodSync(join(path, ".."), 0o777);
    for (const each of PARTS) chmodSync(path + each, 0o666);
    chmodSync(path + part, 0o444);
    await reader.ask({ do: "open", path });
    expect(await reader.ask({ do: "list", session: "a" })).toMatchObject(isAll);
    const { error } = await reader.ask({ do: "session", session: "b" });
    expect(error).toMatchObject({
      code: "IO",
      details: { path: path + part },
      message: expect.stringContaining(`store.db${part}`),
    });
  },
);
