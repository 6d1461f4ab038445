/**
 * Setting one key of an agent's state: the other keys stay, also if another process saves them at
 * the same time.
 */
import { afterEach, describe, expect, test } from "vitest";
import { Holdfast as Hold } from "../../../src/holdfast.js";
import { type Holdfast, type OpenOptions, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});
async function fresh(address = "memory:", o: OpenOptions = {}): Promise<Holdfast> {
  const hold = await open(address, o);
  opened.push(hold);
  return hold;
}
const stateOf = async (hold: Holdfast, id = "ann") => (await hold.agents.get(id))?.state;

describe.each(stores)("on $name", ({ address, traits }) => {
  test("a key is set and unset, and nothing else changes", async () => {
    const place = address();
    const hold = await fresh(place);
    await hold.agents.save({
      id: "ann",
      system: "Help.",
      state: { a: 1, b: { deep: true } },
      metadata: { team: "x" },
    });
    expect(await hold.agents.set("ann", "c", [1, null, "x"])).toMatchObject({
      version: 2,
      state: { a: 1, b: { deep: true }, c: [1, null, "x"] },
    });
    expect(await hold.agents.set("ann", "a", 2)).toMatchObject({
      version: 3,
      state: { a: 2, b: { deep: true } },
    });
    expect(await hold.agents.unset("ann", "b")).toMatchObject({
      version: 4,
      state: { a: 2, c: [1, null, "x"] },
    });
    expect(await hold.agents.unset("ann", "never there")).toMatchObject({
      state: { a: 2, c: [1, null, "x"] },
    });
    expect(
      await hold.agents.save({ id: "ann", set: { d: 4 }, unset: ["c"], type: "t" }),
    ).toMatchObject({
      version: 6,
      type: "t",
      system: "Help.",
      state: { a: 2, d: 4 },
      metadata: { team: "x" },
    });
    if (!traits.durable) return;
    await hold.close();
    expect(await stateOf(await fresh(place))).toEqual({ a: 2, d: 4 });
  });

  test("of setters that race, from here and from another process, each wins", async () => {
    const place = address();
    const here = await fresh(place);
    await here.agents.save({ id: "ann", state: { kept: true } });
    // A directory has one writer at a time, and memory one user.
    const there = traits.shared && !traits.inBulk ? await fresh(place) : here;
    const names = Array.from({ length: 12 }, (_, i) => `k${i}`);
    await Promise.all(names.map((name, i) => (i % 2 ? here : there).agents.set("ann", name, i)));
    await Promise.all(
      names.slice(0, 4).map((name, i) => (i % 2 ? there : here).agents.unset("ann", name)),
    );
    const expected = Object.fromEntries(names.slice(4).map((name, i) => [name, i + 4]));
    expect(await stateOf(here)).toEqual({ kept: true, ...expected });
    expect((await here.agents.get("ann"))?.version).toBe(17);
  });
});

test("negative control: a whole state that is saved over one that was read before loses a key", async () => {
  const hold = await fresh();
  await hold.agents.save({ id: "ann", state: { a: 1 } });
  const read = await stateOf(hold);
  await hold.agents.set("ann", "b", 2);
  await hold.agents.save({ id: "ann", state: { ...read, c: 3 } });
  expect(await stateOf(hold)).toEqual({ a: 1, c: 3 });
});

