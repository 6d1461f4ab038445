/**
 * A disk that cannot read: the error says so and names the file. It is never called damage, and no
 * list is shorter for it.
 */
import { execFile } from "node:child_process";
import { closeSync, copyFileSync, openSync, readlinkSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Holdfast } from "../../src/holdfast.js";
import { type HoldfastError, open, restoreBackup } from "../../src/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { noTailAnchors } from "../../src/store/port/copies.js";
import { identityOf, Presence } from "../../src/store/presence.js";
import type { DatabaseParts, Maintenance } from "../../src/store/sql/database.js";
import { translate } from "../../src/store/sql/postgres/failures.js";
import {
  type Driver,
  defaultDriver,
  explained,
  explaining,
  openDriver,
} from "../../src/store/sql/sqlite/driver/driver.js";
import { stay } from "../../src/store/sql/sqlite/driver/open-files.js";
import { sqliteParts } from "../../src/store/sql/sqlite/parts.js";
import { SqlStore } from "../../src/store/sql/store.js";
import { failure, instead, mend } from "../support/failures/failing-calls.js";
import { type Fault, FaultyDriver } from "../support/failures/faulty-driver.js";
import { fresh } from "../support/places.js";

const dist = new URL("../../dist/index.js", import.meta.url).href;
const ended: (() => unknown)[] = [];
afterEach(async () => {
  mend();
  for (const end of ended.splice(0)) await end();
});

/**
 * Makes every read of a file fail, or of the files that end so. `page`: only those of one page of 8
 * KB.
 */
function breakReads(path: string, page?: number): void {
  const read = instead(
    "readSync",
    (fd: number, bytes: Buffer, offset: number, length: number, at: number) => {
      const isHit = page === undefined || (at < page * 8192 && at + length > (page - 1) * 8192);
      if (isHit && readlinkSync(`/proc/self/fd/${fd}`).endsWith(path))
        throw Object.assign(failure("EIO"), { syscall: "read" });
      return read(fd, bytes, offset, length, at);
    },
  );
}

function spoilPage(path: string, page: number): void {
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(8192), 0, 8192, (page - 1) * 8192);
  closeSync(fd);
}

async function made(address: string): Promise<void> {
  const hold = await open(address);
  for (const id of ["a", "b", "c"]) {
    const session = await hold.session(id);
    session.append({ role: "user", content: `words of ${id}` });
    await session.checkpoint();
    await session.close();
  }
  await hold.close();
}

/** All that looks at a store, and how much of it each finds. */
const looks: Readonly<Record<string, (hold: Holdfast) => Promise<number>>> = {
  list: async (hold) => (await hold.sessions.list()).items.length,
  get: async (hold) =>
    [await hold.sessions.get("a"), await hold.sessions.get("b"), await hold.sessions.get("c")]
      .length,
  state: async (hold) =>
    (await Promise.all(["a", "b", "c"].map((id) => hold.sessions.state(id)))).length,
  checkpoints: async (hold) =>
    (await Promise.all(["a", "b", "c"].map((id) => hold.checkpoints.latest(id)))).length,
  search: async (hold) => (await hold.sessions.search("words")).items.length,
  verify: async (hold) => ((await hold.verify()).ok ? 3 : 0),
  stats: async (hold) => (await hold.stats()).sessions,
  about: async (hold) => (await hold.info()).sessions.looked,
  export: async (hold) => {
    let count = 0;
    for await (const row of hold.export()) if (row.includes("words of")) count += 1;
    return count;
  },
};

async function answers(hold: Holdfast): Promise<Record<string, number | HoldfastError>> {
  const found: Record<string, number | HoldfastError> = {};
  for (const [name, look] of Object.entries(looks))
    found[name] = await look(hold).catch((error: HoldfastError) => error);
  return found;
}

