/**
 * Full disks, limits and read-only places: a typed error, nothing half written, and work goes on
 * once there is room (D1, D2).
 */
import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.js";
import { type Child, type Line, startPuppet } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";

const children: Child[] = [];
const mounts: string[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await child.end();
  for (const directory of mounts.splice(0)) execFileSync("umount", [directory]);
});

async function puppet(path: string, command: readonly string[] = []): Promise<Child> {
  const child = startPuppet({ command });
  children.push(child);
  await child.ask({ do: "open", path });
  return child;
}

/** Saves until it fails. Answers the ids that were acknowledged and the error. */
async function fill(
  child: Child,
  session: string,
  options: { readonly count?: number; readonly times?: number } = {},
): Promise<{ acknowledged: string[]; error: Line }> {
  const from = child.lines.length;
  const { error } = await child.ask({
    do: "save",
    session,
    text: "x".repeat(3_000),
    times: options.times ?? 2_000,
    count: options.count ?? 1,
  });
  return { acknowledged: child.lines.slice(from).flatMap(({ saved }) => saved ?? []), error };
}

/** Everything acknowledged is there, and the whole is sound. */
async function holds(
  path: string,
  session: string,
  acknowledged: readonly string[],
): Promise<void> {
  const hold = await open(path);
  try {
    expect((await hold.verify()).findings).toEqual([]);
    const lost: string[] = [];
    for (const id of acknowledged)
      if ((await hold.checkpoints.get(id)) === undefined) lost.push(id);
    expect(lost, "acknowledged and not there").toEqual([]);
    const { messages } = await hold.checkpoints.state(acknowledged.at(-1) as string);
    expect(messages.length).toBeGreaterThan(0);
    const held = await hold.session(session, { waitMs: 5_000 });
    held.append({ role: "user", content: "there is room" });
    await held.checkpoint();
  } finally {
    await hold.close();
  }
}

const TYPED = expect.objectContaining({
  name: "HoldfastError",
  code: expect.stringMatching(/^(DISK_FULL|IO)$/),
});

const kinds = [
  { name: "sqlite", at: (directory: string) => join(directory, "store.db") },
  { name: "dir", at: (directory: string) => `dir:${join(directory, "store")}` },
];

describe.each(kinds)("$name", ({ at }) => {
  // One message a save is a single statement that commits by itself; a session's first save also
  // writes its head and is a transaction.
  test.each([200_000, 300_000, 300_500, 400_000, 1_000_000])(
    "D1: a file that may not grow past %i bytes",
    async (limit) => {
      const path = at(fresh());
      await (await open(path)).close();
      const child = await puppet(path, ["prlimit", `--fsize=${limit}`]);
      expect((await child.ask({ do: "session", session: "a" })).error).toBeUndefined();
      const { acknowledged, error } = await fill(child, "a");
      expect(error).toEqual(TYPED);
      expect(acknowledged.length).toBeGreaterThan(1);
      await child.end();
      await holds(path, "a", acknowledged);
    },
  );

  test("D1: too many open files: a typed error, nothing half written, and the same process goes on once some are closed", async () => {
    const path = at(fresh());
    const child = await puppet(path, ["prlimit", "--nofile=256"]);
    for (const session of ["a", "b"]) await child.ask({ do: "session", session });
    const { checkpoint: first } = await child.ask({ do: "save", session: "a", text: "before" });
    expect(await child.ask({ do: "take-descriptors" })).toMatchObject({ code: "EMFILE" });
    // A first save makes files, and a reader opens some; a later save may need none.
    const answers = [
      await child.ask({ do: "save", session: "b", text: "needs a new file" }),
      await child.ask({ do: "append", session: "c", texts: ["a new session"] }),
      await child.ask({ do: "gc" }),
      await child.ask({ do: "verify" }),
      await child.ask({ do: "open-again", path }),
    ];
    for (const { error } of answers)
      if (error !== undefined)
        expect(error).toMatchObject({
          name: "HoldfastError",
          code: "BUSY",
          message: expect.stringContaining("EMFILE"),
        });
    expect(answers.slice(-2).every(({ error }) => error !== undefined)).toBe(true);
    await child.ask({ do: "give-descriptors" });
    const { checkpoint: second } = await child.ask({ do: "again", session: "b" });
    const { checkpoint: third } = await child.ask({ do: "save", session: "a", text: "after" });
    expect(await child.ask({ do: "append", session: "c", texts: ["a new session"] })).toMatchObject(
      { taken: [true] },
    );
    expect(await child.ask({ do: "verify" })).toMatchObject({ ok: true });
    await child.end();
    await holds(path, "b", [first.id, third.id, second.id]);
  });

  test("D1: a full disk, and room again: the same process goes on, and what failed lands once", async () => {
    const directory = fresh();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", directory]);
    mounts.push(directory);
    const path = at(directory);
    const ballast = join(directory, "ballast");
    writeFileSync(ballast, Buffer.alloc(1_350_000));
    const child = await puppet(path);
    await child.ask({ do: "session", session: "a" });
    const { acknowledged, error } = await fill(child, "a");
    expect(error).toEqual(
      expect.objectContaining({ name: "HoldfastError", code: "DISK_FULL", retryable: true }),
    );
    expect(acknowledged.length).toBeGreaterThan(5);

    // Still full: it fails again, in the same way.
    expect((await child.ask({ do: "again", session: "a" })).error).toEqual(
      expect.objectContaining({ code: "DISK_FULL" }),
    );
    expect(await child.ask({ do: "list", session: "a" })).toMatchObject({
      checkpoints: acknowledged.length,
    });

    rmSync(ballast);
    const { checkpoint, error: late } = await child.ask({ do: "again", session: "a" });
    expect(late).toBeUndefined();
    // Every acknowledged message, the one of the save that failed, and nothing twice.
    expect(checkpoint.messageCount).toBe(acknowledged.length + 1);
    expect((await child.ask({ do: "verify" })).ok).toBe(true);
    await child.ask({ do: "close" });
    await holds(path, "a", [...acknowledged, checkpoint.id]);
  });

  test("a disk that is full before a store is made: typed, and made once there is room", async () => {
    const directory = fresh();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]);
    mounts.push(directory);
    const path = at(directory);
    writeFileSync(join(directory, "ballast"), Buffer.alloc(1024 * 1024));
    await expect(open(path)).rejects.toMatchObject({
      name: "HoldfastError",
      code: expect.stringMatching(/^(DISK_FULL|IO)$/),
    });
    rmSync(join(directory, "ballast"));
    const hold = await open(path);
    const session = await hold.session("a");
    session.append({ role: "user", content: "hello" });
    await session.checkpoint();
    expect((await hold.verify()).ok).toBe(true);
    await hold.close();
  });
});