test.each([
  [
    "set",
    ["ann", "plan", { steps: [{ when: new Date() }] }],
    "INVALID_VALUE",
    "state.plan.steps[0].when",
  ],
  ["set", ["ann", "no name", undefined], "INVALID_VALUE", 'state["no name"]'],
  ["set", ["ann", "", 1], "INVALID_ID", undefined],
  ["set", ["ann", "x".repeat(201), 1], "INVALID_ID", undefined],
  ["set", ["nobody", "a", 1], "NOT_FOUND", undefined],
  ["unset", ["nobody", "a"], "NOT_FOUND", undefined],
  ["unset", ["ann", 7], "INVALID_ID", undefined],
  ["set", ["ann", "a", 1, { kee: "k" }], "INVALID_OPTION", "agents.set"],
  ["save", [{ id: "ann", state: {}, set: {} }], "INVALID_OPTION", "state"],
  ["save", [{ id: "ann", set: [1] }], "INVALID_OPTION", "set"],
  ["save", [{ id: "ann", set: { a: () => 1 } }], "INVALID_VALUE", "set.a"],
  ["save", [{ id: "ann", unset: "a" }], "INVALID_OPTION", "unset"],
  ["save", [{ id: "ann", unset: ["a"], set: { a: 1 } }], "INVALID_OPTION", "unset"],
  ["save", [{ id: "ann", version: 7, set: { a: 1 } }], "CONFLICT", undefined],
] as const)("agents.%s of %j is refused with %s", async (call, args, code, path) => {
  const hold = await fresh();
  await hold.agents.save({ id: "ann", state: { a: 0 } });
  const refused = await errorOf(() =>
    (hold.agents[call] as (...given: readonly unknown[]) => unknown)(...args),
  );
  expect(refused).toMatchObject({ code, ...(path !== undefined && { details: { path } }) });
  expect(await hold.agents.get("ann")).toMatchObject({ version: 1, state: { a: 0 } });
  expect((await hold.agents.list()).items).toHaveLength(1);
});

test("a key that makes the state too large is refused, however small the key is", async () => {
  const hold = await fresh();
  await hold.agents.save({ id: "ann", state: { a: "x".repeat(3 * 1024 * 1024) } });
  const refused = await errorOf(() => hold.agents.set("ann", "b", "x".repeat(1024 * 1024)));
  expect(refused).toMatchObject({ code: "TOO_LARGE", details: { path: "state" } });
  expect(Object.keys((await stateOf(hold)) ?? {})).toEqual(["a"]);
});

test("the hook for redactions sees what is set, and __proto__ is a key like others", async () => {
  const hold = await fresh("memory:", { redact: (text) => text.replaceAll("secret", "•") });
  await hold.agents.save({ id: "ann" });
  await hold.agents.set("ann", "note", { deep: ["a secret"] });
  await hold.agents.set("ann", "__proto__", "secret");
  const state = await stateOf(hold);
  expect(JSON.stringify(state)).toBe('{"note":{"deep":["a •"]},"__proto__":"•"}');
  expect(JSON.stringify((await hold.agents.unset("ann", "__proto__")).state)).toBe(
    '{"note":{"deep":["a •"]}}',
  );
});

test("a damaged record is not made anew by a key that is set", async () => {
  let isDamaged = false;
  const store = await openStore("memory:");
  const doc: typeof store.documents.get = async (kind, id) => {
    const row = await store.documents.get(kind, id);
    return row && isDamaged && kind === "agent" ? { ...row, text: "x" } : row;
  };
  const hold = new Hold(
    wrapped(store, { documents: { get: doc } }),
    thisMachine(),
    { now: Date.now },
    30_000,
  );
  opened.push(hold);
  await hold.agents.save({ id: "ann", state: { a: 1 } });
  isDamaged = true;
  expect(await errorOf(() => hold.agents.set("ann", "b", 2))).toMatchObject({ code: "CORRUPT" });
  expect(await errorOf(() => hold.agents.save({ id: "ann", set: { b: 2 } }))).toMatchObject({
    code: "CORRUPT",
  });
  isDamaged = false;
  expect(await stateOf(hold)).toEqual({ a: 1 });
});

test("restored from a snapshot, exported and imported, the state is as it was set", async () => {
  const hold = await fresh();
  await hold.agents.save({ id: "ann" });
  await hold.agents.set("ann", "a", 1);
  const snap = await hold.agents.snapshot("ann");
  await hold.agents.set("ann", "a", 2);
  await hold.agents.set("ann", "b", 3);
  await hold.agents.restore(snap.id);
  expect(await stateOf(hold)).toEqual({ a: 1 });
  const other = await fresh();
  await other.import(hold.export());
  expect(await stateOf(other)).toEqual({ a: 1 });
  // A key that was used stays used, also after the restore.
  await hold.agents.set("ann", "c", 1, { key: "k" });
  await hold.agents.restore(snap.id);
  expect((await hold.agents.set("ann", "c", 1, { key: "k" })).state).toEqual({ a: 1 });
});
