/**
 * Attacks through the file system: links that lead out of a store, pipes that never answer, names
 * that become paths, modes.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Holdfast, HoldfastError, open, restoreBackup } from "../../src/index.js";
import { errorOf } from "../support/error-of.js";
import { scratch } from "../support/stores.js";

const root = scratch();
let made = 0;
/** A directory with nothing in it. */
function place(): string {
  made += 1;
  const own = join(root, `place-${made}`);
  mkdirSync(own, { mode: 0o700 });
  return own;
}

/** Everything below a directory, without following links. */
const below = (directory: string): string[] =>
  readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? [path, ...below(path)] : [path];
  });

/** What stands there, name by name, and what it holds. */
const contents = (directory: string): Record<string, string> =>
  Object.fromEntries(
    below(directory).map((path) => [
      relative(directory, path),
      lstatSync(path).isFile()
        ? `${readFileSync(path, "base64")} ${lstatSync(path).mtimeMs}`
        : "directory",
    ]),
  );

/** A bit of everything that makes files: saves, blobs, mail, documents, an index for search. */
async function work(hold: Holdfast, word: string): Promise<void> {
  const session = await hold.session("s", { agent: "a" });
  session.append({
    role: "user",
    content: [
      { type: "file", mediaType: "text/plain", data: { bytes: Buffer.from(`file ${word}`) } },
    ],
  });
  session.append({ role: "user", content: `${word} `.repeat(3_000) });
  session.set("k", word);
  await session.checkpoint();
  await session.close();
  await hold.sessions.signal("s", "hello", word);
  await hold.agents.save({ id: "a", state: { word } });
  await hold.sessions.search(word);
  await hold.gc();
}

/** All that a program does with a store; what it was refused with. */
async function use(address: string): Promise<readonly unknown[]> {
  const errors: unknown[] = [];
  const tries = async (call: () => Promise<unknown>): Promise<void> => {
    try {
      await call();
    } catch (error) {
      errors.push(error);
    }
  };
  await tries(async () => {
    const hold = await open(address, { leaseMs: 1_000, busyMs: 100 });
    await tries(() => hold.sessions.list());
    await tries(() => hold.sessions.state("s"));
    await tries(() => work(hold, "again"));
    await tries(() => hold.verify());
    await tries(() => hold.sessions.delete("s"));
    await tries(() => hold.gc());
    await tries(() => hold.close());
  });
  return errors;
}

const kinds = [
  { name: "sqlite", address: (directory: string) => join(directory, "store.db") },
  { name: "dir", address: (directory: string) => `dir:${join(directory, "store")}` },
] as const;

const asked = process.umask(0);
afterAll(() => void process.umask(asked));

describe.each(kinds)("files of $name, where the umask forbids nothing", ({ address }) => {
  test("are for their owner alone", async () => {
    const directory = place();
    const hold = await open(address(directory));
    await work(hold, "kelp");
    const paths = below(directory);
    expect(paths.length).toBeGreaterThan(3);
    for (const path of paths) {
      const found = lstatSync(path);
      expect([relative(directory, path), found.mode & 0o777]).toEqual([
        relative(directory, path),
        found.isDirectory() ? 0o700 : 0o600,
      ]);
    }
    await hold.close();
  });
});

test("a backup, and a store that is restored from one that all can read, are for their owner alone", async () => {
  const directory = place();
  const [backup, store] = [join(directory, "b.backup"), join(directory, "restored.db")];
  const hold = await open(join(directory, "s.db"));
  await hold.backup(backup);
  await hold.close();
  expect(lstatSync(backup).mode & 0o777).toBe(0o600);
  chmodSync(backup, 0o644);
  await restoreBackup(backup, store);
  expect(lstatSync(store).mode & 0o777).toBe(0o600);
  // An operator who shares a store with a group keeps it shared.
  chmodSync(store, 0o660);
  const { setAside } = await restoreBackup(backup, store, { force: true });
  expect([store, setAside as string].map((path) => lstatSync(path).mode & 0o777)).toEqual([
    0o660, 0o660,
  ]);
});

