/** How much is read for a search, counted and not timed. */
import { afterEach, describe, expect, test } from "vitest";
import { open as openSave } from "../../../src/core/journal/open-save.js";
import { Journal } from "../../../src/engine/journal/journal.js";
import { OpenedTexts } from "../../../src/features/search/search-texts.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import type { Holdfast } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import { MOST_RANKED } from "../../../src/store/search-port.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";

let holds: Holdfast[] = [];
afterEach(async () => {
  for (const hold of holds) await hold.close();
  holds = [];
});

/** A store in memory that is gone over, and what was read of it. */
async function counted() {
  const store = await openStore("memory:");
  const read = { pages: 0, single: 0 };
  const calls: Partial<Store> = {
    saves(branch, range) {
      read[range.limit === 1 ? "single" : "pages"] += 1;
      return store.saves(branch, range);
    },
  };
  let time = Date.parse("2026-01-01T00:00:00Z");
  const hold = new Opened(
    wrapped(store, calls),
    thisMachine(),
    { now: () => (time += 1_000) },
    30_000,
  );
  holds.push(hold);
  return { hold, store, read };
}

async function say(hold: Holdfast, id: string, agent: string, count: number): Promise<string> {
  const session = await hold.session(id, { agent });
  session.append(
    ...Array.from({ length: count }, (_, i) => ({ role: "user" as const, content: `kelp ${i}` })),
  );
  const { id: checkpoint } = await session.checkpoint();
  await session.close();
  return checkpoint;
}

describe("a store without an index", () => {
  test("is gone over once, however few of the hits are wanted", async () => {
    const { hold, read } = await counted();
    // Neither lines of other agents are read, nor what no session owns and only they go back to.
    const at = await say(hold, "left", "y", 300);
    await hold.sessions.fork(at, { id: "heir" });
    await hold.sessions.delete("left");
    for (let i = 0; i < 20; i++) await say(hold, `s${i}`, i === 7 ? "x" : "y", 3);
    Object.assign(read, { pages: 0, single: 0 });
    const { items } = await hold.sessions.search("kelp", { agent: "x", limit: 3 });
    expect(items.map(({ sessionId }) => sessionId)).toEqual(["s7", "s7", "s7"]);
    expect(read.pages).toBe(1);
  });

  test("is read again for what is shown alone", async () => {
    const { hold, read } = await counted();
    for (let i = 0; i < 30; i++) await say(hold, `s${i}`, i % 10 === 0 ? "x" : "y", 5);
    Object.assign(read, { pages: 0, single: 0 });
    expect((await hold.sessions.search("kelp", { agent: "x", limit: 10 })).items).toHaveLength(10);
    expect(read).toMatchObject({ pages: 3, single: 10 });
  });

  test("of more hits than are ranked, the newest are", async () => {
    const { hold } = await counted();
    const session = await hold.session("many");
    const count = 2 * MOST_RANKED + 10;
    for (let made = 0; made < count; ) {
      const some = Math.min(5_000, count - made);
      session.append(
        ...Array.from({ length: some }, () => ({ role: "user" as const, content: "kelp" })),
      );
      await session.checkpoint();
      made += some;
    }
    await session.close();
    const { items, next } = await hold.sessions.search("kelp", {
      limit: 10,
      cursor: `f${MOST_RANKED - 1}`,
    });
    expect(items).toHaveLength(1);
    expect(next).toBeUndefined();
    // Checkpoints have numbers, too: one for each five thousand messages.
    const nth = count - MOST_RANKED + 1;
    expect(items[0]).toMatchObject({ seq: nth + Math.floor((nth - 1) / 5_000) });
  });
});

test("a save that holds many hits is opened once, and only where it is as it was", async () => {
  const { hold, store } = await counted();
  await say(hold, "a", "x", 3);
  const [branch] = await store.branches({ kind: "session", session: "a" });
  const [save] = branch
    ? await store.saves(branch.id, { from: 1, to: 1, limit: 1, items: true, state: false })
    : [];
  if (save === undefined) throw new Error("it was not saved");
  const texts = () => new OpenedTexts(new Journal(store));
  const opened = texts();
  expect(await opened.at(save, 1)).toMatchObject({ text: "kelp 0" });
  // Damaged, so that opening it would say so: what was verified before is shown.
  const later = { ...save, at: save.at + 1 };
  expect(await errorOf(async () => openSave(later, { items: true }))).toMatchObject({
    code: "CORRUPT",
  });
  expect(await opened.at(later, 2)).toEqual(await texts().at(save, 2));
  expect(await errorOf(() => texts().at(later, 2))).toMatchObject({ code: "CORRUPT" });
  const changed = { ...save, items: (save.items as string).replace("kelp 1", "kelp 7") };
  expect(await errorOf(() => opened.at(changed, 2))).toMatchObject({ code: "CORRUPT" });
});