// Root may write anywhere, so the child becomes somebody else first.
const NOBODY = 65_534;

async function stranger(): Promise<Child> {
  const child = startPuppet();
  children.push(child);
  await child.ask({ do: "setuid", uid: NOBODY });
  return child;
}

async function made(): Promise<{ directory: string; path: string }> {
  const directory = join(fresh(), "place");
  mkdirSync(directory);
  const path = join(directory, "store.db");
  const hold = await open(path);
  const session = await hold.session("a");
  session.append({ role: "user", content: "one" });
  await session.checkpoint();
  await hold.close();
  return { directory, path };
}

test.each([
  { what: "a file that may not be read", file: 0o600, place: 0o755, owned: false, looks: false },
  {
    what: "a file that may only be read, in a directory that may only be read",
    file: 0o644,
    place: 0o755,
    owned: false,
    looks: true,
  },
  {
    what: "a file that may be written, in a directory that may only be read",
    file: 0o666,
    place: 0o755,
    owned: false,
    looks: true,
  },
  {
    what: "a file of its own that may only be read",
    file: 0o400,
    place: 0o777,
    owned: true,
    looks: true,
  },
  {
    what: "a directory that may not be entered",
    file: 0o666,
    place: 0o700,
    owned: false,
    looks: false,
  },
])("read-only: $what", async ({ file, place, owned, looks }) => {
  const { directory, path } = await made();
  for (const each of [path, `${path}-anchors`]) {
    chmodSync(each, file);
    if (owned) chownSync(each, NOBODY, NOBODY);
  }
  chmodSync(directory, place);
  const before = readdirSync(directory).map((name) => [name, statSync(join(directory, name)).size]);
  const child = await stranger();
  const opened = await child.ask({ do: "open", path });
  expect(opened.error === undefined).toBe(looks);
  if (looks)
    expect(await child.ask({ do: "list", session: "a" })).toMatchObject({ checkpoints: 1 });
  const { error } = looks ? await child.ask({ do: "session", session: "a" }) : opened;
  expect(error).toEqual(
    expect.objectContaining({
      name: "HoldfastError",
      code: "IO",
      message: expect.stringContaining(directory),
    }),
  );
  await child.end();
  chmodSync(directory, 0o755);
  expect(
    readdirSync(directory).map((name) => [name, statSync(join(directory, name)).size]),
  ).toEqual(before);
  const hold = await open(path);
  expect((await hold.verify()).findings).toEqual([]);
  await hold.close();
});

test("read-only: a new store in a directory that may not be written", async () => {
  const { directory } = await made();
  chmodSync(directory, 0o755);
  const child = await stranger();
  const { error } = await child.ask({ do: "open", path: join(directory, "new.db") });
  expect(error).toEqual(expect.objectContaining({ name: "HoldfastError", code: "IO" }));
});

test("too many open files: typed, and works once there are fewer", async () => {
  const { path } = await made();
  const child = startPuppet();
  children.push(child);
  await child.ask({ do: "ready" });
  execFileSync("prlimit", [`--pid=${child.pid}`, "--nofile=20:4096"]);
  const { error } = await child.ask({ do: "open", path });
  if (error === undefined) throw new Error("the limit was not low enough to hit");
  expect(error).toMatchObject({ name: "HoldfastError", code: "BUSY" });
  execFileSync("prlimit", [`--pid=${child.pid}`, "--nofile=4096:4096"]);
  expect((await child.ask({ do: "open", path })).error).toBeUndefined();
  await child.ask({ do: "session", session: "a" });
  expect((await child.ask({ do: "save", session: "a", text: "two" })).error).toBeUndefined();
});

test("negative control: an acknowledged save that is not there is caught", async () => {
  const { path } = await made();
  copyFileSync(path, `${path}.old`);
  const hold = await open(path);
  const session = await hold.session("a");
  session.append({ role: "user", content: "two" });
  const { id } = await session.checkpoint();
  await hold.close();
  rmSync(`${path}-anchors`);
  copyFileSync(`${path}.old`, path);
  await expect(holds(path, "a", [id])).rejects.toThrow(/acknowledged and not there/);
});
