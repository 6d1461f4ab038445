/**
 * Lists of the checkpoints of many sessions: order, pages, cursors, cost and damage.
 * `test/api/checkpoint-owners.test.ts` has the owner rule.
 */
import { createRequire } from "node:module";
import { afterEach, describe, expect, test } from "vitest";
import { type CheckpointFilter } from "../../src/engine/journal/checkpoint-lists.js";
import { Holdfast } from "../../src/holdfast.js";
import { type Checkpoint, open } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import type { Store } from "../../src/store/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { coded } from "../support/processes.js";
import { everyStore, type StoreKind, stores } from "../support/stores.js";

const Database = createRequire(import.meta.url)("better-sqlite3") as new (
  path: string,
) => { exec(sql: string): void; close(): void };

const holds: Holdfast[] = [];
afterEach(async () => {
  for (const hold of holds.splice(0)) await hold.close();
});
const at = async (address: string): Promise<Holdfast> => {
  const hold = await open(address);
  holds.push(hold);
  return hold;
};

async function say(
  hold: Holdfast,
  id: string,
  count: number,
  agent = "ann",
): Promise<readonly string[]> {
  const session = await hold.session(id, { agent });
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    session.append({ role: "user", content: `${id} ${n}` });
    ids.push((await session.checkpoint()).id);
  }
  await session.close();
  return ids;
}

/** All pages of a list. `between` runs after the first page. */
async function pages(
  hold: Holdfast,
  filter: CheckpointFilter,
  between?: () => Promise<unknown>,
): Promise<readonly Checkpoint[]> {
  const items: Checkpoint[] = [];
  let { next, ...page } = await hold.checkpoints.list(filter);
  items.push(...page.items);
  await between?.();
  while (next !== undefined) {
    ({ next, ...page } = await hold.checkpoints.list({ ...filter, cursor: next }));
    items.push(...page.items);
  }
  return items;
}

const ids = (items: readonly Checkpoint[]): readonly string[] => items.map(({ id }) => id);
const newest = (made: readonly string[]): readonly string[] => made.toReversed();
const sqlite = everyStore.find(({ name }) => name === "sqlite") as StoreKind;

describe.each(stores)("lists on $name", ({ address }) => {
  test("an agent's checkpoints, and all of them: sessions as sessions.list orders them, newest first within each", async () => {
    const hold = await at(address());
    const a = await say(hold, "a", 3);
    const b = await say(hold, "b", 2, "bob");
    await hold.sessions.fork(a[1] as string, { id: "f" });
    const f = await say(hold, "f", 2);
    await hold.session("empty", { agent: "ann" }).then((session) => session.close());
    await hold.sessions.rewind("a", a[0] as string);
    const again = await say(hold, "a", 1);
    const current = [...newest(f), ...newest(b), ...again, a[0] as string];
    const all = [...newest(f), ...newest(b), ...again, ...newest(a)];
    const ofAnn = all.filter((id) => !b.includes(id));
    for (const limit of [1, 2, 3, 20]) {
      expect(ids(await pages(hold, { limit }))).toEqual(current);
      expect(ids(await pages(hold, { limit, branches: "all" }))).toEqual(all);
      expect(ids(await pages(hold, { limit, branches: "all", agent: "ann" }))).toEqual(ofAnn);
    }
    expect(await hold.checkpoints.list({ agent: "an unknown agent" })).toEqual({ items: [] });
    for (const { id, sessionId } of await pages(hold, { branches: "all" }))
      expect(await hold.checkpoints.get(id)).toMatchObject({ sessionId });
  });
});

describe("pages", () => {
  test("a cursor that was changed, or that comes from another list, is refused", async () => {
    const hold = await at("memory:");
    await say(hold, "a", 3);
    const { next = "" } = await hold.checkpoints.list({ limit: 1 });
    const { next: ofSession = "" } = await hold.checkpoints.list("a", { limit: 1 });
    const later = next.replace(/-\d+/, "-1");
    for (const cursor of [
      later,
      `${next}x`,
      next.replace("c1", "c2"),
      "c1",
      "",
      ofSession,
      5 as unknown as string,
    ])
      await expect(hold.checkpoints.list({ cursor })).rejects.toMatchObject(
        coded("INVALID_OPTION"),
      );
    for (const filter of [{ agent: "ann" }, { branches: "all" as const }])
      await expect(hold.checkpoints.list({ ...filter, cursor: next })).rejects.toMatchObject(
        coded("INVALID_OPTION"),
      );
    await expect(hold.checkpoints.list("a", { cursor: next })).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    for (const filter of [{ agent: "" }, { limit: 0 }, { branches: "some" }, { sessions: 1 }])
      await expect(hold.checkpoints.list(filter as CheckpointFilter)).rejects.toMatchObject({
        name: "HoldfastError",
      });
    for (const accident of [undefined, null])
      await expect(hold.checkpoints.list(accident as unknown as string)).rejects.toMatchObject(
        coded("INVALID_ID"),
      );
  });

  interface Made {
    readonly hold: Holdfast;
    readonly a: readonly string[];
    readonly b: readonly string[];
  }
  const between: Readonly<
    Record<
      string,
      { readonly act: (made: Made) => Promise<unknown>; readonly rest: (made: Made) => unknown }
    >
  > = {
    "the session of the cursor was deleted": {
      act: ({ hold }) => hold.sessions.delete("b"),
      rest: ({ a }) => newest(a),
    },
    "the session of the cursor went back before the cursor": {
      act: async ({ hold, b }) => hold.sessions.rewind("b", b[0] as string),
      rest: ({ a, b }) => [b[0], ...newest(a)],
    },
    "the session of the cursor went on": {
      act: ({ hold }) => say(hold, "b", 2),
      rest: ({ a, b }) => [b[1], b[0], ...newest(a)],
    },
    "the checkpoint at the cursor was deleted": {
      act: ({ hold, b }) => hold.checkpoints.delete(b[1] as string),
      rest: ({ a, b }) => [b[0], ...newest(a)],
    },
    "a session was begun": {
      act: ({ hold }) => say(hold, "c", 2),
      rest: ({ a, b }) => [b[1], b[0], ...newest(a)],
    },
  };
  test.each(Object.keys(between))("they go on where %s", async (name) => {
    const { act, rest } = between[name] as (typeof between)[string];
    const hold = await at("memory:");
    const made = { hold, a: await say(hold, "a", 2), b: await say(hold, "b", 4) };
    const seen = ids(await pages(hold, { limit: 2 }, () => act(made)));
    expect(seen).toEqual([made.b[3], made.b[2], ...(rest(made) as string[])]);
  });
});