describe("dir", () => {
  test.each([
    { what: "the file of a session", path: "/session.json" },
    { what: "a journal", path: ".jsonl" },
    { what: "the log of changes", path: "/changes.jsonl" },
    { what: "the lock", path: "/lock-2.json" },
  ])("$what: each look fails as IO with the path, or finds everything", async ({ path }) => {
    const address = `dir:${join(fresh(), "store")}`;
    await made(address);
    const hold = await open(address);
    ended.push(() => hold.close());
    // Another process writes: so the log of changes is read again.
    await made(address);
    const other = await open(address);
    const all = await answers(other);
    await other.close();
    breakReads(path);
    let failed = 0;
    // Twice: what failed once must not be remembered as something that is not there.
    for (let round = 0; round < 2; round++) {
      for (const [name, answer] of Object.entries(await answers(hold))) {
        if (answer === all[name]) continue;
        failed += 1;
        expect(answer, `${name}, round ${round}`).toMatchObject({
          code: "IO",
          details: { path: expect.stringMatching(path) },
        });
        expect((answer as HoldfastError).message, name).toMatch(
          /The disk could not read ".*". This call changed nothing/,
        );
      }
    }
    expect(failed).toBeGreaterThan(0);
    mend();
    expect(await answers(hold)).toEqual(all);
  });

  test("a writer that cannot read one session saves the others", async () => {
    const address = `dir:${join(fresh(), "store")}`;
    await made(address);
    const hold = await open(address);
    ended.push(() => hold.close());
    breakReads("/a/session.json");
    await expect(hold.session("a")).rejects.toMatchObject({ code: "IO" });
    const other = await hold.session("b");
    other.append({ role: "user", content: "more" });
    await other.checkpoint();
    mend();
    expect((await hold.session("a")).messages).toHaveLength(1);
  });
});

