/**
 * The index beside a store: what stands in its place, what is damaged, forgotten, behind, or kept
 * up by nobody.
 */
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { parseQuery } from "../../../src/core/search/query.js";
import { type FoundItem, type SearchFilter } from "../../../src/features/search/find.js";
import { type IndexProgress } from "../../../src/features/search/search.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import type { SearchIndex } from "../../../src/store/search-port.js";
import { openDriver } from "../../../src/store/sql/sqlite/driver/driver.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { PgClient } from "../../support/pg-client.js";
import { scratch, stores } from "../../support/stores.js";

const holds: Holdfast[] = [];
const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const hold of holds.splice(0)) await hold.close();
  for (const end of ends.splice(0)) await end();
});

async function opened(address: string, options = {}): Promise<Holdfast> {
  const hold = await open(address, options);
  holds.push(hold);
  return hold;
}

async function say(hold: Holdfast, id: string, ...texts: readonly string[]): Promise<void> {
  const session = await hold.session(id);
  for (const content of texts) {
    session.append({ role: "user", content });
    await session.checkpoint();
  }
  await session.close();
}

const count = async (hold: Holdfast, words: string): Promise<number> =>
  (await hold.sessions.search(words, { limit: 1000 })).items.length;

const directory = scratch();
let made = 0;
const freshPath = (): string => join(directory, `index-${++made}.db`);

/** A store with some messages in it, closed, with its index. */
async function filled(): Promise<{ readonly path: string; readonly file: string }> {
  const path = freshPath();
  const hold = await open(path);
  await say(hold, "a", "kelp one", "kelp two", "rock three");
  expect(await count(hold, "kelp")).toBe(2);
  await hold.close();
  return { path, file: `${path}-search` };
}

async function finds(path: string): Promise<void> {
  const hold = await open(path);
  expect(await count(hold, "kelp")).toBe(2);
  expect(await count(hold, "rock")).toBe(1);
  await say(hold, "b", "kelp again");
  expect(await count(hold, "kelp")).toBe(3);
  await hold.close();
}

