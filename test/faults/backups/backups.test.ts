/**
 * Backups with real processes: made under writers, killed at random moments, put in the place of a
 * store that others use or were killed in.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { open, restoreBackup } from "../../../src/index.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";
import { random, SEED } from "../../support/random.mjs";
import { backupCampaign, largeStore, lookInto } from "./backup-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_BACKUP_KILLS"] ?? 15);

const children: Child[] = [];
const mounts: string[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await child.end();
  for (const directory of mounts.splice(0)) execFileSync("umount", [directory]);
});

async function puppet(path: string | undefined, command: readonly string[] = []): Promise<Child> {
  const child = startPuppet({ command });
  children.push(child);
  if (path !== undefined) await child.ask({ do: "open", path });
  return child;
}

const saved = ({ lines }: Child): string[] => lines.flatMap(({ saved: id }) => id ?? []);

test("BACKUP-1 two processes write all the while: what was acknowledged before is in it, they go on, and so does this one", async () => {
  const directory = fresh();
  const path = join(directory, "store.db");
  await largeStore(path, 40);
  const writers = [await puppet(path), await puppet(path)];
  for (const [i, writer] of writers.entries()) {
    await writer.ask({ do: "session", session: `w${i}` });
    writer.tell({ do: "save", session: `w${i}`, text: "y".repeat(500), times: 1_000_000 });
    await writer.heard((branch) => branch.saved !== undefined);
  }
  const hold = await open(path);
  const here = await hold.session("here");
  let rests = false;
  let own = "";
  const goesOn = (async () => {
    for (let n = 0; !rests; n++) {
      here.append({ role: "user", content: String(n) });
      own = (await here.checkpoint()).id;
      await sleep(1);
    }
  })();
  await expect
    .poll(() => own !== "" && writers.every((writer) => saved(writer).length > 20), {
      timeout: 20_000,
    })
    .toBe(true);
  let turns = 0;
  const beat = setInterval(() => (turns += 1), 0);
  const before = writers.flatMap(saved);
  const acknowledged = [...before, own];
  const told: number[] = [];
  const turnsAt: number[] = [];
  const made = await hold.backup(join(directory, "backup.db"), {
    onProgress({ bytes, of }) {
      told.push(bytes / of);
      turnsAt.push(turns);
    },
  });
  const during = writers.flatMap(saved).length - before.length;
  clearInterval(beat);
  rests = true;
  await goesOn;
  expect(during, "saves of others while it was made").toBeGreaterThan(5);
  // Other work of this process ran between the parts of the copy.
  expect(new Set(turnsAt).size).toBeGreaterThan(10);
  expect(made).toMatchObject({ sessions: 4, bytes: statSync(join(directory, "backup.db")).size });
  expect(told.length).toBeGreaterThan(10);
  expect(told.toSorted((a, b) => a - b)).toEqual(told);
  for (const writer of writers) await writer.end();
  await hold.close();
  expect(
    await lookInto(join(directory, "backup.db"), join(directory, "restored.db"), acknowledged),
  ).toEqual([]);
});

test(`BACKUP-2 ${KILLS} kills at random moments leave the store and the old backup whole; what is left behind is cleared away`, {
  timeout: 60_000 + KILLS * 2_000,
}, async () => {
  const { wrong, left, names } = await backupCampaign({ seed: SEED, kills: KILLS });
  expect(wrong, `seed ${SEED}`).toEqual([]);
  // Kills that hit nothing would prove nothing.
  expect(left, "kills in the middle of a backup").toBeGreaterThanOrEqual(KILLS / 2);
  expect(names).toEqual(["backup.db"]);
});

test("BACKUP-2 negative control: backups that are written into their place are found torn", async () => {
  expect((await backupCampaign({ seed: SEED, kills: 1, torn: true })).wrong).not.toEqual([]);
});

test("BACKUP-5 a store that another process has open is not replaced; what a killed one had acknowledged is kept aside", async () => {
  const directory = fresh();
  const [path, backup] = [join(directory, "store.db"), join(directory, "backup.db")];
  const writer = await puppet(path);
  await writer.ask({ do: "session", session: "a" });
  await writer.ask({ do: "save", session: "a", text: "before" });
  await writer.ask({ do: "backup", to: backup });
  const bytes = readFileSync(backup);
  const first = saved(writer);
  await writer.ask({ do: "save", session: "a", text: "after", times: 20 });
  const other = await puppet(undefined);
  // One that is idle has it open as well.
  expect(
    (await other.ask({ do: "restore", from: backup, to: path, force: true })).error,
  ).toMatchObject({ code: "BUSY" });
  expect(readdirSync(directory).toSorted()).toEqual([
    "backup.db",
    "store.db",
    "store.db-shm",
    "store.db-wal",
  ]);
  await writer.ask({ do: "save", session: "a", text: "still here" });
  await writer.end();
  expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
  const restored = await other.ask({ do: "restore", from: backup, to: path, force: true });
  expect(restored).toMatchObject({
    sessions: 1,
    unfinished: 1,
    setAside: expect.stringContaining("store.db.replaced-"),
  });
  expect(readFileSync(backup).equals(bytes), "the backup is as it was").toBe(true);
  expect(
    await lookInto(restored.setAside as string, join(directory, "aside.db"), saved(writer)),
  ).toEqual([]);
  const hold = await open(path);
  expect((await hold.verify()).findings).toEqual([]);
  const session = await hold.session("a");
  expect([session.messages.length, session.head?.id, session.status]).toEqual([
    1,
    first[0],
    "in-doubt",
  ]);
  await hold.close();
});

test("BACKUP-6 killed while it is restored, there is a store in the place, the old one or the new, and what stood there is kept", async () => {
  const KILLED = 10;
  const rng = random(SEED);
  const directory = fresh();
  const [path, backup] = [join(directory, "store.db"), join(directory, "backup.db")];
  await largeStore(path, 2);
  const first = await open(path);
  await first.backup(backup);
  await first.close();
  const seen = new Set<string>();
  for (let kill = 0; kill < KILLED; kill++) {
    const hold = await open(path);
    const session = await hold.session(`since ${kill}`);
    session.append({ role: "user", content: "x" });
    await session.complete();
    await hold.close();
    const child = await puppet(undefined);
    await child.ask({ do: "ready" });
    child.tell({ do: "restore", from: backup, to: path, force: true });
    // The first comes before anything, the last behind everything.
    if (kill === KILLED - 1) await child.heard((branch) => branch.answer === "restore");
    else if (kill > 0) await sleep(rng.between(20, 150));
    await child.end();
    const names = readdirSync(directory);
    expect(names, `kill ${kill}`).toContain("store.db");
    const after = await open(path);
    expect((await after.verify()).findings, `kill ${kill}`).toEqual([]);
    const isOld = (await after.sessions.get(`since ${kill}`)) !== undefined;
    seen.add(isOld ? "old" : "new");
    await after.close();
    if (isOld) continue;
    // In the newest of those that were put aside.
    const aside = names
      .filter((name) => /replaced-[^-]+-[^-]+-[^-]+-[^-]+-[^-]+Z$/.test(name))
      .toSorted()
      .at(-1) as string;
    const to = join(directory, `aside-${kill}.db`);
    await restoreBackup(join(directory, aside), to);
    const kept = await open(to);
    expect(await kept.sessions.get(`since ${kill}`), `kill ${kill}`).toBeDefined();
    await kept.close();
  }
  expect(seen).toEqual(new Set(["old", "new"]));
  await restoreBackup(backup, path, { force: true });
  expect(readdirSync(directory).filter((name) => name.includes(".draft"))).toEqual([]);
});

test("no room for a backup, or none for a file so large: a typed error, and nothing of it is left", async () => {
  const directory = fresh();
  const path = join(directory, "store.db");
  await largeStore(path, 3);
  const small = join(directory, "small");
  mkdirSync(small);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", small]);
  mounts.push(small);
  const hold = await open(path);
  await expect(hold.backup(join(small, "b.db"))).rejects.toMatchObject({
    name: "HoldfastError",
    code: "DISK_FULL",
  });
  expect(readdirSync(small)).toEqual([]);
  await hold.backup(join(directory, "b.db"));
  await hold.close();
  await expect(restoreBackup(join(directory, "b.db"), join(small, "s.db"))).rejects.toMatchObject({
    code: "DISK_FULL",
  });
  expect(readdirSync(small)).toEqual([]);
  const child = await puppet(path, ["prlimit", "--fsize=1000000"]);
  expect((await child.ask({ do: "backup", to: join(directory, "c.db") })).error).toMatchObject({
    code: expect.stringMatching(/^(DISK_FULL|IO)$/),
  });
  expect(readdirSync(directory).filter((name) => name.startsWith("c.db"))).toEqual([]);
});