describe.each(kinds)("links and pipes in $name", ({ address, name }) => {
  let honest: string;
  let entries: readonly string[];
  let waker: ChildProcess | undefined;
  beforeAll(async () => {
    honest = place();
    // Killed while it was open: its logs, locks and drafts stand beside it.
    const hold = await open(address(honest), { leaseMs: 1_000 });
    await work(hold, "kelp");
    const copy = place();
    cpSync(honest, copy, { recursive: true });
    await hold.close();
    honest = copy;
    entries = below(honest).map((path) => relative(honest, path));
  });
  afterEach(() => {
    waker?.kill();
    waker = undefined;
  });

  const copyOf = (): string => {
    const copy = place();
    cpSync(honest, copy, { recursive: true });
    return copy;
  };

  test("what is read and written stays in the store, where any file or directory became a link out of it", async () => {
    expect(entries.length).toBeGreaterThan(2);
    let linked = 0;
    for (const entry of entries) {
      const directory = copyOf();
      const outside = place();
      const victim = join(outside, "victim");
      renameSync(join(directory, entry), victim);
      // The file of a SQLite store, and the directory of the other kind, may be a link that its
      // operator made.
      if (address(directory).endsWith(join(directory, entry))) continue;
      symlinkSync(victim, join(directory, entry));
      const before = contents(outside);
      for (const error of await use(address(directory)))
        expect(error, entry).toBeInstanceOf(HoldfastError);
      expect(contents(outside), entry).toEqual(before);
      linked += 1;
    }
    expect(linked).toBeGreaterThan(1);
  });

  test("a pipe in the place of any file does not hang", async () => {
    for (const entry of entries.filter((path) => lstatSync(join(honest, path)).isFile())) {
      const directory = copyOf();
      const pipe = join(directory, entry);
      renameSync(pipe, join(place(), "taken"));
      execFileSync("mkfifo", [pipe]);
      // If a call hangs after all, this ends it, and the time tells.
      waker = spawn("sh", ["-c", 'sleep 20; : <> "$0"', pipe], { stdio: "ignore" });
      const began = performance.now();
      for (const error of await use(address(directory)))
        expect(error, entry).toBeInstanceOf(HoldfastError);
      expect(performance.now() - began, entry).toBeLessThan(15_000);
      waker.kill();
    }
  });

  test("control: the copy itself can be used", async () => {
    expect(await use(address(copyOf())), name).toEqual([]);
  });
});

describe.each(kinds)("ids in $name", ({ address }) => {
  const long = "x".repeat(200);
  const odd = [
    "../x",
    "../../etc/passwd",
    "a/b",
    "a\\b",
    "..",
    ".",
    ".hidden",
    "CON",
    "con",
    "nul.txt",
    "a:b",
    "Case",
    "case",
    "CASE",
  ];
  const ids = [
    ...odd,
    "é",
    "e\u0301",
    "~",
    "a.",
    "a ",
    "-rf",
    "%2e%2e",
    "holdfast.json",
    "lock-1.json",
    long,
    long.toUpperCase(),
  ];

  test("are names and never paths: each has its own session, and nothing is made outside of the store", async () => {
    const directory = place();
    const hold = await open(address(directory));
    for (const id of ids) {
      const session = await hold.session(id, { agent: id });
      session.append({ role: "user", content: `I am ${id}` });
      await session.checkpoint();
      await session.close();
      await hold.agents.save({ id, state: { id } });
    }
    for (const id of ids) {
      expect((await hold.sessions.state(id)).messages.map(({ content }) => content)).toEqual([
        `I am ${id}`,
      ]);
      expect((await hold.agents.get(id))?.state).toEqual({ id });
    }
    expect((await hold.sessions.list({ limit: 100 })).items).toHaveLength(ids.length);
    for (const tenant of ["../t", "CON", "T", "t"]) {
      const other = await open(address(directory), { tenant });
      expect((await other.sessions.list()).items).toEqual([]);
      await (await other.session("own")).close();
      await other.close();
    }
    expect(readdirSync(directory).filter((name) => !name.startsWith("store"))).toEqual([]);
    expect(existsSync(join(root, "x"))).toBe(false);
    await hold.close();
  });

  test.each([
    ["NUL", "a\0b"],
    ["a line break", "a\nb"],
    ["nothing", ""],
    ["201 bytes", `${long}x`],
    ["half a character", "\ud800"],
  ])("an id with %s is refused", async (_what, id) => {
    const hold = await open(address(place()));
    for (const call of [
      () => hold.session(id),
      () => hold.agents.save({ id }),
      () => hold.sessions.delete(id),
    ])
      expect(await errorOf(call)).toMatchObject({ code: "INVALID_ID" });
    await hold.close();
  });
});

test("an export, a backup and a store are not written through a link that another user put there", async () => {
  const directory = place();
  const victim = join(directory, "victim");
  writeFileSync(victim, "precious");
  const hold = await open(join(directory, "s.db"));
  const link = join(directory, "link");
  symlinkSync(victim, link);
  expect(await errorOf(() => hold.backup(link, { force: true }))).toMatchObject({
    code: "CONFLICT",
  });
  await hold.close();
  expect(await errorOf(() => open(link))).toMatchObject({ code: "NOT_A_STORE" });
  expect(await errorOf(() => open(`dir:${link}`))).toMatchObject({ code: "NOT_A_STORE" });
  expect(readFileSync(victim, "utf8")).toBe("precious");
});
