/**
 * Stores that a process may not write: all of it can be looked at, nothing changes, and a write
 * names the place (LOOK-1 to LOOK-3).
 */
import { type ChildProcess, execFile, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Holdfast, type HoldfastError, open } from "../../src/index.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { draftName } from "../../src/store/sql/sqlite/files/temp-files.js";
import { type Child, startPuppet } from "../support/children/child.mjs";
import { failure, instead, mend } from "../support/failures/failing-calls.js";
import { fresh } from "../support/places.js";

const bin = fileURLToPath(new URL("../../dist/bin/holdfast.js", import.meta.url));
const children: Child[] = [];
const programs: ChildProcess[] = [];
const mounts: string[] = [];
const opened: Holdfast[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  mend();
  for (const hold of opened.splice(0)) await hold.close();
  for (const child of children.splice(0)) await child.end();
  for (const program of programs.splice(0)) program.kill("SIGKILL");
  for (const directory of mounts.splice(0)) execFileSync("umount", [directory]);
});

async function child(): Promise<Child> {
  const started = startPuppet();
  children.push(started);
  await started.ask({ do: "ready" });
  return started;
}

function mounted(): string {
  const directory = fresh();
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m,mode=755", "tmpfs", directory]);
  mounts.push(directory);
  return directory;
}

const makeReadOnly = (directory: string) => execFileSync("mount", ["-o", "remount,ro", directory]);

/**
 * Makes a store with one session of three messages. `killed`: as a process leaves it that is
 * killed.
 */
async function made(address: string, how: "closed" | "killed"): Promise<void> {
  const path = address.replace(/^dir:/, "");
  const draft = join(fresh(), "draft");
  const hold = await open(address.replace(path, draft));
  const session = await hold.session("a", { agent: "ann" });
  for (let n = 0; n < 3; n++) {
    session.append({ role: "user", content: "words" });
    await session.checkpoint();
    if (n === 1) await hold.agents.snapshot("ann");
  }
  const copy = () => {
    for (const part of ["", "-wal", "-shm", "-anchors"])
      if (existsSync(draft + part)) cpSync(draft + part, path + part, { recursive: true });
  };
  if (how === "killed") copy();
  await hold.close();
  if (how === "closed") copy();
}

async function looked(address: string): Promise<Holdfast> {
  const hold = await open(address);
  opened.push(hold);
  return hold;
}

async function allOf(hold: Holdfast): Promise<unknown> {
  const rows: string[] = [];
  for await (const row of hold.export()) rows.push(row);
  return {
    sessions: (await hold.sessions.list()).items.map(({ id }) => id),
    messages: (await hold.sessions.state("a")).messages.length,
    checkpoints: (await hold.checkpoints.list("a")).items.length,
    found: (await hold.sessions.search("words")).items.length,
    exported: rows.some((row) => row.includes("words")),
    findings: (await hold.verify()).findings,
    looked: (await hold.info()).sessions.looked,
    dryRuns: await dryRuns(hold),
  };
}

/** What would be changed can be asked for. */
async function dryRuns(hold: Holdfast): Promise<unknown> {
  const [snapshot] = (await hold.agents.snapshots("ann")).items;
  return [
    (await hold.sessions.delete("a", { dryRun: true })).checkpoints,
    (await hold.agents.restore(snapshot?.id as string, { dryRun: true })).sessions[0]?.outcome,
    (await hold.checkpoints.prune("a", { keep: 1, dryRun: true })).removed,
    (await hold.gc({ dryRun: true })).blobs,
  ];
}

const all = {
  sessions: ["a"],
  messages: 3,
  checkpoints: 3,
  found: 3,
  exported: true,
  findings: [],
  looked: 1,
  dryRuns: [3, "moved", 2, 0],
};

const files = (directory: string) =>
  readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(
      (entry) =>
        `${entry.name} ${readFileSync(join(entry.parentPath, entry.name)).toString("base64")}`,
    )
    .sort();

const kinds = [
  { name: "sqlite", at: (directory: string) => join(directory, "store.db") },
  { name: "dir", at: (directory: string) => `dir:${join(directory, "store")}` },
];

