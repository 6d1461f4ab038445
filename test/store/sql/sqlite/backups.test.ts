/**
 * Backups of a store in one SQLite file: what is in them, what they refuse, and what becomes of
 * sessions that were under way.
 */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
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
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Holdfast, open, type RunResult, restoreBackup } from "../../../../src/index.js";
import { openDriver } from "../../../../src/store/sql/sqlite/driver/driver.js";
import { run as runCommand } from "../../../cli/command.js";
import { asks, coded, door, script } from "../../../support/processes.js";
import { scratch, stores } from "../../../support/stores.js";

const root = scratch();
let count = 0;
let directory: string;
const opened: Holdfast[] = [];
beforeEach(() => {
  directory = join(root, String(++count));
  mkdirSync(directory);
});
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});
const at = (name: string) => join(directory, name);
const start = async (name: string) => {
  const hold = await open(at(name));
  opened.push(hold);
  return hold;
};
/** A store with a session that is under way and one that is completed. */
const made = async (name = "store.db") => {
  const hold = await start(name);
  const going = await hold.session("going", { agent: "x" });
  going.append({ role: "user", content: "hello" });
  await going.checkpoint();
  await going.close();
  const done = await hold.session("done");
  done.append({
    role: "user",
    content: [{ type: "file", mediaType: "x/y", data: { bytes: Buffer.alloc(20_000, 7) } }],
  });
  await done.complete("all of it");
  await done.close();
  return hold;
};
const names = () => readdirSync(directory).toSorted();
const firstIn = (result: RunResult) =>
  result.status === "in-doubt"
    ? (result.pending[0]?.effectId as string)
    : expect.fail(result.status);

describe("what is in a backup", () => {
  test("all there is, for its owner alone, in one file; the store goes on", async () => {
    const hold = await made();
    const tenant = await open(at("store.db"), { tenant: "t" });
    await (await tenant.session("theirs")).close();
    await tenant.close();
    const told: number[] = [];
    const report = await hold.backup(at("b.db"), {
      onProgress: ({ bytes, of }) => told.push(bytes / of),
    });
    expect(report).toEqual({
      sessions: 3,
      bytes: statSync(at("b.db")).size,
      ms: expect.any(Number),
    });
    expect(told.length).toBeGreaterThan(0);
    expect(told.every((part) => part >= 0 && part <= 1)).toBe(true);
    expect(statSync(at("b.db")).mode & 0o777).toBe(0o600);
    expect(names().filter((name) => name.startsWith("b.db"))).toEqual(["b.db"]);
    const later = await hold.session("later");
    later.append({ role: "user", content: "x" });
    await later.checkpoint();
    const bytes = readFileSync(at("b.db"));
    expect(await restoreBackup(at("b.db"), at("new/r.db"))).toMatchObject({
      sessions: 3,
      unfinished: 2,
      bytes: bytes.length,
    });
    expect(readFileSync(at("b.db")).equals(bytes)).toBe(true);
    const restored = await start("new/r.db");
    expect((await restored.sessions.list()).items.map(({ id }) => id)).toEqual(["done", "going"]);
    expect(await restored.verify()).toMatchObject({ ok: true, findings: [] });
    const done = await restored.session("done");
    expect([done.status, done.output]).toEqual(["completed", "all of it"]);
    expect((await restored.session("going")).status).toBe("in-doubt");
    const theirs = await open(at("new/r.db"), { tenant: "t" });
    opened.push(theirs);
    expect((await theirs.sessions.list()).items.map(({ id }) => id)).toEqual(["theirs"]);
  });

  test("a copy of a backup that somebody puts in place by hand is another generation too, each its own, and its anchors no witnesses", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    const session = await hold.session("going");
    for (let i = 0; i < 3; i++) {
      session.append({ role: "user", content: String(i) });
      await session.checkpoint();
    }
    await session.close();
    await hold.close();
    const generation = (path: string) => {
      const db = openDriver(path);
      const rows = db
        .prepare("SELECT key, value FROM meta WHERE key IN ('generation', 'backup') ORDER BY key")
        .all();
      db.close();
      return rows;
    };
    expect(existsSync(at("store.db-anchors"))).toBe(true);
    copyFileSync(at("b.db"), at("store.db"));
    copyFileSync(at("b.db"), at("other.db"));
    const seen = [];
    for (const name of ["store.db", "other.db"]) {
      const back = await start(name);
      expect(await back.verify()).toMatchObject({ ok: true, findings: [] });
      const opening = await back.session("going");
      expect([opening.status, opening.messages.length]).toEqual(["in-doubt", 1]);
      await back.close();
      seen.push(generation(at(name)));
      // Opened again it is the same.
      await (await start(name)).close();
      expect(generation(at(name))).toEqual(seen.at(-1));
    }
    expect(seen).toEqual([
      [["generation", expect.any(String)]],
      [["generation", expect.any(String)]],
    ]);
    expect(seen[0]).not.toEqual(seen[1]);
    expect(names().some((name) => name.startsWith("store.db-anchors.before-"))).toBe(true);
  });

  test("a log of the original does not fit a backup that is put in its place", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    const session = await hold.session("going");
    session.set("k", "v".repeat(50_000));
    await session.checkpoint();
    expect(statSync(at("store.db-wal")).size).toBeGreaterThan(0);
    copyFileSync(at("store.db-wal"), at("other.db-wal"));
    copyFileSync(at("b.db"), at("other.db"));
    await expect(open(at("other.db"))).rejects.toMatchObject(coded("CORRUPT"));
  });
});

