/**
 * A process that writes to a directory is killed at each of its file operations. The next process
 * finds every session once or not at all, and can export, verify and write at once.
 */
import fs, { cpSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.js";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";

afterEach(mend);

const CHANGING = [
  "writeSync",
  "ftruncateSync",
  "renameSync",
  "linkSync",
  "unlinkSync",
  "rmSync",
  "mkdirSync",
  "utimesSync",
];
const SYNCS = ["fsyncSync", "fdatasyncSync"];

/** A kill loses nothing that was written, synced or not. Without syncs the test is quicker. */
function withoutSyncs(): void {
  mend();
  for (const name of SYNCS) instead(name, () => {});
}

/**
 * Ends the process at its file operation `diesAt`: that one and all later ones do nothing. Syncs
 * are not counted: they change no file.
 */
function killAt(diesAt: number): { count: number } {
  const seen = { count: 0 };
  const step = (): void => {
    seen.count += 1;
    if (seen.count >= diesAt) throw failure("EIO");
  };
  for (const name of CHANGING) {
    const call = instead(name, (...args: unknown[]) => {
      step();
      return call(...args);
    });
  }
  for (const name of SYNCS) instead(name, () => {});
  const openFile = instead("openSync", (...args: unknown[]) => {
    if (typeof args[1] === "number" && args[1] & fs.constants.O_CREAT) step();
    return openFile(...args);
  });
  return seen;
}

const say = async (hold: Holdfast, id: string, text: string): Promise<string> => {
  const session = await hold.session(id, { agent: "ann" });
  session.append({ role: "user", content: text });
  const { id: place } = await session.checkpoint();
  await session.close();
  return place;
};

const rowsOf = async (hold: Holdfast): Promise<string[]> => {
  const rows: string[] = [];
  for await (const row of hold.export()) rows.push(row);
  return rows;
};

/**
 * What all runs begin with: sessions "first" and "old" of an agent, and a snapshot of it that also
 * holds "gone", which is deleted.
 */
async function prepare(): Promise<{
  path: string;
  place: string;
  snapshot: string;
  rows: string[];
}> {
  const path = join(fresh(), "store");
  const hold = await open(`dir:${path}`);
  await say(hold, "gone", "one");
  await say(hold, "first", "one");
  const place = await say(hold, "old", "one");
  await say(hold, "old", "two");
  const { id: snapshot } = await hold.agents.snapshot("ann");
  await hold.sessions.delete("gone");
  await hold.close();
  const other = await open("memory:");
  await say(other, "new", "one");
  await say(other, "newer", "one");
  const rows = await rowsOf(other);
  await other.close();
  return { path, place, snapshot, rows };
}

type Base = Awaited<ReturnType<typeof prepare>>;

/** Of this one, opening the store and closing it count too. */
const WHOLE = "makes a session";
const DELETES = "deletes a session and makes it again";

const WORK: Record<string, (hold: Holdfast, base: Base) => Promise<unknown>> = {
  [WHOLE]: (hold) => say(hold, "new", "one"),
  "forks a session": (hold, { place }) => hold.sessions.fork(place, { id: "new" }),
  "rewinds a session": (hold, { place }) => hold.sessions.rewind("old", place),
  "makes a session by appending to it": (hold) =>
    hold.sessions.append("new", [{ role: "user", content: "x" }], { create: true, key: "k" }),
  "imports sessions": (hold, { rows }) => hold.import(rows),
  [DELETES]: async (hold) => {
    await hold.sessions.delete("old");
    await say(hold, "old", "anew");
  },
  "restores a snapshot": (hold, { snapshot }) => hold.agents.restore(snapshot),
};

/** The ids of all sessions, which every way to ask must give once each. */
async function sessionsOf(hold: Holdfast, where: string): Promise<readonly string[]> {
  const listed = (await hold.sessions.list({ limit: 100 })).items.map(({ id }) => id).toSorted();
  expect(new Set(listed).size, `${where}: ${listed.join()}`).toBe(listed.length);
  expect((await hold.sessions.ids("", { limit: 100 })).toSorted(), where).toEqual(listed);
  expect((await hold.stats()).sessions, where).toBe(listed.length);
  const exported = (await rowsOf(hold)).flatMap(
    (row) => (JSON.parse(row) as { session?: string }).session ?? [],
  );
  expect(exported.toSorted(), where).toEqual(listed);
  return listed;
}

/**
 * Does the work in a process that is killed at a file operation. Answers whether it came to its end
 * before.
 */
async function killed(
  address: string,
  diesAt: number,
  isWhole: boolean,
  work: (hold: Holdfast) => Promise<unknown>,
): Promise<boolean> {
  let seen = { count: 0 };
  let hold: Holdfast | undefined;
  if (isWhole) seen = killAt(diesAt);
  try {
    hold = await open(address);
    if (!isWhole) {
      // With its first change it takes the lock: those operations are the same whatever it does
      // then.
      await hold.sessions.update("first", { title: "locked" });
      seen = killAt(diesAt);
    }
    await work(hold);
    if (isWhole) await hold.close();
  } catch {
    // It was killed.
  }
  const isDone = seen.count < diesAt;
  killAt(0);
  await hold?.close().catch(() => {});
  withoutSyncs();
  return isDone;
}

test.each(Object.entries(WORK))(
  "a process that %s and is killed at any file operation leaves each session once or not at all",
  async (name, work) => {
    const base = await prepare();
    for (let diesAt = 1; ; diesAt++) {
      const path = join(fresh(), "store");
      cpSync(base.path, path, { recursive: true });
      const address = `dir:${path}`;
      const where = `killed at operation ${diesAt}`;
      const follower = await open(address);
      const isDone = await killed(address, diesAt, name === WHOLE, (hold) => work(hold, base));
      const left = await sessionsOf(follower, where);
      const reader = await open(address);
      expect(await sessionsOf(reader, where)).toEqual(left);
      expect((await reader.verify()).findings, where).toEqual([]);
      await reader.close();
      const writer = await open(address);
      // Deleting is not done again: then it is seen whether the deletion that was announced has
      // been taken back.
      if (name !== DELETES) await work(writer, base).catch(() => {});
      await say(writer, "next", "one");
      const now = await sessionsOf(writer, where);
      expect(await sessionsOf(follower, where)).toEqual(now);
      await writer.close();
      const again = await open(address);
      expect(await sessionsOf(again, where)).toEqual(now);
      expect((await again.verify()).findings, where).toEqual([]);
      await again.close();
      await follower.close();
      if (isDone) break;
      expect(diesAt).toBeLessThan(500);
    }
  },
);