describe.each(kinds)("$name on a read-only mount", ({ at }) => {
  test.each(["closed", "killed"] as const)(
    "LOOK-1, LOOK-2: a store as a process leaves it that is %s",
    async (how) => {
      const directory = mounted();
      const address = at(directory);
      await made(address, how);
      makeReadOnly(directory);
      const before = files(directory);
      const hold = await looked(address);
      expect(await allOf(hold)).toEqual(all);
      const refused = {
        name: "HoldfastError",
        code: "IO",
        details: { path: expect.stringContaining(join(directory, "store")) },
      };
      await expect(hold.session("a")).rejects.toMatchObject(refused);
      await expect(hold.sessions.update("a", { title: "t" })).rejects.toMatchObject(refused);
      await expect(hold.sessions.delete("a")).rejects.toMatchObject(refused);
      await expect(hold.gc()).rejects.toMatchObject(refused);
      expect(await allOf(hold)).toEqual(all);
      await hold.close();
      expect(files(directory)).toEqual(before);
    },
  );
});

test("LOOK-1: a log without its -shm file is read, too", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "killed");
  rmSync(`${path}-shm`);
  makeReadOnly(directory);
  expect(await allOf(await looked(path))).toEqual(all);
});

test("negative control: without its log, a store of a killed writer shows less", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "killed");
  copyFileSync(path, join(directory, "half.db"));
  makeReadOnly(directory);
  const hold = await looked(join(directory, "half.db"));
  expect((await hold.sessions.list()).items).toEqual([]);
});

async function withTmp(directory: string, run: () => Promise<void>): Promise<void> {
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = directory;
  try {
    await run();
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = TMPDIR;
  }
}

test("a copy is removed when the store is closed, or by the next look; a backup can be made of it", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  const tmp = fresh();
  const backup = join(fresh(), "backup.db");
  await withTmp(tmp, async () => {
    const hold = await open(path);
    const [name = ""] = readdirSync(tmp);
    expect(readdirSync(tmp)).toHaveLength(1);
    expect(statSync(join(tmp, name)).mode & 0o777).toBe(0o700);
    expect(await hold.backup(backup)).toMatchObject({ sessions: 1 });
    await hold.close();
    expect(readdirSync(tmp)).toEqual([]);
    // As a process leaves it that was killed.
    const left = join(tmp, name.replace(`-${process.pid}-`, "-999999999-"));
    mkdirSync(left, { mode: 0o700 });
    for (const part of ["", "-wal", "-shm"]) writeFileSync(join(left, `store.db${part}`), "");
    const again = await open(path);
    expect(readdirSync(tmp)).toHaveLength(1);
    await again.close();
    expect(readdirSync(tmp)).toEqual([]);
  });
  expect(await allOf(await looked(backup))).toEqual(all);
});

describe("LOOK-4: what stands among temporary files under the name of a copy, and is none", () => {
  const name = () => `holdfast-look.${draftName().replace(`-${process.pid}-`, "-999999999-")}`;
  const withFile = (directory: string): string => {
    mkdirSync(directory, { mode: 0o700 });
    writeFileSync(join(directory, "precious"), "");
    return join(directory, "precious");
  };

  /**
   * Makes something under the name of a copy, and looks at a store. Answers whether the file that
   * it made is still there.
   */
  async function isKept(make: (path: string, tmp: string) => string): Promise<boolean> {
    const directory = mounted();
    const path = join(directory, "store.db");
    await made(path, "closed");
    makeReadOnly(directory);
    const tmp = fresh();
    const precious = make(join(tmp, name()), tmp);
    await withTmp(tmp, async () => (await open(path)).close());
    return existsSync(precious);
  }

  test.each<{ what: string; make: (path: string, tmp: string) => string }>([
    {
      what: "a link to a directory",
      make: (path) => {
        const target = join(fresh(), "target");
        symlinkSync(target, path);
        return withFile(target);
      },
    },
    {
      what: "a directory that other users can read",
      make: (path) => {
        const precious = withFile(path);
        chmodSync(path, 0o755);
        return precious;
      },
    },
    {
      what: "a directory of another user",
      make: (path) => {
        vi.spyOn(process, "getuid").mockReturnValue(12_345);
        return withFile(path);
      },
    },
    {
      what: "a directory with a directory in it",
      make: (path) => {
        mkdirSync(path, { mode: 0o700 });
        return withFile(join(path, "more"));
      },
    },
    {
      what: "a directory that another user could exchange for a link",
      make: (path, tmp) => {
        chmodSync(tmp, 0o777);
        return withFile(path);
      },
    },
  ])("$what stays", async ({ make }) => expect(await isKept(make)).toBe(true));

  test("negative control: a directory of this user alone goes", async () => {
    expect(await isKept((path) => withFile(path))).toBe(false);
    expect(
      await isKept((path, tmp) => {
        chmodSync(tmp, 0o1777);
        return withFile(path);
      }),
    ).toBe(false);
  });
});