describe("what is refused", () => {
  test("to write over anything but a backup, and over one only when told so", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    await expect(hold.backup(at("b.db"))).rejects.toMatchObject(coded("CONFLICT"));
    const before = readFileSync(at("b.db"));
    await hold.backup(at("b.db"), { force: true });
    expect(readFileSync(at("b.db")).equals(before)).toBe(false);
    const other = await start("other.db");
    await other.close();
    writeFileSync(at("notes.txt"), "mine");
    mkdirSync(at("folder"));
    for (const name of ["store.db", "other.db", "notes.txt", "folder"])
      await expect(hold.backup(at(name), { force: true }), name).rejects.toMatchObject(
        coded("CONFLICT"),
      );
    expect(readFileSync(at("notes.txt"), "utf8")).toBe("mine");
    await expect(hold.backup(at("no/such/place.db"))).rejects.toMatchObject(coded("NOT_FOUND"));
    for (const path of ["", "a\0b", "\ud800", 7 as never, undefined as never])
      await expect(hold.backup(path)).rejects.toMatchObject(coded("INVALID_OPTION"));
    await expect(hold.backup(at("x.db"), { forced: true } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    expect(names().filter((name) => name.includes("draft"))).toEqual([]);
  });

  test("one that is stopped leaves nothing, and what its caller throws ends it", async () => {
    const hold = await made();
    const stopped = new AbortController();
    const reason = new Error("enough");
    const stop = () => stopped.abort(reason);
    await expect(
      hold.backup(at("b.db"), { signal: stopped.signal, onProgress: stop }),
    ).rejects.toBe(reason);
    await expect(hold.backup(at("b.db"), { signal: stopped.signal })).rejects.toBe(reason);
    const thrown = () => {
      throw new Error("mine");
    };
    await expect(hold.backup(at("b.db"), { onProgress: thrown })).rejects.toThrow(/mine/);
    expect(names().filter((name) => name.startsWith("b.db"))).toEqual([]);
  });

  test("what a killed process left is cleared away; what one that lives is at is not", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    // The name of a draft says whose it is.
    const prefix = await new Promise<string>((resolve) => {
      void hold.backup(at("b.db"), {
        force: true,
        onProgress: () => resolve(names().find((name) => name.endsWith(".draft")) ?? ""),
      });
    });
    const [, here] = /^b\.db\.([\w-]{8})-\d+-/.exec(prefix) as unknown as [string, string];
    const dead = Number(
      execFileSync(process.execPath, ["-e", "console.log(process.pid)"], { encoding: "utf8" }),
    );
    const draft = (pid: number) => at(`b.db.${here}-${pid}-0123456789ab.draft`);
    for (const pid of [dead, process.ppid])
      for (const suffix of ["", "-journal"]) writeFileSync(draft(pid) + suffix, "x");
    await hold.backup(at("b.db"), { force: true });
    expect(existsSync(draft(dead)) || existsSync(`${draft(dead)}-journal`)).toBe(false);
    expect(existsSync(draft(process.ppid))).toBe(true);
  });

  test("to restore what is no backup, is damaged, or is open; or onto what is none of ours", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    const to = at("to.db");
    writeFileSync(at("notes.txt"), "mine");
    await expect(restoreBackup(at("none.db"), to)).rejects.toMatchObject(coded("NOT_FOUND"));
    await expect(restoreBackup(at("notes.txt"), to)).rejects.toMatchObject(coded("NOT_A_STORE"));
    await expect(restoreBackup(at("store.db"), to)).rejects.toMatchObject(coded("CONFLICT"));
    await expect(restoreBackup(at("b.db"), at("b.db"), { force: true })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    await expect(restoreBackup(at("b.db"), at("store.db"), { force: true })).rejects.toMatchObject(
      coded("BUSY"),
    );
    await expect(restoreBackup(at("b.db"), at("notes.txt"), { force: true })).rejects.toMatchObject(
      coded("NOT_A_STORE"),
    );
    await expect(restoreBackup(at("b.db"), `dir:${at("d")}`)).rejects.toMatchObject(
      coded("UNSUPPORTED"),
    );
    await expect(restoreBackup(at("b.db"), "postgres://user:secret@host/db")).rejects.toSatisfy(
      (error: Error) => !error.message.includes("secret"),
    );
    copyFileSync(at("b.db"), at("cut.db"));
    truncateSync(at("cut.db"), statSync(at("b.db")).size - 8192);
    await expect(restoreBackup(at("cut.db"), to)).rejects.toMatchObject(coded("CORRUPT"));
    const newer = readFileSync(at("b.db"));
    newer[63] = 250;
    writeFileSync(at("newer.db"), newer);
    await expect(restoreBackup(at("newer.db"), to)).rejects.toMatchObject(coded("NEWER_FORMAT"));
    expect(names().filter((name) => name.startsWith("to.db"))).toEqual([]);
    await hold.close();
    await expect(restoreBackup(at("b.db"), at("store.db"))).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    // One that was opened is a store from then on.
    await (await start("b.db")).close();
    await expect(restoreBackup(at("b.db"), to)).rejects.toMatchObject(coded("CONFLICT"));
  });

  test("a store too damaged to be opened is put aside as it is, with all that stands beside it", async () => {
    const hold = await made();
    await hold.backup(at("b.db"));
    await hold.close();
    const bytes = readFileSync(at("store.db"));
    bytes.fill(0xff, 100, 20_000);
    writeFileSync(at("store.db"), bytes);
    const log = Buffer.alloc(5_000, "what is left of a log");
    appendFileSync(at("store.db-wal"), log);
    const { setAside = "" } = await restoreBackup(at("b.db"), at("store.db"), { force: true });
    expect(readFileSync(setAside).equals(bytes)).toBe(true);
    expect(readFileSync(`${setAside}-wal`).equals(log)).toBe(true);
    expect(existsSync(`${setAside}-anchors`)).toBe(true);
    const back = await start("store.db");
    expect(await back.verify()).toMatchObject({ ok: true });
  });

  test.each(stores.filter(({ name }) => name !== "sqlite"))(
    "by a store in $name, which says what to do instead",
    async ({ address }) => {
      const hold = await open(address());
      opened.push(hold);
      await expect(hold.backup(at("b.db"))).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining("hold.export"),
      });
      expect(names()).toEqual([]);
    },
  );
});

