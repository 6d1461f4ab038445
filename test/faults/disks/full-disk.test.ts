/**
 * A full disk is freed from inside: deletes, prunes and gc use the reserve, saves do not (RESERVE-1
 * to RESERVE-3).
 */
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { type Holdfast, open, type Session } from "../../../src/index.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

const mounts: string[] = [];
const opened: Holdfast[] = [];
afterEach(async () => {
  vi.useRealTimers();
  mend();
  for (const hold of opened.splice(0)) await hold.close().catch(() => {});
  for (const directory of mounts.splice(0)) execFileSync("umount", [directory]);
});

const kinds = [
  {
    name: "sqlite",
    at: (directory: string) => join(directory, "store.db"),
    reserve: "store.db-reserve",
    disk: "80m",
    large: 11,
    reserved: 10 * 1024 * 1024,
    room: 2_000_000,
    /** The whole file is written anew, which needs more room than the reserve has. */
    scrub: false,
  },
  {
    name: "dir",
    at: (directory: string) => `dir:${join(directory, "store")}`,
    reserve: "store/reserve",
    disk: "8m",
    large: 1,
    reserved: 512 * 1024,
    room: 200_000,
    scrub: true,
  },
];

function fillWhole(directory: string): void {
  for (let bytes = 1_048_576; bytes >= 1; bytes = Math.floor(bytes / 2)) {
    try {
      for (;;) appendFileSync(join(directory, "ballast"), Buffer.alloc(bytes));
    } catch {
      // It is full for so many bytes.
    }
  }
}

const openFiles = (): readonly string[] =>
  readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return [];
    }
  });

const say = (bytes: number) => ({
  role: "user" as const,
  content: randomBytes(bytes / 2).toString("hex"),
});