test("a page reads about as many saves as it returns checkpoints", async () => {
  const store = await openStore("memory:");
  let rows = 0;
  const counted = new Proxy(store, {
    get(target, name: keyof Store) {
      const method = target[name] as ((...args: unknown[]) => Promise<unknown>) | undefined;
      if (typeof method !== "function") return method;
      return async (...args: unknown[]) => {
        const answer = await method.apply(target, args);
        if (name === "saves" || name === "sessions" || name === "branches")
          rows += (answer as readonly unknown[]).length;
        return answer;
      };
    },
  });
  const hold = new Holdfast(counted, thisMachine(), { now: Date.now }, 30_000);
  holds.push(hold);
  const gone = await say(hold, "gone", 300);
  await hold.sessions.fork(gone[299] as string, { id: "heir" });
  // These share the whole past of a session that was deleted, and inherit nothing of it.
  for (let n = 0; n < 20; n++) await hold.sessions.fork(gone[298] as string, { id: `fork ${n}` });
  await say(hold, "last", 100);
  await hold.sessions.delete("gone");
  const read = async (limit: number) => {
    rows = 0;
    const { items } = await hold.checkpoints.list({ limit });
    expect(items).toHaveLength(limit);
    return rows;
  };
  expect(await read(10)).toBeLessThan(100);
  expect(await read(100)).toBeLessThan(300);
  // Behind the forks: one look at each.
  expect(await read(110)).toBeLessThan(1_000);
});

test("a damaged session is named, and the others are listed", async () => {
  const path = sqlite.address();
  const made = await open(path);
  const a = await say(made, "a", 2);
  const b = await say(made, "b", 4);
  const c = await say(made, "c", 2);
  await made.close();
  const db = new Database(path);
  db.exec(`DELETE FROM save WHERE no = (SELECT no FROM save ORDER BY no LIMIT 1 OFFSET 3)`);
  db.close();
  const hold = await at(path);
  const { items, damaged } = await hold.checkpoints.list({});
  expect(ids(items).filter((id) => !b.includes(id))).toEqual([...newest(c), ...newest(a)]);
  expect(damaged).toEqual([{ id: "b", message: expect.stringContaining("is missing") }]);
  const pagesOfOne = [];
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list({ limit: 1, ...(cursor !== undefined && { cursor }) });
    pagesOfOne.push(...(page.damaged ?? []).map(({ id }) => id));
    cursor = page.next;
    if (cursor === undefined) break;
  }
  expect(pagesOfOne).toContain("b");
  // What is damaged counts as there.
  expect(await hold.sessions.has("b")).toBe(true);
  expect(await hold.checkpoints.has(b[1] as string)).toBe(true);
});

describe.each(stores)("has on $name", ({ address }) => {
  test("a session and a checkpoint are there, or not, without their state being read", async () => {
    const hold = await at(address());
    const [first = "", second = ""] = await say(hold, "a", 2);
    await hold.sessions.fork(first, { id: "f" });
    const asked = async () =>
      Promise.all([
        hold.sessions.has("a"),
        hold.checkpoints.has(first),
        hold.checkpoints.has(second),
      ]);
    expect(await asked()).toEqual([true, true, true]);
    expect(
      await Promise.all([
        hold.sessions.has("b"),
        hold.checkpoints.has("b"),
        hold.checkpoints.has(`${first}0`),
      ]),
    ).toEqual([false, false, false]);
    await hold.sessions.delete("a");
    // The fork inherits the first.
    expect(await asked()).toEqual([false, true, false]);
    await hold.checkpoints.delete(second).catch(() => {});
    for (const accident of [undefined, null, 5, ""]) {
      await expect(hold.sessions.has(accident as string)).rejects.toMatchObject(
        coded("INVALID_ID"),
      );
      await expect(hold.checkpoints.has(accident as string)).rejects.toMatchObject(
        coded("INVALID_ID"),
      );
    }
  });
});