test("a directory for temporary files that cannot be written: the error says what to do", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  await withTmp(directory, () =>
    expect(open(path)).rejects.toMatchObject({
      code: "IO",
      details: { path },
      message: expect.stringContaining("Set TMPDIR"),
    }),
  );
});

test("LOOK-3: once another process writes, a copy ends, and the next look shows what is new", async () => {
  const directory = fresh();
  const path = join(directory, "store.db");
  await made(path, "closed");
  for (const part of ["", "-anchors"]) chmodSync(path + part, 0o644);
  const reader = await child();
  await reader.ask({ do: "setuid", uid: 65_534 });
  await reader.ask({ do: "open", path });
  expect(await reader.ask({ do: "list", session: "a" })).toMatchObject({ checkpoints: 3 });
  const hold = await looked(path);
  await (await hold.session("a", { waitMs: 5_000 })).checkpoint("more");
  const { error } = await reader.ask({ do: "backup", to: join(directory, "b.db") });
  expect(error).toMatchObject({
    code: "IO",
    message: expect.stringContaining("Open the store again"),
  });
  expect((await reader.ask({ do: "list", session: "a" })).error).toMatchObject({ code: "IO" });
  // Now it is in use, and is read in place: each look shows what was saved last.
  await reader.ask({ do: "open", path });
  expect(await reader.ask({ do: "list", session: "a" })).toMatchObject({ checkpoints: 4 });
  await (await hold.session("b")).checkpoint();
  expect(await reader.ask({ do: "list", session: "b" })).toMatchObject({ checkpoints: 1 });
  expect((await reader.ask({ do: "session", session: "c" })).error).toMatchObject({
    code: "IO",
    details: { path },
  });
});

test("the command line looks at a store on a read-only mount", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  for (const args of [["ls"], ["show", "a"]])
    expect(
      (await promisify(execFile)(process.execPath, [bin, ...args, "--store", path])).stdout,
    ).toMatch(/in-progress/);
});

describe("an error of a look names the store, and not the copy", () => {
  const spoil = (path: string, at: number, bytes: number) => {
    const fd = openSync(path, "r+");
    writeSync(fd, Buffer.alloc(bytes, 7), 0, bytes, at);
    closeSync(fd);
  };

  test.each([
    { what: "a damaged page", spoils: (path: string) => spoil(path, 18 * 8192, 8192) },
    { what: "a damaged schema", spoils: (path: string) => spoil(path, 100, 400) },
    { what: "a table that is missing", spoils: (path: string) => change(path, "DROP TABLE pin") },
    { what: "an id that is missing", spoils: (path: string) => change(path, "DELETE FROM meta") },
    {
      what: "a page in the middle of the pages that is cut off",
      spoils: (path: string) => truncateSync(path, 20 * 8192),
    },
  ])("$what", async ({ spoils }) => {
    const directory = mounted();
    const path = join(directory, "store.db");
    await made(path, "closed");
    spoils(path);
    makeReadOnly(directory);
    const error = await open(path).then(
      () => expect.fail("it was opened"),
      (thrown: HoldfastError) => thrown,
    );
    expect(error).toMatchObject({ code: "CORRUPT", details: { path } });
    expect(error.message).toContain(path);
    expect(error.message).not.toContain("holdfast-look");
  });

  const change = (path: string, sql: string) => {
    const db = openDriver(path);
    db.exec(sql);
    db.close();
  };

  test("anchors of another store", async () => {
    const directory = mounted();
    const [path, other] = [join(directory, "store.db"), join(directory, "other.db")];
    await made(path, "closed");
    await made(other, "closed");
    copyFileSync(`${other}-anchors`, `${path}-anchors`);
    makeReadOnly(directory);
    const hold = await looked(path);
    const told = await hold.verify().then(({ findings }) => JSON.stringify(findings), String);
    expect(told).toContain(`${path}-anchors`);
    expect(told).not.toContain("holdfast-look");
  });

  test("a directory for temporary files without room for what SQLite adds to the copy", async () => {
    const [directory, tmp] = [mounted(), mounted()];
    const path = join(directory, "store.db");
    await made(path, "closed");
    makeReadOnly(directory);
    writeFileSync(
      join(tmp, "filler"),
      Buffer.alloc(8 * 1024 * 1024 - statSync(path).size - 16 * 1024),
    );
    const full = {
      code: "DISK_FULL",
      details: { path },
      message: expect.stringContaining("Set TMPDIR"),
    };
    await withTmp(tmp, () => expect(open(path)).rejects.toMatchObject(full));
  });
});

