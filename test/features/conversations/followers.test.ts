/** Many followers at once: what they cost is shared, and ends with them. */
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import type { Session, SessionEvent } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const MANY = 300;

interface Counted {
  readonly hold: Holdfast;
  /** Calls of the store, and rows of saves that it gave, since they were last reset. */
  readonly count: {
    watches: number;
    unwatches: number;
    presents: number;
    saves: number;
    rows: number;
  };
}

async function counted(address: string): Promise<Counted> {
  const store = await openStore(address);
  const count = { watches: 0, unwatches: 0, presents: 0, saves: 0, rows: 0 };
  const counting: Partial<Store> = {
    watch(session, wake) {
      count.watches += 1;
      const stop = store.watch(session, wake);
      return () => {
        count.unwatches += 1;
        stop();
      };
    },
    session(id, how) {
      if (how === "end") count.presents += 1;
      return store.session(id, how);
    },
    async saves(branch, query) {
      const rows = await store.saves(branch, query);
      // Not the look at where a line ends.
      if (query.items) {
        count.saves += 1;
        count.rows += rows.length;
      }
      return rows;
    },
  };
  const hold = new Holdfast(wrapped(store, counting), thisMachine(), { now: Date.now }, 30_000, {
    indexed: false,
  });
  return { hold, count };
}

const say = async (session: Session, content: string): Promise<void> => {
  session.append({ role: "user", content });
  await session.checkpoint();
};

type Follower = AsyncGenerator<SessionEvent>;

const follow = (
  hold: Holdfast,
  id: string,
  o?: { signal?: AbortSignal; after?: string },
): Follower => hold.sessions.events(id, o)[Symbol.asyncIterator]() as Follower;

async function warnings(during: () => Promise<void>): Promise<string[]> {
  const seen: string[] = [];
  const note = (warning: Error) => seen.push(warning.message);
  process.on("warning", note);
  await during();
  await new Promise(setImmediate);
  process.off("warning", note);
  return seen;
}

describe.each(stores)("$name", ({ address }) => {
  test("followers of one session share the store's watch and its reads, and leave nothing behind", async () => {
    const { hold, count } = await counted(address());
    const session = await hold.session("talk");
    await say(session, "one");
    const after = session.head?.id ?? "";
    const { signal } = new AbortController();
    const seen = await warnings(async () => {
      const all = Array.from({ length: MANY }, (_, i) =>
        follow(hold, "talk", { after, ...(i % 2 === 0 && { signal }) }),
      );
      const next = all.map((follower) => follower.next());
      // All of them wait by now, or will be told.
      await new Promise(setImmediate);
      Object.assign(count, { presents: 0, saves: 0 });
      await say(session, "two");
      for (const { value } of await Promise.all(next))
        expect(value).toMatchObject({ type: "message", message: { content: "two" } });
      expect(count.watches).toBe(1);
      await Promise.all(all.map((follower) => follower.return(undefined)));
    });
    expect(seen).toEqual([]);
    expect(count.unwatches).toBe(1);
    // One for all of them, or a few where some began to look a moment later.
    expect(count.presents).toBeLessThan(MANY / 2);
    expect(count.saves).toBeLessThan(MANY / 2);
    await hold.close();
  });

  test("a follower that is not read keeps a few rows, however long the past is", async () => {
    const { hold, count } = await counted(address());
    const session = await hold.session("talk");
    for (let i = 0; i < 40; i++) await say(session, `message ${i}`);
    Object.assign(count, { rows: 0 });
    const follower = follow(hold, "talk");
    await follower.next();
    expect(count.rows).toBeLessThanOrEqual(4);
    const rest: unknown[] = [];
    for (let i = 1; i < 80; i++) rest.push((await follower.next()).value?.type);
    expect(rest.filter((type) => type === "message")).toHaveLength(39);
    await follower.return(undefined);
    await hold.close();
  });
});