describe("the file of an index in SQLite", () => {
  test("is its owner's alone, and is there once somebody has searched", async () => {
    const { file } = await filled();
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const path = freshPath();
    const hold = await opened(path, { search: false });
    await say(hold, "a", "kelp");
    expect(await count(hold, "kelp")).toBe(1);
    expect(existsSync(`${path}-search`)).toBe(false);
  });

  test("SEARCHFILE-1: what is not ours is moved aside as it is", async () => {
    const strange: readonly ((file: string) => void)[] = [
      (file) => writeFileSync(file, "a text that somebody left here"),
      (file) => mkdirSync(file),
      (file) => {
        const db = openDriver(file);
        db.exec("CREATE TABLE theirs (a)");
        db.close();
      },
      (file) => {
        writeFileSync(`${file}.target`, "not to be touched");
        symlinkSync(`${file}.target`, file);
      },
    ];
    for (const put of strange) {
      const { path, file } = await filled();
      rmSync(file);
      put(file);
      const before = lstatSync(file);
      await finds(path);
      const aside = readdirSync(dirname(file)).filter((name) =>
        name.startsWith(`${basename(file)}.aside-`),
      );
      expect(aside).toHaveLength(1);
      expect(lstatSync(join(dirname(file), aside[0] as string)).ino).toBe(before.ino);
      if (existsSync(`${file}.target`))
        expect(readFileSync(`${file}.target`, "utf8")).toBe("not to be touched");
    }
  });

  test.each<readonly [string, (file: string) => void]>([
    ["is gone", (file) => rmSync(file)],
    ["is empty", (file) => writeFileSync(file, "")],
    ["is cut short", (file) => writeFileSync(file, readFileSync(file).subarray(0, 20_000))],
    [
      "is zeros behind its first page",
      (file) =>
        writeFileSync(
          file,
          Buffer.concat([readFileSync(file).subarray(0, 8192), Buffer.alloc(60_000)]),
        ),
    ],
    [
      "has a trigger that somebody planted",
      (file) => {
        const db = openDriver(file);
        db.exec("CREATE TRIGGER planted AFTER INSERT ON doc BEGIN DELETE FROM doc; END");
        db.close();
      },
    ],
    [
      "is of another version",
      (file) => {
        const db = openDriver(file);
        db.exec("UPDATE meta SET value = '0 ' || value WHERE key = 'identity'");
        db.close();
      },
    ],
  ])("SEARCHFILE-2: one that %s is made again", async (_, spoil) => {
    const { path, file } = await filled();
    spoil(file);
    await finds(path);
  });

  test("SEARCHFILE-2: bytes that are changed in it are never an error, and never show what is not there", async () => {
    const { path, file } = await filled();
    const whole = readFileSync(file);
    for (let at = 100; at < whole.length; at += 977) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] as number) ^ 0xff;
      writeFileSync(file, bytes);
      rmSync(`${file}-wal`, { force: true });
      const hold = await open(path);
      for (const { snippet } of (await hold.sessions.search("kelp")).items)
        expect(snippet).toContain("kelp");
      expect(await count(hold, "kelp")).toBeLessThanOrEqual(2);
      await hold.close();
    }
    const hold = await opened(path);
    await hold.sessions.index({ rebuild: true });
    expect(await count(hold, "kelp")).toBe(2);
  });

  test("that of another store is not believed", async () => {
    const [one, other] = [await filled(), await filled()];
    const hold = await open(other.path);
    await say(hold, "z", "sand of the other");
    expect(await count(hold, "sand")).toBe(1);
    await hold.close();
    copyFileSync(other.file, one.file);
    await finds(one.path);
  });

  test("one that knows more than the store is made again: an older copy of that was put back", async () => {
    for (const more of [0, 30]) {
      const { path } = await filled();
      copyFileSync(path, `${path}.copy`);
      const hold = await open(path);
      await say(hold, "b", ...Array.from({ length: 20 }, (_, i) => `sand ${i}`));
      expect(await count(hold, "sand")).toBe(20);
      await hold.close();
      copyFileSync(`${path}.copy`, path);
      rmSync(`${path}-anchors`);
      const back = await open(path);
      // Their numbers are those of saves that the index has taken in.
      await say(back, "c", ...Array.from({ length: more }, (_, i) => `gravel ${i}`));
      expect(await count(back, "sand")).toBe(0);
      expect(await count(back, "gravel")).toBe(more);
      expect(await count(back, "kelp")).toBe(2);
      await back.close();
    }
  });

  test("one that is removed while it is open is made again", async () => {
    const { path, file } = await filled();
    const hold = await opened(path);
    expect(await count(hold, "kelp")).toBe(2);
    for (const suffix of ["", "-wal", "-shm"]) rmSync(file + suffix, { force: true });
    expect(await count(hold, "kelp")).toBe(2);
    expect(existsSync(file)).toBe(true);
  });

  test("a purge leaves no word of what was deleted in it", async () => {
    const path = freshPath();
    const file = `${path}-search`;
    // Opened before there is an index.
    const store = await openStore(path);
    const hold = await opened(path);
    await say(hold, "a", "kelp one", "kelp two", "rock three");
    await say(hold, "secret", "the word is zyzzyva", "and once more zyzzyva");
    expect(await count(hold, "zyzzyva")).toBe(2);
    const isInFile = () =>
      [file, `${file}-wal`].some(
        (name) => existsSync(name) && readFileSync(name).includes("zyzzyva"),
      );
    expect(isInFile()).toBe(true);
    await hold.sessions.delete("secret");
    expect(await count(hold, "zyzzyva")).toBe(0);
    expect(isInFile(), "only a purge rewrites the file").toBe(true);
    await store.index?.purge();
    await store.close();
    expect(isInFile()).toBe(false);
    expect(await count(hold, "kelp")).toBe(2);
    // Whatever else waits to be taken in: nobody has searched since.
    await say(hold, "c", "zyzzyva is back", "rock");
    await hold.sessions.update("c", { title: "about zyzzyva" });
    expect(await count(hold, "zyzzyva")).toBe(2);
    await hold.sessions.update("a", { title: "kelp" });
    await hold.sessions.delete("c");
    const again = await openStore(path);
    await again.index?.purge();
    await again.close();
    expect(isInFile()).toBe(false);
    expect(await count(hold, "kelp")).toBe(3);
  });
});