describe("an agent that went on after the backup", () => {
  /** What the world has seen, by key. A key that comes again is known there, and does nothing. */
  const world = () => {
    const ledger: string[] = [];
    const keys = new Set<string>();
    const act =
      (name: string) =>
      async (_input: unknown, { key }: { readonly key: string }) => {
        if (!keys.has(key)) ledger.push(name);
        keys.add(key);
        return `${name} done`;
      };
    const agentOf = (
      hold: Holdfast,
      inside?: { readonly reached: () => void; readonly goOn: Promise<void> },
    ) =>
      hold.agent({
        name: "support",
        model: script(
          asks(["look", {}]),
          asks(["refund", { n: 1 }]),
          async () => {
            inside?.reached();
            await inside?.goOn;
            return asks(["refund", { n: 2 }], ["mail", {}]);
          },
          "done",
        ),
        tools: {
          look: { mode: "repeatable", run: act("look") },
          refund: { mode: "keyed", run: act("refund") },
          mail: { mode: "once", run: act("mail") },
        },
      });
    return { ledger, agentOf };
  };

  /** Backed up between its first refund and what comes after; then the original runs to its end. */
  const backedUp = async () => {
    const { ledger, agentOf } = world();
    const hold = await start("store.db");
    const [reached, goes] = [door(), door()];
    const running = agentOf(hold, { reached: reached.open, goOn: goes.opened }).run("order", "go");
    await reached.opened;
    await hold.backup(at("b.db"));
    goes.open();
    expect(await running).toMatchObject({ status: "completed" });
    expect(ledger).toEqual(["look", "refund", "refund", "mail"]);
    await hold.close();
    return { ledger, agentOf };
  };

  test("nothing of it is made twice before somebody says so", async () => {
    const { ledger, agentOf } = await backedUp();
    expect(await restoreBackup(at("b.db"), at("store.db"), { force: true })).toMatchObject({
      unfinished: 1,
    });
    const hold = await start("store.db");
    const bot = agentOf(hold);
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    await worker.drain();
    const result = await bot.run("order", "go");
    expect(result).toMatchObject({ status: "in-doubt", pending: [{ name: "(restored)" }] });
    await worker.drain();
    expect(ledger).toEqual(["look", "refund", "refund", "mail"]);
    // Whoever says that it goes on from here has decided that what comes now is made.
    await hold.effects.settle(firstIn(result), { retry: true, by: "ana" });
    expect(await bot.run("order", "go")).toMatchObject({ status: "completed" });
    expect(ledger).toEqual(["look", "refund", "refund", "mail", "refund", "mail"]);
  });

  test("negative control: the same copy, had it no generation, would silently make them twice", async () => {
    const { ledger, agentOf } = await backedUp();
    const db = openDriver(at("b.db"));
    db.exec("DELETE FROM meta WHERE key = 'backup'");
    db.close();
    const bot = agentOf(await start("b.db"));
    expect(await bot.run("order", "go")).toMatchObject({ status: "completed" });
    expect(ledger).toEqual(["look", "refund", "refund", "mail", "refund", "mail"]);
  });
});