test("followers of many sessions have one watch each, and end when the store is closed", async () => {
  const { hold, count } = await counted("memory:");
  for (let i = 0; i < MANY; i++) await (await hold.session(`s${i}`)).close();
  const seen = await warnings(async () => {
    const next = Array.from({ length: MANY }, (_, i) => follow(hold, `s${i}`).next());
    await new Promise(setImmediate);
    await hold.close();
    expect((await Promise.all(next)).every(({ done }) => done === true)).toBe(true);
  });
  expect(seen).toEqual([]);
  expect([count.watches, count.unwatches]).toEqual([MANY, MANY]);
});

test("a look now and then finds a change of which the store gave no hint", async () => {
  const store = await openStore("memory:");
  const silent = () =>
    new Holdfast(
      wrapped(store, { watch: () => () => {} }),
      thisMachine(),
      { now: Date.now },
      30_000,
      { indexed: false },
    );
  const [writer, reader] = [silent(), silent()];
  const session = await writer.session("talk");
  await say(session, "one");
  const followers = Array.from({ length: 20 }, () =>
    follow(reader, "talk", { after: session.head?.id ?? "" }),
  );
  const next = followers.map((follower) => follower.next());
  await new Promise(setImmediate);
  await say(session, "two");
  for (const { value } of await Promise.all(next)) expect(value).toMatchObject({ type: "message" });
  await Promise.all(followers.map((follower) => follower.return(undefined)));
  await reader.close().catch(() => {});
});

describe.each(stores)("lines that were left, on $name", ({ address }) => {
  test("a follower of a long past ends where its session is deleted and made again", async () => {
    const store = await openStore(address());
    const over = (one: Store) =>
      new Holdfast(one, thisMachine(), { now: Date.now }, 30_000, { indexed: false });
    const hold = over(store);
    // Without hints: it looks again once the other session is there.
    const reader = over(wrapped(store, { watch: () => () => {} }));
    const session = await hold.session("a");
    // More lines than a past is read at once.
    for (let i = 0; i < 40; i++) {
      session.append({ role: "user", content: `${i}` });
      await session.rewind((await session.checkpoint()).id);
    }
    await say(session, "last");
    await session.close();
    const { id } = (await hold.checkpoints.latest("a")) as { id: string };
    const ended = follow(reader, "a", { after: id }).next();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await hold.sessions.delete("a");
    const again = await hold.session("a");
    await say(again, "new");
    expect(await ended).toEqual({ done: true, value: undefined });
    await again.close();
    await hold.close();
  });

  test("without waiting, a cursor on a line that was left leads to all that came on the new one", async () => {
    const { hold } = await counted(address());
    const session = await hold.session("a");
    session.append({ role: "user", content: "shared" });
    const { id: shared } = await session.checkpoint();
    await say(session, "left");
    const { id: after } = (await hold.checkpoints.latest("a")) as { id: string };
    await session.rewind(shared);
    for (let i = 0; i < 10; i++) await say(session, `${i}`);
    await session.close();
    const told: unknown[] = [];
    for await (const event of hold.sessions.events("a", { after, live: false }))
      told.push(event.type === "message" ? event.message.content : event.type);
    expect(told).toEqual([
      "rewind",
      ...Array.from({ length: 10 }, (_, i) => [`${i}`, "checkpoint"]).flat(),
    ]);
    await hold.close();
  });
});

test("followers that read a long past let timers run", async () => {
  const { hold } = await counted("memory:");
  const session = await hold.session("a");
  for (let i = 0; i < 100; i++) await say(session, `${i}`);
  let isOver = false;
  let turns = 0;
  const turn = () => {
    turns += 1;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const read = async () => {
    let events = 0;
    for await (const _ of hold.sessions.events("a", { live: false })) events += 1;
    return events;
  };
  const began = performance.now();
  const all = await Promise.all(Array.from({ length: MANY }, read));
  const tookMs = performance.now() - began;
  isOver = true;
  expect(new Set(all)).toEqual(new Set([200]));
  // A turn lasts for some ten milliseconds. Without a pause there is one.
  expect(turns).toBeGreaterThan(Math.min(5, tookMs / 100));
  await session.close();
  await hold.close();
});
