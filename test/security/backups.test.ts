/**
 * A SQLite file from elsewhere may hold code. None of it runs, and nothing is put aside for a
 * file that is refused.
 */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { open, restoreBackup } from "../../src/index.js";
import { migrate } from "../../src/migrate/index.js";
import { translate } from "../../src/store/sql/sqlite/driver/committer.js";
import { defaultDriver, openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { PAGE_BYTES } from "../../src/store/sql/sqlite/driver/schema.js";
import { checkFile } from "../../src/store/sql/sqlite/files/check-thread.js";
import { errorOf } from "../support/error-of.js";
import { scratch } from "../support/stores.js";

/** A query that never ends. */
const ENDLESS =
  "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
const asView = (table: string, columns: string, query: string): string =>
  `ALTER TABLE ${table} RENAME TO ${table}_kept; CREATE VIEW ${table} (${columns}) AS ${query}`;

/** Another text in the schema, of the same length, as a hex editor would put it there. */
type Reworded = readonly [from: string, to: string];
const reworded = (from: string, to: string): Reworded => [from, to];

const hostile: Readonly<Record<string, string | Reworded>> = {
  "an extra table": "CREATE TABLE extra (x)",
  "an extra index": "CREATE INDEX extra ON session (head)",
  "a trigger": "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM session; END",
  "a trigger on what opening writes":
    "CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM session; END",
  "a view": "CREATE VIEW v AS SELECT * FROM session",
  "an endless view in the place of the sessions": asView(
    "session",
    "no, status",
    ENDLESS.replace("count(*)", "i, 'x'"),
  ),
  "an endless view in the place of the settings": asView(
    "meta",
    "key, value",
    ENDLESS.replace("count(*)", "'store', i"),
  ),
  "an endless trigger": `CREATE TRIGGER t AFTER UPDATE ON meta BEGIN INSERT INTO used SELECT 'x', (${ENDLESS}); END`,
  "a virtual table": "CREATE VIRTUAL TABLE v USING fts5(words)",
  "a generated column": "ALTER TABLE used ADD COLUMN g AS (no + 1)",
  "an index over an expression": "CREATE INDEX odd ON session (length(head))",
  "a partial index over an expression": "CREATE INDEX odd ON session (no) WHERE length(head) > 1",
  "another default": reworded("due INTEGER NOT NULL,", "due INT DEFAULT 1   ,"),
  "another check": reworded("PRIMARY KEY, no INTEGER NOT NULL", "PRIMARY KEY, no INTEGER CHECK(1)"),
  "another name": "ALTER TABLE cut_branch RENAME TO cut_branches",
  "a table less": "DROP TABLE unindexed",
  "an index less": "DROP INDEX session_by_wake",
};

let directory: string;
let honest: string;

beforeAll(async () => {
  directory = scratch();
  honest = join(directory, "honest.backup");
  const hold = await open(join(directory, "origin.db"));
  const session = await hold.session("kept");
  session.append({ role: "user", content: "kelp" });
  await session.checkpoint();
  await session.close();
  await hold.backup(honest);
  await hold.close();
});

let made = 0;
function place(): string {
  made += 1;
  const own = join(directory, `place-${made}`);
  mkdirSync(own);
  return own;
}

/** A copy of a backup with something more in it, or with another text in its schema. */
function forged(change: string | Reworded, of = honest): string {
  const file = join(place(), "forged.backup");
  copyFileSync(of, file);
  if (typeof change !== "string") {
    const [from, to] = change;
    const bytes = readFileSync(file);
    const at = bytes.indexOf(from);
    expect([at > 0, from.length]).toEqual([true, to.length]);
    bytes.write(to, at);
    writeFileSync(file, bytes);
    return file;
  }
  return run(file, change);
}

function run(file: string, sql: string): string {
  const db = openDriver(file);
  try {
    db.exec(`PRAGMA journal_mode = MEMORY; ${sql}`);
  } finally {
    db.close();
  }
  return file;
}

async function goodStore(): Promise<string> {
  const to = join(place(), "store.db");
  await restoreBackup(honest, to);
  const hold = await open(to);
  await hold.close();
  return to;
}

const bytesIn = (file: string): string => readFileSync(file).toString("base64");

describe("a backup from elsewhere", () => {
  let good: string;
  let before: string;
  beforeAll(async () => {
    good = await goodStore();
    before = bytesIn(good);
  });

  test.each(Object.entries(hostile))(
    "%s is refused, and the good store stays in its place",
    async (_what, sql) => {
      const backup = forged(sql);
      const began = performance.now();
      expect(await errorOf(() => restoreBackup(backup, good, { force: true }))).toMatchObject({
        code: "CORRUPT",
      });
      expect(performance.now() - began).toBeLessThan(5_000);
      expect(bytesIn(good)).toBe(before);
      expect(readdirSync(join(good, "..")).filter((name) => /replaced|draft/.test(name))).toEqual(
        [],
      );
      // Nothing is made where there was nothing, either.
      const nowhere = join(place(), "store.db");
      expect(await errorOf(() => restoreBackup(backup, nowhere))).toMatchObject({
        code: "CORRUPT",
      });
      expect(existsSync(nowhere)).toBe(false);
    },
  );

  test("the honest one is restored, and the good store is put aside", async () => {
    const to = await goodStore();
    const { setAside } = await restoreBackup(honest, to, { force: true });
    expect(existsSync(setAside as string)).toBe(true);
    const hold = await open(to);
    expect((await hold.sessions.list()).items.map(({ id }) => id)).toEqual(["kept"]);
    await hold.close();
  });
});

describe("a backup of another length than it says", () => {
  const TAIL = 8 * 1024 * 1024;

  /** What lies beside a store that is being restored, as often as can be seen. */
  async function restoring(backup: string): Promise<{ error: unknown; largest: number }> {
    const own = place();
    const sizes = () =>
      readdirSync(own).map(
        (name) => statSync(join(own, name), { throwIfNoEntry: false })?.size ?? 0,
      );
    let largest = 0;
    const watch = setInterval(() => {
      largest = Math.max(largest, ...sizes());
    }, 0);
    try {
      const error = await errorOf(() => restoreBackup(backup, join(own, "store.db")));
      return { error, largest: Math.max(largest, ...sizes()) };
    } finally {
      clearInterval(watch);
    }
  }

  test.each([
    ["a sparse tail", (bytes: number) => bytes + TAIL],
    ["one byte more", (bytes: number) => bytes + 1],
    ["a page less", (bytes: number) => bytes - PAGE_BYTES],
  ])("%s is refused before anything is copied", async (_what, to) => {
    const file = join(place(), "odd.backup");
    copyFileSync(honest, file);
    truncateSync(file, to(statSync(file).size));
    const { error, largest } = await restoring(file);
    expect(error).toMatchObject({
      code: "CORRUPT",
      message: expect.stringContaining("Nothing was copied"),
    });
    expect(largest).toBe(0);
  });

  test("the number of pages does not count where another change wrote it", async () => {
    const file = join(place(), "odd.backup");
    const bytes = readFileSync(honest);
    bytes.writeUInt32BE(bytes.readUInt32BE(24) + 1, 24);
    writeFileSync(file, bytes);
    expect((await restoring(file)).error).toMatchObject({ code: "CORRUPT" });
  });
});

describe("the check of a file in a thread", () => {
  test("what SQLite threw is told in its words", async () => {
    const file = join(place(), "odd.backup");
    const bytes = readFileSync(honest);
    bytes.fill(0xff, 100, 108);
    writeFileSync(file, bytes);
    const error = await errorOf(() => checkFile(file, defaultDriver()));
    expect(error).toBeInstanceOf(Error);
    const said = translate(error);
    expect(said).toMatchObject({ code: "CORRUPT", details: { path: file } });
    expect(said.message).toContain("malformed");
    expect(said.message).not.toContain("[object");
    await checkFile(honest, defaultDriver());
  });
});

describe("a file that is opened as a store", () => {
  test.each(Object.entries(hostile))(
    "%s is refused, and the file stays as it is",
    async (_what, sql) => {
      const file = forged(sql);
      const before = bytesIn(file);
      const began = performance.now();
      expect(await errorOf(() => open(file))).toMatchObject({ code: "CORRUPT" });
      expect(performance.now() - began).toBeLessThan(5_000);
      expect(bytesIn(file)).toBe(before);
    },
  );
});

describe("what stands beside a store, and what is imported", () => {
  test("a search index with a trigger is made anew", async () => {
    const file = await goodStore();
    const search = async () => {
      const hold = await open(file);
      const found = (await hold.sessions.search("kelp")).items.map(({ sessionId }) => sessionId);
      await hold.sessions.index();
      await hold.close();
      return found;
    };
    expect(await search()).toEqual(["kept"]);
    run(`${file}-search`, "CREATE TRIGGER t AFTER INSERT ON doc BEGIN DELETE FROM doc; END");
    expect(await search()).toEqual(["kept"]);
    const db = openDriver(`${file}-search`);
    expect(db.prepare("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'").get()).toEqual([
      0,
    ]);
    db.close();
  });

  test.each([
    ["a view", `CREATE VIEW checkpoints AS ${ENDLESS}`],
    [
      "a column that is computed",
      "CREATE TABLE checkpoints (id, agent_id, iteration, conversation AS (hex(zeroblob(1000))), metadata, created_at); INSERT INTO checkpoints (id) VALUES (1)",
    ],
    [
      "a virtual table",
      "CREATE VIRTUAL TABLE checkpoints USING fts5(id, agent_id, iteration, conversation, metadata, created_at)",
    ],
  ])("a smooth database whose rows are %s is refused", async (_what, sql) => {
    const file = run(join(place(), "smooth.db"), sql);
    expect(await errorOf(() => migrate("smooth", file, "memory:"))).toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});