describe("SQLite", () => {
  // SQLite gives a failed read this code.
  const damage: Fault = {
    name: "",
    code: "SQLITE_CORRUPT",
    rollsBack: false,
    after: false,
    forever: true,
  };

  const parts = (path: string, db: Driver): DatabaseParts =>
    sqliteParts(
      db,
      {
        file: path,
        place: path,
        presence: new Presence(() => undefined),
        anchors: { note() {}, read: async () => noTailAnchors, close: async () => {} },
        busyMs: 50,
        leave() {},
      },
      "",
    );

  async function faulty() {
    const path = join(fresh(), "store.db");
    await made(path);
    const driver = new FaultyDriver(openDriver(path));
    const db = explained(driver, explaining(path, path));
    ended.push(stay(identityOf(path)));
    const store = new SqlStore(parts(path, db), { tenant: "" });
    const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 60_000);
    ended.unshift(() => hold.close());
    return { path, driver, hold };
  }

  test("each look fails as IO with the path, and a save of what can be read goes on afterwards", async () => {
    const { path, driver, hold } = await faulty();
    const all = await answers(hold);
    const session = await hold.session("a");
    driver.arm(1, damage);
    breakReads(path);
    for (const [name, answer] of Object.entries(await answers(hold)))
      expect(answer, name).toMatchObject({
        code: "IO",
        details: { path },
        message: expect.stringContaining("could not read"),
      });
    session.append({ role: "user", content: "and no more" });
    await expect(session.checkpoint()).rejects.toMatchObject({ code: "IO", details: { path } });
    driver.disarm();
    mend();
    await session.checkpoint();
    expect(await answers(hold)).toEqual(all);
  });

  test("negative control: a file that can be read is damaged when SQLite says so", async () => {
    const { driver, hold } = await faulty();
    driver.arm(1, damage);
    for (const look of ["list", "search", "stats", "about"])
      await expect(looks[look]?.(hold), look).rejects.toMatchObject({ code: "CORRUPT" });
  });

  test("a read that fails once is tried again", async () => {
    const { driver, hold } = await faulty();
    driver.arm(1, { ...damage, forever: false });
    expect((await hold.sessions.list()).items).toHaveLength(3);
    expect(driver.fired).toBe(true);
  });

  /** A database of which SQLite's integrity check says these lines. */
  function saying(path: string, ...lines: string[]): Maintenance {
    const real = openDriver(path);
    const db: Driver = {
      ...real,
      inTransaction: false,
      prepare: (sql) =>
        sql.includes("integrity_check")
          ? { ...real.prepare(sql), all: () => lines.map((line) => [line]) }
          : real.prepare(sql),
    };
    const { maintenance } = parts(path, db);
    ended.unshift(() => maintenance.close());
    return maintenance;
  }

  const notGot =
    "*** in database main ***\nTree 36 page 36: unable to get the page. error code=8458";
  const longRow = "Tree 21 page 21 cell 0: failed to get page 39";
  // SQLite says this of a page of the pointer map that it could not read, and of one that it read,
  // and that is damaged.
  const map = "Failed to read ptrmap key=39\nFailed to read ptrmap key=40";

  test.each([notGot, longRow, `Tree 5 page 5: never used\n${longRow}`])(
    "an integrity check says: %s. It is no finding",
    async (said) => {
      const { path, hold } = await faulty();
      await expect(saying(path, said).check()).rejects.toMatchObject({
        code: "IO",
        details: { path },
      });
      expect((await hold.verify()).ok).toBe(true);
    },
  );

  test.each([
    { what: "the pointer map", said: map, broken: "", page: 2 },
    { what: "the log, of a page of the pointer map", said: map, broken: "-wal" },
    { what: "the log, of a page of a tree", said: notGot, broken: "-wal" },
    { what: "the log, of a page of a long row", said: longRow, broken: "-wal" },
    // The 1,639 pages behind a page of the map are those it speaks of.
    {
      what: "a later page of the pointer map",
      said: "Failed to read ptrmap key=1642",
      broken: "",
      page: 1_641,
    },
  ])(
    "an integrity check that could not read $what is no finding, and the error names the file",
    async ({ said, broken, page }) => {
      const { path } = await faulty();
      breakReads(path + broken, page);
      await expect(saying(path, said).check()).rejects.toMatchObject({
        code: "IO",
        details: { path: path + broken },
      });
    },
  );

  test.each([
    "Tree 36 page 36: unable to get the page. error code=11",
    "Tree 21 page 21 cell 0: invalid page number 900",
    // The page of SQLite's locks holds no data: a row that goes on there is damaged.
    "Tree 21 page 21 cell 0: failed to get page 131073",
    map,
  ])(
    "negative control: a file that can be read is damaged, where an integrity check says: %s",
    async (said) => {
      const { path } = await faulty();
      expect(await saying(path, said).check()).toHaveLength(1);
      // A page that no finding speaks of.
      breakReads(path, 7);
      expect(await saying(path, said).check()).toHaveLength(1);
    },
  );

  test("a pointer map that cannot be read is IO at open, and one that is damaged is CORRUPT", async () => {
    const path = join(fresh(), "store.db");
    await made(path);
    spoilPage(path, 2);
    breakReads(path, 2);
    await expect(open(path)).rejects.toMatchObject({
      code: "IO",
      details: { path },
      message: expect.stringContaining("could not read"),
    });
    mend();
    await expect(open(path)).rejects.toMatchObject({
      code: "CORRUPT",
      message: expect.stringContaining("Failed to read ptrmap"),
    });
  });

  test.each([{ part: "" }, { part: "-wal" }])(
    "a store of which store.db$part cannot be read is IO at open, with that path",
    async ({ part }) => {
      const [draft, path] = [join(fresh(), "store.db"), join(fresh(), "store.db")];
      const hold = await open(draft);
      await (await hold.session("a")).checkpoint();
      // As a process leaves it that is killed.
      for (const each of ["", "-wal"]) copyFileSync(draft + each, path + each);
      await hold.close();
      breakReads(path + part);
      const error = {
        code: "IO",
        details: { path: path + part },
        message: expect.stringContaining("could not read"),
      };
      await expect(open(path)).rejects.toMatchObject(error);
      mend();
      await (await open(path)).close();
    },
  );

  test("a read that fails before a statement runs has another code: the error names the file, and saves go on", async () => {
    const { path, driver, hold } = await faulty();
    const session = await hold.session("a");
    driver.arm(1, { ...damage, code: "SQLITE_IOERR_CORRUPTFS" });
    breakReads(`${path}-wal`);
    session.append({ role: "user", content: "more" });
    const failed = {
      code: "IO",
      details: { path: `${path}-wal` },
      message: expect.stringContaining("could not read"),
    };
    await expect(hold.sessions.list()).rejects.toMatchObject(failed);
    await expect(session.checkpoint()).rejects.toMatchObject(failed);
    mend();
    // The disk reads it again by the time that we look.
    await expect(hold.sessions.list()).rejects.toMatchObject({ code: "IO", details: { path } });
    driver.disarm();
    await session.checkpoint();
  });

  test("negative control: after a write that failed, nothing more is saved, also where the disk cannot read", async () => {
    const { path, driver, hold } = await faulty();
    const session = await hold.session("a");
    breakReads(path);
    driver.arm(1, { ...damage, code: "SQLITE_IOERR_WRITE", forever: false });
    session.append({ role: "user", content: "more" });
    const failed = {
      code: "IO",
      message: expect.stringContaining("close the store and open it again"),
    };
    await expect(session.checkpoint()).rejects.toMatchObject(failed);
    mend();
    await expect(session.checkpoint()).rejects.toMatchObject({ code: "IO" });
  });

  test("a backup says which of the two files the disk failed at", async () => {
    const path = join(fresh(), "store.db");
    await made(path);
    const hold = await open(path);
    ended.push(() => hold.close());
    // SQLite's own interface for copies gives no other code, for both.
    const failed = Object.assign(new Error("disk I/O error"), {
      code: "SQLITE_IOERR",
      errcode: 10,
    });
    const own: { backup(): Promise<unknown> } =
      defaultDriver() === "node:sqlite"
        ? process.getBuiltinModule("node:sqlite")
        : createRequire(import.meta.url)("better-sqlite3").prototype;
    const backup = vi.spyOn(own, "backup").mockRejectedValue(failed);
    ended.push(() => backup.mockRestore());
    const target = join(fresh(), "backup.db");
    breakReads(path);
    await expect(hold.backup(target)).rejects.toMatchObject({
      code: "IO",
      details: { path },
      message: expect.stringContaining("could not read"),
    });
    mend();
    const unwritten = {
      code: "IO",
      details: { path: target },
      message: expect.stringContaining("The backup could not be written"),
    };
    await expect(hold.backup(target)).rejects.toMatchObject(unwritten);
  });

  test("a backup that cannot be read is named in a restore", async () => {
    const directory = fresh();
    const [path, backup] = [join(directory, "store.db"), join(directory, "backup.db")];
    await made(path);
    const hold = await open(path);
    await hold.backup(backup);
    await hold.close();
    breakReads(backup);
    await expect(restoreBackup(backup, join(directory, "restored.db"))).rejects.toMatchObject({
      code: "IO",
      details: { path: backup },
    });
  });

  test("a copy that cannot be read is IO in a restore, and one that is damaged is CORRUPT", async () => {
    const directory = fresh();
    const [path, backup] = [join(directory, "store.db"), join(directory, "backup.db")];
    await made(path);
    const hold = await open(path);
    await hold.backup(backup);
    await hold.close();
    spoilPage(backup, 2);
    breakReads(".draft", 2);
    const draft = { path: expect.stringMatching(/restored\.db\..*\.draft$/) };
    await expect(restoreBackup(backup, join(directory, "restored.db"))).rejects.toMatchObject({
      code: "IO",
      details: draft,
    });
    mend();
    await expect(restoreBackup(backup, join(directory, "restored.db"))).rejects.toMatchObject({
      code: "CORRUPT",
    });
  });

  test("a store that was read through still has its locks: another process cannot replace it", async () => {
    const { path, driver, hold } = await faulty();
    const copy = `${path}.copy`;
    const source = await open(path);
    await source.backup(copy);
    await source.close();
    const restore = `import { restoreBackup } from ${JSON.stringify(dist)};
      await restoreBackup(${JSON.stringify(copy)}, ${JSON.stringify(path)}, { force: true }).catch((error) => console.log(error.code));`;
    // The first read takes the lock.
    await hold.sessions.list();
    driver.arm(1, { ...damage, forever: false });
    breakReads(path);
    await expect(hold.sessions.list()).rejects.toMatchObject({ code: "IO" });
    mend();
    const { stdout } = await promisify(execFile)(process.execPath, [
      "--input-type=module",
      "-e",
      restore,
    ]);
    expect(stdout).toBe("BUSY\n");
    expect((await hold.sessions.list()).items).toHaveLength(3);
  });
});

test("Postgres: a failed read of the server's disk is IO, and damage is CORRUPT", () => {
  const said = (code: string) =>
    translate(Object.assign(new Error("could not read block 7 in file"), { code }));
  expect(said("58030")).toMatchObject({
    code: "IO",
    message: expect.stringContaining("Check the server's disk"),
  });
  expect(said("58030").message).not.toMatch(/backup/i);
  expect(said("XX001").code).toBe("CORRUPT");
});
