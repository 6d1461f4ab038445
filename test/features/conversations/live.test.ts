/**
 * `hold.sessions.events` across processes: what one process saves, another is told of soon, by a
 * hint or, without one, by looking.
 */
import { afterEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { stores } from "../../support/stores.js";

let child: Child | undefined;
afterEach(async () => {
  await child?.end();
  child = undefined;
});

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] as number;

/** How long after it was saved by another process each message was heard of, in ms. */
async function delays(hold: Holdfast, address: string, count: number): Promise<readonly number[]> {
  const writer = startPuppet();
  child = writer;
  await writer.ask({ do: "open", path: address });
  await writer.ask({ do: "session", session: "a" });
  await writer.ask({ do: "save", session: "a", text: "first" });
  const events = hold.sessions.events("a")[Symbol.asyncIterator]();
  const texts: unknown[] = [];
  const nextMessage = async () => {
    for (;;) {
      const { value, done } = await events.next();
      if (done) return;
      if (value.type === "message") return void texts.push(value.message.content);
    }
  };
  await nextMessage();
  const found: number[] = [];
  for (let i = 0; i < count; i++) {
    const heard = nextMessage();
    // It has looked, found nothing, and waits.
    await new Promise((resolve) => setTimeout(resolve, 120));
    await writer.ask({ do: "save", session: "a", text: `message ${i}` });
    const saved = performance.now();
    await heard;
    found.push(performance.now() - saved);
  }
  expect(texts).toEqual(["first", ...Array.from({ length: count }, (_, i) => `message ${i}`)]);
  await writer.ask({ do: "delete", session: "a" });
  // The checkpoint of the last message, and then the end.
  let done: boolean | undefined;
  for (let left = 3; done !== true && left > 0; left--) ({ done } = await events.next());
  expect(done, "it ends with the session").toBe(true);
  return found;
}

describe.each(stores.filter(({ traits }) => traits.shared))("live on $name", ({ address }) => {
  test("another process's saves are told at once", async () => {
    const place = address();
    const hold = await open(place);
    const found = await delays(hold, place, 9);
    await hold.close();
    expect(median(found)).toBeLessThan(300);
  });

  test("without a hint they are found by looking", async () => {
    const place = address();
    const store = await openStore(place);
    const deaf = new Proxy(store, {
      get: (target, name) =>
        name === "watch" ? () => () => {} : bound(target, name as keyof typeof target),
    });
    const hold = new Holdfast(deaf, thisMachine(), { now: Date.now }, 30_000);
    const found = await delays(hold, place, 2);
    await hold.close();
    expect(Math.max(...found)).toBeLessThan(5_000);
    expect(
      median(found),
      "negative control: the hint is what makes the difference",
    ).toBeGreaterThan(300);
  });
});

describe.each(stores.filter(({ traits }) => traits.shared))(
  "watching all of a store on $name",
  ({ address }) => {
    const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

    test("mail that another posts is told at once, also to a session that has some already, and to nobody who has stopped", async () => {
      const place = address();
      const [mine, theirs, elsewhere] = [
        await openStore(place),
        await openStore(place),
        await openStore(place, { tenant: "other" }),
      ];
      await mine.apply([begin("a", { agent: "x" })]);
      let wakes = 0;
      let wakesElsewhere = 0;
      const stop = mine.watch(undefined, () => void (wakes += 1));
      elsewhere.watch(undefined, () => void (wakesElsewhere += 1));
      // Some begin with a wake of their own.
      await pause(500);
      const before = wakesElsewhere;
      const found: number[] = [];
      for (let i = 0; i < 9; i++) {
        const heard = wakes;
        expect(await theirs.inbox.post("a", { id: `m${i}`, text: "x", due: 0 })).toBe("posted");
        const posted = performance.now();
        await expect.poll(() => wakes, { interval: 5 }).toBeGreaterThan(heard);
        found.push(performance.now() - posted);
        await pause(120);
      }
      expect(median(found)).toBeLessThan(300);
      stop();
      stop();
      const heard = wakes;
      await theirs.inbox.post("a", { id: "last", text: "x", due: 0 });
      await pause(300);
      expect(wakes).toBe(heard);
      // A file knows only that it was changed.
      if (!mine.traits.oneMachine) expect(wakesElsewhere).toBe(before);
      for (const store of [mine, theirs, elsewhere]) await store.close();
    });
  },
);

function bound<T extends object>(target: T, name: keyof T): unknown {
  const value = target[name];
  return typeof value === "function" ? value.bind(target) : value;
}