describe.each(kinds)("$name", ({ at, reserve, reserved, disk, large, room, scrub }) => {
  /**
   * A store with sessions to delete, on a disk of its own, after the time at which it makes a
   * reserve.
   */
  async function made() {
    const directory = fresh();
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${disk}`, "tmpfs", directory]);
    mounts.push(directory);
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const hold = await open(at(directory));
    opened.push(hold);
    for (const id of ["a", "b", "c"]) {
      const session = await hold.session(id);
      for (let n = 0; n < 10; n++) {
        session.append(say(3_000));
        await session.checkpoint();
      }
      await session.close();
    }
    const live = await hold.session("live");
    for (let n = 0; n < large; n++) live.append(say(1_000_000));
    await live.checkpoint();
    return { directory, hold, live, path: join(directory, reserve) };
  }

  async function passTime(path: string, bytes = reserved): Promise<void> {
    vi.advanceTimersByTime(10_000);
    vi.useRealTimers();
    await expect.poll(() => statSync(path).size, { interval: 5 }).toBe(bytes);
    // The room of a file that is still open is not free when it is removed.
    await expect.poll(openFiles, { interval: 5 }).not.toContain(path);
  }

  /** Others fill the disk up to a little, and saves take that. */
  async function fill(directory: string, live: Session): Promise<void> {
    const ballast = join(directory, "ballast");
    const { bavail, bsize } = statfsSync(directory);
    appendFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - room)));
    await saveUntilFull(live, 7_000);
  }

  /** Others take all that is left, and the log has no room inside of it either. */
  async function fillEntirely(directory: string, live: Session): Promise<void> {
    await fill(directory, live);
    fillWhole(directory);
    await live.checkpoint().catch(() => {});
    await saveUntilFull(live, 200);
  }

  async function saveUntilFull(live: Session, bytes: number): Promise<void> {
    for (;;) {
      live.append(say(bytes));
      const error = await live.checkpoint().then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      if (error === undefined) continue;
      expect(error).toMatchObject({ code: "DISK_FULL", retryable: true });
      return;
    }
  }

  /** An agent with a session and three snapshots of it. */
  async function addAgent(hold: Holdfast): Promise<readonly string[]> {
    await hold.agents.save({ id: "ada" });
    const session = await hold.session("d", { agent: "ada" });
    const taken: string[] = [];
    for (let n = 0; n < 3; n++) {
      session.append({ role: "user", content: `${"kelp ".repeat(500)}${n}` });
      await session.checkpoint();
      taken.push((await hold.agents.snapshot("ada")).id);
    }
    await session.close();
    return taken;
  }

  test("RESERVE-1: prune, delete and gc free a full disk, and the same process saves again", async () => {
    const { directory, hold, live, path } = await made();
    await passTime(path);
    await fill(directory, live);
    expect(existsSync(path)).toBe(true);
    expect(await hold.checkpoints.prune("a", { keep: 1 })).toMatchObject({ removed: 9 });
    expect(await hold.sessions.delete("b")).toMatchObject({ deleted: true, keptFor: [] });
    const [, second] = (await hold.checkpoints.list("c")).items;
    await hold.checkpoints.delete(second?.id ?? "");
    await hold.gc();
    await live.checkpoint();
    for (let n = 0; n < 5; n++) {
      live.append(say(3_000));
      await live.checkpoint();
    }
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
    const again = await open(at(directory));
    opened.push(again);
    expect((await again.verify()).findings).toEqual([]);
    expect((await again.sessions.list()).items.map(({ id }) => id)).toEqual(["live", "c", "a"]);
  });

  test.each<{
    readonly name: string;
    readonly free: (hold: Holdfast, snapshots: readonly string[]) => Promise<unknown>;
  }>([
    {
      name: "agents.pruneSnapshots",
      free: (hold) => hold.agents.pruneSnapshots("ada", { keep: 1 }),
    },
    {
      name: "agents.deleteSnapshot",
      free: (hold, [first = ""]) => hold.agents.deleteSnapshot(first),
    },
    {
      name: "agents.deleteSnapshot with a key",
      free: (hold, [first = ""]) => hold.agents.deleteSnapshot(first, { key: "k" }),
    },
    { name: "agents.delete", free: (hold) => hold.agents.delete("ada") },
    { name: "sessions.redact", free: (hold) => hold.sessions.redact("d", "kelp", { scrub }) },
    { name: "checkpoints.prune", free: (hold) => hold.checkpoints.prune("a", { keep: 1 }) },
    {
      name: "checkpoints.delete with a key",
      free: async (hold) =>
        hold.checkpoints.delete((await hold.checkpoints.list("c")).items[1]?.id ?? "", {
          key: "k",
        }),
    },
    { name: "retention.apply", free: (hold) => hold.retention.apply() },
    { name: "gc", free: (hold) => hold.gc() },
  ])("RESERVE-1: $name works on a disk that is entirely full", async ({ free }) => {
    const { directory, hold, live, path } = await made();
    const snapshots = await addAgent(hold);
    await hold.retention.set({ keep: 1, snapshots: { keep: 1 } });
    await hold.sessions.delete("b");
    await passTime(path);
    await fillEntirely(directory, live);
    await free(hold, snapshots);
    expect((await hold.verify()).findings).toEqual([]);
  });

  test("snapshots that pin what a deleted session held are removed first, and the disk is freed", async () => {
    const { directory, hold, live, path } = await made();
    await addAgent(hold);
    await passTime(path);
    await fillEntirely(directory, live);
    expect(await hold.sessions.delete("d")).toMatchObject({ deleted: true });
    expect(await hold.agents.delete("ada")).toMatchObject({ snapshots: 3 });
    await hold.gc();
    await live.checkpoint();
    expect((await hold.verify()).findings).toEqual([]);
  });

  test("negative control: what does not free room leaves the reserve alone", async () => {
    const { directory, hold, live, path } = await made();
    const snapshots = await addAgent(hold);
    await passTime(path);
    await fillEntirely(directory, live);
    const full = { code: "DISK_FULL" };
    const large = "x".repeat(100_000);
    await expect(hold.agents.save({ id: "ben", metadata: { large } })).rejects.toMatchObject(full);
    await expect(hold.sessions.update("a", { metadata: { large } })).rejects.toMatchObject(full);
    await expect(hold.agents.restore(snapshots[0] ?? "", { takeOver: true })).rejects.toMatchObject(
      full,
    );
    expect(statSync(path).size).toBe(reserved);
  });

  test("a closed store on a full disk can be opened, and freed", async () => {
    const { directory, hold, path } = await made();
    await passTime(path);
    await hold.close();
    fillWhole(directory);
    const again = await open(at(directory));
    opened.push(again);
    expect((await again.sessions.list()).items).toHaveLength(4);
    for (const id of ["a", "live"]) await again.sessions.delete(id);
    await again.gc();
    const session = await again.session("b");
    session.append(say(3_000));
    await session.checkpoint();
    expect((await again.verify()).findings).toEqual([]);
  });

  test("RESERVE-4: looks at a store on a full disk leave the reserve as it was", async () => {
    const { directory, hold, path } = await made();
    await passTime(path);
    await hold.close();
    for (let n = 0; n < 25; n++) {
      fillWhole(directory);
      const look = await open(at(directory));
      opened.push(look);
      expect((await look.sessions.list()).items).toHaveLength(4);
      await look.close();
      expect(statSync(path).size, `look ${n}`).toBe(reserved);
    }
    const again = await open(at(directory));
    opened.push(again);
    expect(await again.sessions.delete("b")).toMatchObject({ deleted: true });
  });

  test("a store is opened and freed by what is left of a reserve", async () => {
    const { directory, hold, path } = await made();
    await passTime(path);
    await hold.close();
    truncateSync(path, 400_000);
    fillWhole(directory);
    const again = await open(at(directory));
    opened.push(again);
    for (const id of ["live", "a"])
      expect(await again.sessions.delete(id)).toMatchObject({ deleted: true });
    await again.gc();
    const session = await again.session("b");
    session.append(say(3_000));
    await session.checkpoint();
    expect((await again.verify()).findings).toEqual([]);
  });

  /** A full disk, and before that one save that is longer than the reserve. */
  async function madeWithLongLog() {
    const { directory, hold, live, path } = await made();
    await passTime(path);
    const big = await hold.session("big");
    const { bavail, bsize } = statfsSync(directory);
    const bytes = 3 * reserved;
    appendFileSync(join(directory, "ballast"), Buffer.alloc(bavail * bsize - bytes - 1.5 * room));
    for (let n = 0; n < bytes; n += 50_000) big.append(say(50_000));
    await big.checkpoint();
    await fillEntirely(directory, live);
    return { directory, hold, live };
  }

  test("RECLAIM-1: deletes and gc free a full disk also after one save that is longer than the reserve", async () => {
    const { directory, hold, live } = await madeWithLongLog();
    for (const id of ["a", "b", "c"])
      expect(await hold.sessions.delete(id)).toMatchObject({ deleted: true });
    expect(await hold.sessions.delete("big")).toMatchObject({ deleted: true });
    await hold.gc();
    await live.checkpoint();
    const left = statfsSync(directory);
    expect(left.bavail * left.bsize).toBeGreaterThan(2 * reserved);
    expect((await hold.verify()).findings).toEqual([]);
  });

  test("RECLAIM-1: so do they if each is a process of its own, which moves the log when it closes the store", async () => {
    const { directory, hold } = await madeWithLongLog();
    await hold.close();
    const each = async (run: (hold: Holdfast) => Promise<unknown>) => {
      const again = await open(at(directory));
      opened.push(again);
      await run(again);
      await again.close();
    };
    for (const id of ["a", "b", "c", "big"]) await each((again) => again.sessions.delete(id));
    await each((again) => again.gc());
    await each(async (again) => {
      const session = await again.session("live");
      session.append(say(3_000));
      await session.checkpoint();
      expect((await again.verify()).findings).toEqual([]);
    });
    const left = statfsSync(directory);
    expect(left.bavail * left.bsize).toBeGreaterThan(2 * reserved);
  });

  test("gc makes the reserve again once there is room", async () => {
    const { directory, hold, live, path } = await made();
    await passTime(path);
    await fill(directory, live);
    await hold.sessions.delete("b");
    expect(existsSync(path)).toBe(false);
    rmSync(join(directory, "ballast"));
    await hold.gc();
    expect(existsSync(path)).toBe(true);
  });

  test.each([
    { name: "was given up", left: undefined },
    { name: "is shorter than it was", left: 100_000 },
  ])("gc of another process makes a reserve again that $name", async ({ left }) => {
    const { directory, hold, path } = await made();
    await passTime(path);
    await hold.close();
    if (left === undefined) rmSync(path);
    else truncateSync(path, left);
    const again = await open(at(directory));
    opened.push(again);
    expect(statSync(path, { throwIfNoEntry: false })?.size).toBe(left);
    await again.gc({ dryRun: true });
    expect(statSync(path, { throwIfNoEntry: false })?.size).toBe(left);
    await again.gc();
    expect(statSync(path).size).toBe(reserved);
  });

  test("negative control: gc makes no reserve on a disk that has little room", async () => {
    const { directory, hold, path } = await made();
    vi.useRealTimers();
    const { bavail, bsize } = statfsSync(directory);
    appendFileSync(join(directory, "ballast"), Buffer.alloc(bavail * bsize - 2 * reserved));
    await hold.gc();
    expect(existsSync(path)).toBe(false);
  });

  test("negative control: without a reserve a delete fails, says what to do, and works once there is room", async () => {
    const { directory, hold, live } = await made();
    vi.useRealTimers();
    await fill(directory, live);
    const refused = {
      code: "DISK_FULL",
      details: { path: expect.stringContaining(directory) },
      message: expect.stringMatching(/Free about .* run gc/),
    };
    await expect(hold.sessions.delete("b")).rejects.toMatchObject(refused);
    await expect(hold.checkpoints.prune("a", { keep: 1 })).rejects.toMatchObject(refused);
    expect(await hold.sessions.get("b")).toBeDefined();
    rmSync(join(directory, "ballast"));
    await hold.sessions.delete("b");
    await live.checkpoint();
    expect((await hold.verify()).findings).toEqual([]);
  });

  test.each(["a file", "a link"])(
    "RESERVE-3: %s of the same name that is not a reserve is left alone",
    async (what) => {
      const { directory, hold, live, path } = await made();
      const own = what === "a file" ? path : join(directory, "own");
      writeFileSync(own, "mine");
      if (own !== path) symlinkSync(own, path);
      await passTime(path, 4);
      await fill(directory, live);
      await expect(hold.sessions.delete("b")).rejects.toMatchObject({ code: "DISK_FULL" });
      expect([existsSync(path), readFileSync(own, "utf8")]).toEqual([true, "mine"]);
    },
  );
});

test.each(["ENOSPC", "EDQUOT"])(
  "a new SQLite store for which there is no room (%s) is DISK_FULL, with its path",
  async (code) => {
    const path = join(fresh(), "store.db");
    const openSync = instead("openSync", (file: string, flags: string, ...more: unknown[]) => {
      if (file === path && flags === "ax") throw failure(code);
      return openSync(file, flags, ...more);
    });
    await expect(open(path)).rejects.toMatchObject({ code: "DISK_FULL", details: { path } });
    mend();
    await (await open(path)).close();
  },
);

describe("sqlite, to be opened", () => {
  const [{ at }] = kinds as [(typeof kinds)[0]];
  const note =
    "Holdfast keeps this room to be able to delete when the disk is full. It may be removed.\n";

  /** A closed store, and beside it a reserve of so many bytes, on a disk that is entirely full. */
  async function closed(bytes: number) {
    const directory = fresh();
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", directory]);
    mounts.push(directory);
    const hold = await open(at(directory));
    const session = await hold.session("a");
    session.append(say(1_000));
    await session.checkpoint();
    await hold.close();
    const path = join(directory, "store.db-reserve");
    if (bytes > 0)
      writeFileSync(path, Buffer.concat([Buffer.from(note), randomBytes(bytes - note.length)]));
    fillWhole(directory);
    return { directory, path };
  }

  async function look(directory: string, meanwhile: () => void = () => {}): Promise<void> {
    const hold = await open(at(directory));
    opened.push(hold);
    expect((await hold.sessions.list()).items).toHaveLength(1);
    meanwhile();
    await hold.close();
  }

  test("RESERVE-4: where others take what was borrowed, a look costs little, and the last of the reserve still opens the store", async () => {
    const { directory, path } = await closed(300 * 1024);
    for (let n = 0; n < 4; n++) {
      const { size } = statSync(path);
      await look(directory, () => fillWhole(directory));
      expect(size - statSync(path).size).toBeLessThanOrEqual(64 * 1024);
      fillWhole(directory);
    }
    truncateSync(path, 40 * 1024);
    fillWhole(directory);
    await look(directory);
  });

  test("where there is no reserve, the error says what to do", async () => {
    const { directory } = await closed(0);
    await expect(look(directory)).rejects.toMatchObject({
      code: "DISK_FULL",
      details: { path: at(directory) },
      message: expect.stringMatching(/To open the store needs some room.* Free .* open it again/),
    });
    rmSync(join(directory, "ballast"));
    await look(directory);
  });

  test("where the reserve cannot be borrowed from, the error names it", async () => {
    const { directory, path } = await closed(300 * 1024);
    renameSync(path, `${path}.real`);
    symlinkSync(`${path}.real`, path);
    await expect(look(directory)).rejects.toMatchObject({
      code: "DISK_FULL",
      message: expect.stringContaining("store.db-reserve"),
    });
    expect(statSync(path).size).toBe(300 * 1024);
  });
});