test("a store that was restored and never opened can be restored over", async () => {
  const hold = await made();
  await hold.backup(at("b.db"));
  await hold.close();
  await restoreBackup(at("b.db"), at("n.db"));
  const again = await restoreBackup(at("b.db"), at("n.db"), { force: true });
  expect(readdirSync(directory).filter((name) => name.endsWith("-journal"))).toEqual([]);
  expect((await (await start("n.db")).sessions.list()).items).toHaveLength(2);
  // What stood there is a backup, too.
  await restoreBackup(again.setAside as string, at("m.db"));
  expect((await (await start("m.db")).sessions.list()).items).toHaveLength(2);
});

describe("on the command line", () => {
  const run = (...words: readonly string[]) => runCommand(words, { cwd: directory });

  test("a backup is made, refused, put back, and says what comes next", async () => {
    await (await made()).close();
    const odd = "it\u001b[31m's.db";
    expect(await run("backup", "b.db", "--store", "store.db")).toMatchObject({
      exit: 0,
      stdout: expect.stringMatching(/^b\.db: 2 sessions, \d+ kB, in \d/),
      stderr: "Next: holdfast restore-backup --store restored.db b.db   # beside, to look at it\n",
    });
    expect(await run("backup", "b.db", "--store", "store.db")).toMatchObject({
      exit: 4,
      stdout: "",
      stderr: expect.stringContaining("CONFLICT"),
    });
    const json = await run("backup", "b.db", "--store=store.db", "--force", "--json");
    expect(JSON.parse(json.stdout)).toMatchObject({
      path: "b.db",
      sessions: 2,
      bytes: expect.any(Number),
    });
    const escaped = await run("backup", odd, "--store", "store.db");
    expect(escaped).toMatchObject({ exit: 0 });
    expect(escaped.stdout + escaped.stderr).not.toContain("\u001b");
    expect(await run("backup", "x.db", "--store", "missing.db")).toMatchObject({ exit: 3 });
    expect(existsSync(at("missing.db"))).toBe(false);
    for (const words of [
      ["backup"],
      ["backup", "a", "b"],
      ["backup", "--force"],
      ["restore-backup"],
      ["backup", "x", "--store"],
      ["mark-restored", "x"],
    ])
      expect(await run(...words), words.join(" ")).toMatchObject({ exit: 2, stdout: "" });
    expect(await run("restore-backup", "b.db", "--store", "store.db")).toMatchObject({ exit: 4 });
    expect(await run("restore-backup", "b.db", "--store", "store.db", "--force")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("--yes"),
    });
    expect(
      await run("restore-backup", "b.db", "--store", "store.db", "--force", "--yes"),
    ).toMatchObject({
      exit: 0,
      stdout: expect.stringMatching(/^Restored 2 sessions/),
      stderr: expect.stringMatching(
        /store\.db\.replaced-.*\n1 session was under way, and will open as in doubt/,
      ),
    });
    const restored = JSON.parse(
      (await run("restore-backup", "b.db", "--store", "other.db", "--json")).stdout,
    );
    expect(restored).toMatchObject({ sessions: 2, unfinished: 1 });
    expect(await run("mark-restored", "--store", "store.db")).toMatchObject({ exit: 2 });
    expect(await run("mark-restored", "--store", "store.db", "--yes", "--json")).toMatchObject({
      exit: 0,
      stdout: expect.stringContaining('"version": 1'),
    });
    const hold = await start("store.db");
    expect((await hold.session("going")).status).toBe("in-doubt");
  });
});
