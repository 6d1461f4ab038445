/**
 * Many signals to one session: what each costs does not grow with how many wait, and none is lost.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { open, tool } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

interface Counts {
  calls: number;
  rows: number;
  applies: number;
}

/** Counts calls of a store, and rows that it gives. */
function counting(store: Store, counts: Counts): Store {
  const counted = async <T extends readonly unknown[]>(rows: Promise<T>): Promise<T> => {
    counts.calls += 1;
    const found = await rows;
    counts.rows += found.length;
    return found;
  };
  return wrapped(store, {
    saves: (branch, query) => counted(store.saves(branch, query)),
    session: (id, how) => {
      counts.calls += 1;
      return store.session(id, how);
    },
    apply: (changes, docs) => {
      counts.calls += 1;
      counts.applies += 1;
      return store.apply(changes, docs);
    },
    inbox: {
      list: (session, query) => counted(store.inbox.list(session, query)),
      post: (session, mail) => {
        counts.calls += 1;
        return store.inbox.post(session, mail);
      },
    },
  });
}

const holdOver = (store: Store): Holdfast =>
  new Holdfast(store, thisMachine(), { now: Date.now }, 30_000, { indexed: false });

/** Its tool waits for two signals called `n`, and answers both. */
const agentOf = (hold: Holdfast) =>
  hold.agent({
    name: "waits",
    model: scriptedModel([
      { content: [{ type: "tool-call", callId: "c", name: "two", input: {} }] },
      "done",
    ]),
    tools: {
      two: tool({
        input: { type: "object" },
        mode: "repeatable",
        run: async (_input, { wait }) => `${String(await wait("n"))} ${String(await wait("n"))}`,
      }),
    },
  });

describe.each(stores)("$name", ({ address, traits }) => {
  test("signals of a burst take a few calls each, and are taken in together", async () => {
    const counts: Counts = { calls: 0, rows: 0, applies: 0 };
    const hold = holdOver(counting(await openStore(address()), counts));
    await (await hold.session("a")).close();
    const MANY = traits.durable ? 60 : 400;
    for (let i = 0; i < MANY; i++) await hold.sessions.signal("a", "n", i);
    await hold.export({ session: "a" })[Symbol.asyncIterator]().next();
    expect(counts.calls).toBeLessThan(8 * MANY);
    expect(counts.rows).toBeLessThan(20 * MANY);
    const agent = agentOf(hold);
    expect(await agent.run("b", "go")).toMatchObject({ status: "waiting" });
    await hold.sessions.signal("b", "n", "x");
    await hold.sessions.signal("b", "n", "y");
    expect(await agent.resume("b")).toMatchObject({ status: "completed" });
    await hold.close();
  });
});

describe.each(stores)("signals that were sent, on $name", ({ address, traits }) => {
  const sent = async (hold: Holdfast) => {
    await (await hold.session("a", { agent: "waits" })).close();
    for (let i = 0; i < 3; i++) await hold.sessions.signal("a", "n", i);
  };
  const goesOn = async (hold: Holdfast) =>
    expect(await agentOf(hold).run("a", "go")).toMatchObject({ status: "completed" });

  test("are in a snapshot", async () => {
    const hold = holdOver(await openStore(address()));
    await sent(hold);
    const { id } = await hold.agents.snapshot("waits");
    await (await hold.session("a")).close();
    await hold.agents.restore(id);
    await goesOn(hold);
    await hold.close();
  });

  test("are in an export, also of another process", async () => {
    const place = address();
    const hold = holdOver(await openStore(place));
    const other = traits.durable ? holdOver(await openStore(place)) : hold;
    await sent(hold);
    const into = await open("memory:");
    await into.import(other.export({ session: "a" }));
    await goesOn(into);
    for (const one of new Set([into, other, hold])) await one.close();
  });
});