test("a store that the disk cannot read is named, where it is copied to be looked at", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  const unread = Object.assign(new Error("EIO: i/o error, copyfile"), { code: "EIO" });
  vi.spyOn(promises, "copyFile").mockRejectedValue(unread);
  syncBuiltinESMExports();
  // From the second page on: the header is read before.
  const read = instead(
    "readSync",
    (fd: number, bytes: Buffer, offset: number, length: number, at: number) => {
      if (length > 8192 && readlinkSync(`/proc/self/fd/${fd}`) === path) throw failure("EIO");
      return read(fd, bytes, offset, length, at);
    },
  );
  await expect(open(path)).rejects.toMatchObject({
    code: "IO",
    details: { path },
    message: expect.stringContaining("could not read"),
  });
});

test("looks that come one after the other leave one listener for the end of the process", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  const look = async () => (await open(path)).close();
  await look();
  const before = process.listenerCount("exit");
  for (let n = 0; n < 3; n++) await look();
  expect(process.listenerCount("exit")).toBe(before);
});

/** Makes a program stand still once it has copied a file. */
const standing = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from "node:fs";
  import fs from "node:fs/promises";
  import { syncBuiltinESMExports } from "node:module";
  const { copyFile } = fs;
  fs.copyFile = async (...args) => {
    await copyFile(...args);
    writeSync(1, "stands");
    await new Promise(() => setInterval(() => {}, 1_000));
  };
  syncBuiltinESMExports();`)}`;

test("a signal to the command line leaves no copy; only a kill does", async () => {
  const directory = mounted();
  const path = join(directory, "store.db");
  await made(path, "closed");
  makeReadOnly(directory);
  const ended = async (words: string[], signal: NodeJS.Signals) => {
    const TMPDIR = fresh();
    const program = spawn(
      process.execPath,
      ["--import", standing, bin, ...words, "--store", path],
      { env: { ...process.env, TMPDIR } },
    );
    const exited = once(program, "exit");
    programs.push(program);
    await once(program.stdout, "data");
    const before = readdirSync(TMPDIR, { recursive: true }).filter((name) =>
      String(name).endsWith("store.db"),
    ).length;
    program.kill(signal);
    const [code, by] = await exited;
    return { before, after: readdirSync(TMPDIR).length, code, by };
  };
  const gone = { before: 1, after: 0, by: null };
  expect(
    await Promise.all([
      ended(["verify"], "SIGINT"),
      ended(["ls"], "SIGTERM"),
      ended(["verify"], "SIGHUP"),
      ended(["mcp", "--read-only"], "SIGHUP"),
      ended(["ls"], "SIGKILL"),
    ]),
  ).toEqual([
    { ...gone, code: 130 },
    { ...gone, code: 143 },
    { ...gone, code: 129 },
    { ...gone, code: 129 },
    { before: 1, after: 1, code: null, by: "SIGKILL" },
  ]);
});