/** Order and scores are each engine's own. */
const withoutScore = ({ score: _score, ...item }: FoundItem): string => JSON.stringify(item);

/** A hold whose index is another. */
async function holdOn(
  address: string,
  change: (index: SearchIndex) => Partial<SearchIndex>,
): Promise<Holdfast> {
  const store = await openStore(address);
  const { index } = store;
  if (index === undefined) throw new Error("this store has no index");
  const changed = change(index);
  const other = new Proxy(index, {
    get(target, name) {
      const value: unknown =
        changed[name as keyof SearchIndex] ?? target[name as keyof SearchIndex];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const hold = new Opened(
    wrapped(store, { index: other } as Partial<Store>),
    thisMachine(),
    { now: Date.now },
    30_000,
  );
  holds.push(hold);
  return hold;
}

/** Statements on the tables of a store that has an index. */
async function behindTheBack(
  place: string,
): Promise<(text: string) => Promise<readonly (readonly unknown[])[]>> {
  if (existsSync(place)) {
    const db = openDriver(place);
    ends.push(async () => db.close());
    return async (text) => db.prepare(text).all();
  }
  const url = new URL(place);
  const schema = url.searchParams.get("schema");
  url.searchParams.delete("schema");
  const client = new PgClient({ connectionString: url.href });
  await client.connect();
  ends.push(() => client.end());
  await client.query(`SET search_path TO "${schema}"; SET holdfast.tenant TO '='`);
  return async (text) => (await client.query(text)).rows.map((row) => Object.values(row));
}

describe.each(stores)("an index that is kept up: $name", ({ address }) => {
  const indexed = async (): Promise<string | undefined> => {
    const place = address();
    const store = await openStore(place);
    await store.close();
    return store.index === undefined ? undefined : place;
  };

  test("has titles also where nothing was saved yet", async () => {
    const hold = await opened(address());
    await (await hold.session("a", { title: "kelp" })).close();
    for (let n = 0; n < 2; n++)
      expect((await hold.sessions.search("kelp")).items).toMatchObject([
        { kind: "title", sessionId: "a" },
      ]);
  });

  test("is made anew on demand, and tells how far it is", async () => {
    const place = address();
    const hold = await opened(place);
    await say(hold, "a", ...Array.from({ length: 30 }, (_, i) => `kelp ${i}`));
    const told: IndexProgress[] = [];
    const { taken } = await hold.sessions.index({
      rebuild: true,
      onProgress: (progress) => told.push(progress),
    });
    expect(await count(hold, "kelp")).toBe(30);
    if ((await indexed()) === undefined) return expect(taken).toBe(0);
    expect(taken).toBeGreaterThanOrEqual(30);
    expect(told.at(-1)).toEqual({ taken, behind: 0 });
  });

  test("says when it is behind, and finds what it has", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const before = await opened(place);
    await say(before, "a", "kelp");
    expect(await count(before, "kelp")).toBe(1);
    await say(before, "b", "kelp");
    const hold = await holdOn(place, () => ({ put: async () => false }));
    const { items, behind } = await hold.sessions.search("kelp");
    expect(items).toHaveLength(1);
    expect(behind).toBeGreaterThan(0);
  });

  test.each([
    ["searches", false],
    ["searches after somebody redacted", true],
  ])(
    "is given up where nobody takes in what is noted for it, and made anew by whoever %s",
    async (_, isPurged) => {
      const place = await indexed();
      if (place === undefined) return;
      const rows = await behindTheBack(place);
      const noted = () =>
        rows(
          "SELECT (SELECT count(*) FROM unindexed) AS notes, (SELECT count(*) FROM meta WHERE key LIKE 'search:%') AS kept",
        );
      const note = (many: number) =>
        rows(
          `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${many}) INSERT INTO unindexed (tenant, session) SELECT substr(key, 8), i FROM n, meta WHERE key LIKE 'search:%' RETURNING no`,
        );
      // Nothing is taken in by itself.
      const hold = await holdOn(place, () => ({ exists: async () => false }));
      const plain = await opened(place, { search: false });
      await say(plain, "a", "kelp one", "kelp two");
      await say(plain, "b", "kelp three");
      expect(await count(hold, "kelp")).toBe(3);
      await note(50_000);
      await plain.sessions.update("a", { title: "Rock" });
      const [few] = await noted();
      expect(few?.map(Number)).toEqual([expect.any(Number), 1]);
      expect(Number(few?.[0])).toBeGreaterThan(50_000);
      await note(50_000);
      await plain.sessions.delete("b");
      expect((await noted())[0]?.map(Number)).toEqual([0, 0]);
      await plain.gc();
      if (isPurged) {
        const store = await openStore(place);
        await store.index?.purge();
        await store.close();
        if (existsSync(place)) expect(existsSync(`${place}-search`)).toBe(false);
        else expect((await rows("SELECT count(*) FROM passage"))[0]?.map(Number)).toEqual([0]);
      }
      const found = async (by: Holdfast) =>
        (await by.sessions.search("kelp")).items.map(withoutScore).toSorted();
      expect(await found(hold)).toHaveLength(2);
      expect(await found(hold)).toEqual(await found(plain));
      expect((await noted())[0]?.map(Number)).toEqual([0, 1]);
      await plain.sessions.update("a", { title: "Kelp" });
      expect(await found(hold)).toEqual(await found(plain));
      expect(await found(hold)).toHaveLength(3);
    },
  );

  test("that fails is no reason to find nothing", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const fails = async (): Promise<never> => {
      throw new Error("the index is broken");
    };
    for (const change of [
      { begin: fails },
      { next: fails },
      { put: fails },
      { find: fails },
      { exists: fails },
    ]) {
      const hold = await holdOn(place, () => change);
      await say(hold, `s${Object.keys(change)[0]}`, "kelp");
      expect(await count(hold, "kelp")).toBeGreaterThan(0);
    }
  });

  test("what it says is there is looked at before it is shown", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const hold = await holdOn(place, (index) => ({
      async find(query, options) {
        const found = await index.find(query, options);
        return {
          count: 3 * found.count,
          async read() {
            const hits = await found.read(0, found.count);
            return hits.flatMap((hit) =>
              hit?.kind === "message"
                ? [{ ...hit, seq: hit.seq + 1 }, { ...hit, passage: 7 }, hit]
                : [],
            );
          },
        };
      },
    }));
    await say(hold, "a", "kelp", "rock");
    expect(await count(hold, "kelp")).toBe(1);
  });

  test("what it gives is held against what was asked for", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const hold = await holdOn(place, (index) => ({ find: (query) => index.find(query, {}) }));
    await say(hold, "a", "kelp");
    await say(hold, "b", "kelp");
    await hold.sessions.update("b", { title: "kelp" });
    await hold.sessions.index();
    const kinds = async (filter: SearchFilter) =>
      (await hold.sessions.search("kelp", filter)).items.map(
        ({ kind, sessionId }) => `${kind} ${sessionId}`,
      );
    expect(await kinds({})).toHaveLength(3);
    expect(await kinds({ role: "assistant" })).toEqual([]);
    expect(await kinds({ since: "2100-01-01T00:00:00Z" })).toEqual([]);
    expect(await kinds({ until: "2000-01-01T00:00:00Z" })).toEqual([]);
    expect(await kinds({ sessionId: "a" })).toEqual(["message a"]);
    expect((await kinds({ sessionId: "b" })).toSorted()).toEqual(["message b", "title b"]);
  });

  test("takes in what has come when nothing else is going on", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const hold = await opened(place);
    await hold.sessions.search("anything");
    await say(hold, "a", ...Array.from({ length: 25 }, (_, i) => `kelp ${i}`));
    const store = await openStore(place);
    await store.index?.begin(false);
    expect(await store.index?.behind()).toBeGreaterThan(0);
    await expect.poll(() => store.index?.behind(), { interval: 100 }).toBe(0);
    await store.close();
  });

  test("by several at once, while others save and delete", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const all = await Promise.all(Array.from({ length: 3 }, () => opened(place)));
    await Promise.all(
      all.map(async (hold, n) => {
        for (let i = 0; i < 6; i++) {
          await say(hold, `s${n}-${i}`, "kelp", "rock", "kelp rock");
          await (i % 2 ? hold.sessions.index() : hold.sessions.search("kelp"));
          if (i % 3 === 2) await hold.sessions.delete(`s${n}-${i}`);
        }
      }),
    );
    const plain = await opened(place, { search: false });
    const [first] = all;
    const { items } = await (first as Holdfast).sessions.search("kelp", { limit: 1000 });
    expect(items).toHaveLength(3 * 4 * 2);
    const { items: gone } = await plain.sessions.search("kelp", { limit: 1000 });
    expect(items.map(withoutScore).toSorted()).toEqual(gone.map(withoutScore).toSorted());
  });

  test("keeps no process alive, and is no error when one ends in between", async () => {
    const place = await indexed();
    if (place === undefined) return;
    const script = `
      import { open } from ${JSON.stringify(fileURLToPath(new URL("../../../dist/index.js", import.meta.url)))};
      const hold = await open(process.argv[1]);
      await hold.sessions.search("anything");
      const session = await hold.session("s");
      for (let i = 0; i < 200; i++) session.append({ role: "user", content: "kelp " + i });
      await session.checkpoint();
      await session.close();
      if (process.argv[2] === "close") await hold.close();
      console.log("done");`;
    for (const how of ["leave", "close"]) {
      const ended = spawnSync(
        process.execPath,
        ["--input-type=module", "-e", script, "--", place, how],
        {
          encoding: "utf8",
          timeout: 60_000,
        },
      );
      expect(ended.stderr).toBe("");
      expect(ended).toMatchObject({ status: 0, signal: null, stdout: "done\n" });
    }
  });
});

test.each(stores.filter(({ name }) => name === "sqlite" || name === "postgres"))(
  "a save is read once for all that is found in it, on $name: it may be large",
  async ({ address }) => {
    const at = address();
    const hold = await opened(at);
    const many = Array.from(
      { length: 30 },
      (_, i) => ({ role: "user", content: `kelp ${i}` }) as const,
    );
    for (const id of ["a", "a", "b"]) await hold.sessions.append(id, many, { create: true });
    await say(hold, "c", "kelp");
    await hold.sessions.index();
    const store = await openStore(at);
    ends.push(() => store.close());
    await store.index?.begin(false);
    const found = await (store.index as SearchIndex).find(parseQuery("kelp"), {});
    const saves = (await found.read(0, 100)).map((hit) =>
      hit?.kind === "message" ? hit.save : undefined,
    );
    expect(new Set(saves.map((save) => `${save?.branch} ${save?.seq}`)).size).toBe(4);
    // Of a line with two such saves some may be read a few times.
    expect([saves.length, new Set(saves).size <= 8]).toEqual([91, true]);
  },
);
