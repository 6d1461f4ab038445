/**
 * A store whose files are deleted, moved or replaced while it is open: nothing is acknowledged any
 * more, and every caller is told.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type Holdfast, type OpenOptions, open, type Session } from "../../src/index.js";
import { sessionPath } from "../../src/store/dir/files/names.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { scriptedModel } from "../../src/testing/index.js";
import { scratch } from "../support/stores.js";

const directory = scratch();
let count = 0;
const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

async function opens(address: string, o?: OpenOptions): Promise<Holdfast> {
  const hold = await open(address, o);
  opened.push(hold);
  return hold;
}

async function say(session: Session, content: string): Promise<void> {
  session.append({ role: "user", content });
  await session.checkpoint();
}

/** What happens to a store at a path, and what the error then names. */
interface Loss {
  readonly name: string;
  readonly act: (path: string) => unknown;
  readonly names: (path: string) => string;
  /** It is only noticed by the look of every second. */
  readonly isLate?: true;
}

const itself = (path: string): string => path;
const aside = (path: string): string => join(dirname(path), `aside-${basename(path)}`);
const scheme = (path: string): string => (path.endsWith(".db") ? path : `dir:${path}`);

/** Another store in the place of this one, with a session of its own. */
async function another(path: string): Promise<void> {
  const elsewhere = join(dirname(path), `other-${basename(path)}`);
  const hold = await open(scheme(elsewhere));
  const session = await hold.session("other");
  await say(session, "mine");
  await session.close();
  await hold.close();
  renameSync(path, aside(path));
  for (const suffix of ["-wal", "-shm"])
    if (existsSync(path + suffix)) renameSync(path + suffix, aside(path) + suffix);
  renameSync(elsewhere, path);
}

const both: readonly Loss[] = [
  { name: "is deleted", act: (path) => rmSync(path, { recursive: true }), names: itself },
  { name: "is renamed", act: (path) => renameSync(path, aside(path)), names: itself },
  { name: "is replaced by another store", act: another, names: itself },
  {
    name: "goes with its directory",
    act: (path) => renameSync(dirname(path), `${dirname(path)}-aside`),
    names: itself,
  },
];

const ofSqlite: readonly Loss[] = [
  ...both,
  {
    name: "is deleted with all beside it",
    act: (path) => {
      for (const name of readdirSync(dirname(path)))
        if (name.startsWith(basename(path))) rmSync(join(dirname(path), name));
    },
    names: itself,
  },
  {
    name: "is replaced by a copy of itself",
    act: (path) => {
      cpSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    },
    names: itself,
  },
  { name: "loses its log", act: (path) => rmSync(`${path}-wal`), names: (path) => `${path}-wal` },
  {
    name: "loses the index of its log",
    act: (path) => rmSync(`${path}-shm`),
    names: (path) => `${path}-shm`,
    isLate: true,
  },
];

const ofDirectories: readonly Loss[] = [
  ...both,
  {
    name: "is replaced by a copy of itself",
    act: (path) => {
      cpSync(path, `${path}.copy`, { recursive: true });
      renameSync(path, aside(path));
      renameSync(`${path}.copy`, path);
    },
    names: itself,
  },
  {
    name: "loses the directory of the session",
    act: (path) => rmSync(join(path, sessionPath("a")), { recursive: true }),
    names: (path) => join(path, sessionPath("a")),
  },
  {
    name: "has another directory in the place of the session's",
    act: (path) => {
      const home = join(path, sessionPath("a"));
      cpSync(home, `${home}-copy`, { recursive: true });
      rmSync(home, { recursive: true });
      renameSync(`${home}-copy`, home);
    },
    names: (path) => join(path, sessionPath("a")),
  },
];

const kinds = [
  { kind: "sqlite", file: "store.db", losses: ofSqlite },
  { kind: "dir", file: "store", losses: ofDirectories },
] as const;

const place = (file: string): string => {
  count += 1;
  const at = join(directory, String(count));
  mkdirSync(at);
  return join(at, file);
};

