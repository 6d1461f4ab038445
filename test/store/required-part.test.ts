/**
 * A store with the required part alone, or without one of its capabilities: what goes on, and what
 * is refused. The table in docs/store.md says the same.
 */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../src/holdfast.js";
import { type HoldfastError, open } from "../../src/index.js";
import { CAPABILITIES, type Capability } from "../../src/store/capabilities.js";
import { thisMachine } from "../../src/store/machine.js";
import { MemoryStore } from "../../src/store/memory.js";
import type { Store } from "../../src/store/port.js";
import { CALLS } from "../../src/testing/contract/missing.js";
import { contractFor, scriptedModel } from "../../src/testing/index.js";
import { errorOf } from "../support/error-of.js";
import { call, Options, openWorldOn, surfaces } from "../support/public-calls.js";

/** A store in memory, some of whose capabilities can be hidden. */
function hiding(...names: readonly Capability[]) {
  const hidden = new Set<unknown>(names);
  const store = new Proxy(new MemoryStore(), {
    get(target, name) {
      if (hidden.has(name)) return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { store: store as Store, hide: (name: Capability) => void hidden.add(name) };
}

const traits = new MemoryStore().traits;
const hidden = [...CAPABILITIES.map((name) => [name]), [...CAPABILITIES]];

describe.each(hidden.map((names) => ({ names })))(
  "the contract without $names",
  async ({ names }) => {
    const make = () => ({ traits, open: async () => hiding(...names).store });
    const cases = await contractFor(make);
    test.each(cases)("$name", ({ run }) => run(make));
  },
);

/** Every public call, with a key where its options have one, and without. */
const every = surfaces.flatMap(({ name, of, calls }) =>
  Object.entries(calls).flatMap(([method, args]) =>
    [true, false].map((isKeyed) => ({ called: `${name}.${method}`, of, method, args, isKeyed })),
  ),
);

const given = (arg: unknown, isKeyed: boolean): unknown => {
  if (!(arg instanceof Options)) return arg;
  const { key, ...fields } = arg.fields;
  return isKeyed && key !== undefined ? { ...fields, key } : fields;
};

/** Whether a call is refused where the store has lost one of its capabilities. */
async function isRefused(
  capability: Capability,
  { of, method, args, isKeyed }: (typeof every)[number],
): Promise<boolean> {
  const { store, hide } = hiding();
  const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
  const world = await openWorldOn(hold);
  hide(capability);
  try {
    await call(
      of(world),
      method,
      args(world).map((arg) => given(arg, isKeyed)),
    );
    return false;
  } catch (error) {
    const { code, details } = error as Partial<HoldfastError>;
    return code === "UNSUPPORTED" && details?.capability === capability;
  } finally {
    await hold.close();
  }
}

const page = readFileSync(new URL("../../docs/store.md", import.meta.url), "utf8");
const KEYED = " with a key";

describe.each(Object.keys(CALLS) as (keyof typeof CALLS)[])("without %s", (capability) => {
  const needing = Object.keys(CALLS[capability]).toSorted();

  test("the page on stores lists the calls that need it", () => {
    const row = page.split("\n").find((line) => line.startsWith(`| \`${capability}\` |`)) ?? "";
    const listed = [...row.matchAll(/`(\w+\.[\w.]+)`/g)].map(([, found]) => String(found));
    expect(listed.toSorted()).toEqual(needing.filter((name) => !name.endsWith(KEYED)));
    for (const name of needing.filter((one) => one.endsWith(KEYED)))
      expect(page).toContain(`\`${name.slice(0, -KEYED.length)}\``);
  });

  test("these calls are refused, and no others", { timeout: 60_000 }, async () => {
    const refused = new Set<string>();
    // A turn to cancel comes from `submit`, which needs an inbox.
    const reached = every.filter(({ called }) => called !== "turn.cancel");
    for (const one of reached.filter(({ isKeyed }) => !isKeyed))
      if (await isRefused(capability, one)) refused.add(one.called);
    for (const one of reached.filter(({ isKeyed }) => isKeyed))
      if (!refused.has(one.called) && (await isRefused(capability, one)))
        refused.add(one.called + KEYED);
    expect([...refused].toSorted()).toEqual(needing);
  });
});

test("runs, sessions by hand, forks and moves go on without any of them", async () => {
  const hold = await open(hiding(...CAPABILITIES).store);
  const bot = hold.agent({
    name: "bot",
    model: scriptedModel([
      { content: [{ type: "tool-call", callId: "c1", name: "look", input: {} }] },
      "done",
    ]),
    tools: { look: { input: { type: "object" }, mode: "repeatable", run: () => "kelp" } },
  });
  expect(await bot.run("a", "go", { key: "turn" })).toMatchObject({ status: "completed" });
  const session = await hold.session("b");
  await session.effect("send", {}, { mode: "once", key: "e" }, () => "sent");
  await session.model(async () => "answer", { key: "m" });
  session.set("n", 1);
  const { id } = await session.checkpoint();
  session.set("n", 2);
  await session.checkpoint();
  await session.close();
  await hold.sessions.fork(id, { id: "f" });
  await hold.sessions.rewind("b", id);
  expect((await hold.sessions.state("b")).state).toEqual({ n: 1 });
  expect((await hold.checkpoints.list("b")).items).toHaveLength(1);
  expect((await hold.sessions.search("kelp")).items).not.toEqual([]);
  let rows = "";
  for await (const row of hold.export()) rows += row;
  const other = await open(hiding(...CAPABILITIES).store);
  const report = await other.import([rows]);
  expect(report.sessions.map(({ outcome }) => outcome)).toEqual([
    "imported",
    "imported",
    "imported",
  ]);
  expect(report.conflicts).toEqual([]);
  expect(await hold.sessions.delete("a")).toMatchObject({ deleted: true });
  for (const one of [hold, other]) {
    expect(await one.verify()).toMatchObject({ ok: true });
    await one.close();
  }
});

test("records of agents are left out where there are no documents", async () => {
  const from = await open("memory:");
  await from.agents.save({ id: "ann" });
  let rows = "";
  for await (const row of from.export()) rows += row;
  const to = await open(hiding("documents").store);
  expect((await to.import([rows])).agents).toEqual([{ id: "ann", outcome: "left-out" }]);
  await from.close();
  await to.close();
});

test("what forks must know of calls is not forgotten with a session", async () => {
  const hold = await open(hiding("documents").store);
  const session = await hold.session("a");
  const { id } = await session.checkpoint();
  await session.effect("send", {}, { mode: "once", key: "e" }, () => "sent");
  await session.close();
  await hold.sessions.fork(id, { id: "f" });
  const error = await errorOf(() => hold.sessions.delete("a"));
  expect(error).toMatchObject({ code: "UNSUPPORTED", details: { capability: "documents" } });
  await hold.sessions.delete("f");
  expect(await hold.sessions.delete("a")).toMatchObject({ deleted: true });
  await hold.close();
});

describe("a store that is given", () => {
  const whole = (over: object) => {
    const store = hiding().store;
    return new Proxy(store, {
      get: (target, name) => Reflect.get(name in over ? over : target, name) as unknown,
    });
  };

  test.each([
    ["store.apply", { apply: undefined }],
    ["store.branches", { branches: "none" }],
    ["store.traits", { traits: undefined }],
    ["store.traits.durable", { traits: { oneMachine: true, shared: true } }],
    ["store.inbox", { inbox: true }],
    ["store.inbox.list", { inbox: { post: () => {} } }],
    ["store.reclaim.scrub", { reclaim: { ...new MemoryStore().reclaim, scrub: 1 } }],
    ["store.gone", { gone: {} }],
    ["store.cursorKey", { cursorKey: 7 }],
  ])("must be one: %s", async (path, over) => {
    const error = await errorOf(() => open(whole(over) as Store));
    expect(error).toMatchObject({ code: "INVALID_OPTION", details: { path } });
  });

  test.each(["busyMs", "checks", "tenant", "schema", "connections", "queue", "prepare"])(
    "takes no %s",
    async (name) => {
      const error = await errorOf(() => open(new MemoryStore(), { [name]: 1 }));
      expect(error).toMatchObject({ code: "INVALID_OPTION", details: { path: name } });
    },
  );

  test("is closed with what was opened on it", async () => {
    const store = new MemoryStore();
    await (await open(store)).close();
    expect(await errorOf(() => store.session("a"))).toMatchObject({ code: "CLOSED" });
  });
});