test("signals that are on their way while an export takes others in are taken in after it", async () => {
  const store = await openStore("memory:");
  const letGo: (() => void)[] = [];
  let isSlow = false;
  const slow = wrapped(store, {
    inbox: {
      post: async (session, mail) => {
        if (isSlow) await new Promise<void>((resolve) => letGo.push(resolve));
        return store.inbox.post(session, mail);
      },
    },
  });
  const hold = holdOver(slow);
  await (await hold.session("a")).close();
  await hold.sessions.signal("a", "n", 0);
  isSlow = true;
  const sends = [1, 2, 3].map((i) => hold.sessions.signal("a", "n", i));
  while (letGo.length < 3) await sleep(1);
  for await (const _ of hold.export({ session: "a" }));
  for (const go of letGo) go();
  await Promise.all(sends);
  const waiting = () => store.inbox.list("a", { dueBy: Date.now(), limit: 10 });
  while ((await waiting()).length > 0) await sleep(10);
  await hold.close();
});

test("signals come in their order, once each, though they were sent in a burst", async () => {
  const hold = await open("memory:");
  const agent = agentOf(hold);
  expect(await agent.run("a", "go")).toMatchObject({ status: "waiting" });
  for (const value of ["other 1", "other 2"]) await hold.sessions.signal("a", "other", value);
  for (const value of ["one", "two", "three"]) await hold.sessions.signal("a", "n", value);
  expect(await agent.resume("a")).toMatchObject({ status: "completed" });
  const { messages } = await hold.sessions.state("a");
  expect(JSON.stringify(messages)).toContain("one two");
  await hold.close();
});

test("of signals that are sent at the same moment, a thousand are taken", async () => {
  const counts: Counts = { calls: 0, rows: 0, applies: 0 };
  const hold = holdOver(counting(await openStore("memory:"), counts));
  await (await hold.session("a")).close();
  const sent = await Promise.allSettled(
    Array.from({ length: 1_010 }, (_, i) => hold.sessions.signal("a", "n", i)),
  );
  expect(sent.filter(({ status }) => status === "fulfilled")).toHaveLength(1_000);
  expect(counts.calls).toBeLessThan(8 * 1_000);
  await hold.close();
});

test("no more than a thousand signals wait", async () => {
  const hold = await open("memory:");
  await (await hold.session("a")).close();
  for (let i = 0; i < 1_000; i++) await hold.sessions.signal("a", "n", i);
  await expect(hold.sessions.signal("a", "n", "too many")).rejects.toMatchObject({
    code: "TOO_LARGE",
    details: { limit: 1_000 },
  });
  await hold.close();
});

test("a burst that a process did not take in is taken in by the next that opens the session", async () => {
  const store = await openStore("memory:");
  const killed = holdOver(store);
  await (await killed.session("a")).close();
  for (let i = 0; i < 20; i++) await killed.sessions.signal("a", "n", i);
  // It ends here without a word: nothing of its timers counts.
  const next = holdOver(store);
  const session = await next.session("a");
  expect(await store.inbox.list("a", { dueBy: Date.now(), limit: 100 })).toEqual([]);
  await session.close();
  await next.close();
});

test("a burst to a session that another holds waits for the holder, and is bounded", async () => {
  const store = await openStore("memory:");
  const [holder, sender] = [holdOver(store), holdOver(store)];
  const session = await holder.session("a");
  for (let i = 0; i < 1_000; i++) await sender.sessions.signal("a", "n", i);
  await expect(sender.sessions.signal("a", "n", "too many")).rejects.toMatchObject({
    code: "TOO_LARGE",
  });
  await session.close();
  expect(await store.inbox.list("a", { dueBy: Date.now(), limit: 100 })).toEqual([]);
  await expect(sender.sessions.signal("a", "n", "too many")).rejects.toMatchObject({
    code: "TOO_LARGE",
  });
});

test("signals of a burst stand on the line that a rewind leaves", async () => {
  const hold = await open("memory:");
  const session = await hold.session("a");
  session.set("k", 1);
  const { id } = await session.checkpoint();
  await session.close();
  for (let i = 0; i < 1_000; i++) await hold.sessions.signal("a", "n", i);
  await hold.sessions.rewind("a", id);
  await hold.sessions.signal("a", "n", "on the new line");
  await hold.close();
});