describe.each(kinds)("$kind", ({ kind, file, losses }) => {
  test.each(losses)(
    "GONE-1: of a store that $name while it is open, no save is acknowledged",
    async ({ act, names, isLate }) => {
      const path = place(file);
      const hold = await opens(scheme(path));
      const session = await hold.session("a");
      await say(session, "one");
      expect(session.signal.aborted).toBe(false);
      await act(path);
      if (isLate) await new Promise((resolve) => session.signal.addEventListener("abort", resolve));
      const error = await say(session, "two").catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: "IO",
        message: expect.stringContaining("Open the store again.") as string,
      });
      expect((error as { details: { path: string } }).details.path).toContain(names(path));
      expect(session.signal.reason).toBe(error);
      const calls = [
        () => say(session, "three"),
        () => hold.session("b"),
        () => hold.sessions.list(),
        () => hold.sessions.get("a"),
        () => hold.sessions.append("a", [{ role: "user", content: "x" }]),
        () => hold.sessions.signal("a", "s", 1),
        () => hold.sessions.search("one"),
        () => hold.stats(),
        () => hold.verify({ sessionId: "a" }),
        () => hold.gc(),
      ];
      for (const call of calls) await expect(call(), String(call)).rejects.toBe(error);
      await hold.close();
    },
  );

  test("GONE-2: a store without an open session, and all who wait in it, learn of it", async () => {
    const path = place(file);
    const hold = await opens(scheme(path));
    const session = await hold.session("a", { agent: "bot" });
    await say(session, "one");
    const other = await opens(scheme(path));
    const bot = hold.agent({ name: "bot", model: scriptedModel(["done"]) });
    const worker = hold.worker({ agents: [bot] });
    await worker.start();
    const events = hold.sessions.events("a");
    const followed = (async () => {
      for await (const _ of events);
    })().catch((error: unknown) => error);
    const aborted = new Promise((resolve) =>
      session.signal.addEventListener("abort", () => resolve(session.signal.reason)),
    );
    rmSync(path, { recursive: true });
    expect(await followed).toMatchObject({ code: "IO" });
    expect(await aborted).toMatchObject({ code: "IO" });
    await expect(hold.sessions.list()).rejects.toMatchObject({ code: "IO" });
    await expect(bot.submit("b", "go")).rejects.toMatchObject({ code: "IO" });
    await worker.stop();
    await expect
      .poll(() => other.sessions.list().catch(({ code }: { code: string }) => code), {
        timeout: 5_000,
      })
      .toBe("IO");
  });

  test("GONE-3: a store that is back under its name is not taken for the one that was opened, and is not written to", async () => {
    const path = place(file);
    const hold = await opens(scheme(path));
    const session = await hold.session("a");
    await say(session, "one");
    await another(path);
    const now = await opens(scheme(path));
    const mine = await now.session("other");
    await expect(say(session, "two")).rejects.toMatchObject({ code: "IO" });
    await hold.close();
    await say(mine, "still mine");
    await mine.close();
    await now.close();
    const again = await opens(scheme(path));
    expect((await again.sessions.list()).items.map(({ id }) => id)).toEqual(["other"]);
    expect((await again.sessions.state("other")).messages.map(({ content }) => content)).toEqual([
      "mine",
      "still mine",
    ]);
    expect((await again.verify()).findings).toEqual([]);
    // What was acknowledged before is where the store was moved to.
    const moved = await opens(scheme(aside(path)));
    expect((await moved.sessions.state("a")).messages[0]?.content).toBe("one");
  });

  const harmless: Record<string, (path: string, hold: Holdfast, other: Holdfast) => unknown> = {
    "is touched": (path) => utimesSync(path, 1, 1),
    "has its permissions changed": (path) => chmodSync(path, 0o755),
    "has its parent renamed and renamed back": (path) => {
      renameSync(dirname(path), `${dirname(path)}-aside`);
      renameSync(`${dirname(path)}-aside`, dirname(path));
    },
    "is collected": (_, hold) => hold.gc(),
    "is scrubbed": async (_, hold) => hold.sessions.redact("b", ["secret"]),
    ...(kind === "sqlite"
      ? {
          "is vacuumed and its log cut by another connection": (path: string) => {
            const db = openDriver(path);
            db.exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
            db.close();
          },
          "is backed up": (path: string, hold: Holdfast) => hold.backup(`${path}.backup`),
          "is scrubbed by another process": (_: string, __: Holdfast, other: Holdfast) =>
            other.sessions.redact("b", ["secret"]),
        }
      : {
          "begins another generation in another process": (
            _: string,
            __: Holdfast,
            other: Holdfast,
          ) => other.markRestored(),
        }),
  };

  test.each(Object.entries(harmless))("a store that %s is not taken for gone", async (_, act) => {
    const path = place(file);
    const hold = await opens(scheme(path));
    const second = await hold.session("b");
    await say(second, "a secret");
    await second.close();
    const session = await hold.session("a");
    await say(session, "one");
    const other = await opens(scheme(path));
    await act(path, hold, other);
    await say(session, "two");
    await session.close();
    await hold.close();
    expect((await other.sessions.state("a")).messages.length).toBe(2);
  });
});
