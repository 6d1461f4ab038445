/** WALK-1 to WALK-3: what a walk over saves finds, and that each reader of saves finds it too. */
import { describe, expect, test } from "vitest";
import { firstSeq, type Save } from "../../../src/core/journal/save.js";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { type BranchId, MAX_SEQ } from "../../../src/core/values/ids.js";
import { Journal } from "../../../src/engine/journal/journal.js";
import type { Stretch, WalkOptions } from "../../../src/engine/journal/walk.js";
import { Holdfast } from "../../../src/holdfast.js";
import { thisMachine } from "../../../src/store/machine.js";
import { MemoryStore } from "../../../src/store/memory.js";
import { noTailAnchors } from "../../../src/store/port/copies.js";
import type { SaveQuery } from "../../../src/store/port/queries.js";
import type { Store } from "../../../src/store/port.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { coded } from "../../support/processes.js";

const at = (store: Store): Holdfast =>
  new Holdfast(store, thisMachine(), { now: Date.now }, 30_000, { indexed: false });

type Change = (save: Save) => Save | undefined;

/** A store whose saves are read as `change` has them. What it leaves out is not there. */
function damaged(store: Store, change: Change, traits = store.traits): Store {
  const saves = async (branch: BranchId, query: SaveQuery) =>
    (await store.saves(branch, { ...query, limit: MAX_SEQ }))
      .flatMap((save) => change(save) ?? [])
      .slice(0, query.limit);
  return wrapped(store, { saves, traits });
}

const without =
  ({ branch, seq }: Pick<Save, "branch" | "seq">): Change =>
  (save) =>
    save.branch === branch && save.seq === seq ? undefined : save;

const savesOf = (store: Store, branch: BranchId): Promise<readonly Save[]> =>
  store.saves(branch, { from: 1, to: MAX_SEQ, limit: MAX_SEQ, items: true, state: true });

/** A session of twelve checkpoints, and a fork of it with six more. */
async function grown() {
  const store = new MemoryStore();
  const hold = at(store);
  const session = await hold.session("a");
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) {
    session.append({ role: "user", content: `message ${n}` });
    session.set("n", n);
    ids.push((await session.checkpoint()).id);
  }
  await session.close();
  await hold.sessions.fork(ids[7] as string, { id: "fork" });
  const fork = await hold.session("fork");
  for (let n = 0; n < 6; n++) {
    fork.append({ role: "user", content: `message ${n} of the fork` });
    await fork.checkpoint();
  }
  await fork.close();
  const branch = (await store.session("a")).row?.head.branch as BranchId;
  const own = (await store.session("fork")).row?.head.branch as BranchId;
  return { store, hold, ids, branch, own };
}

/**
 * Bases come every few saves: what stands before one is not needed to load what stands behind it.
 */
async function withBases<T>(work: () => Promise<T>): Promise<T> {
  const { slackBytes } = baseTuning;
  baseTuning.slackBytes = 100;
  try {
    return await work();
  } finally {
    baseTuning.slackBytes = slackBytes;
  }
}

const everything = { items: true, state: true };
const orders = [
  ["oldest first", { newestFirst: false }],
  ["newest first", { newestFirst: true }],
] as const;

async function walked(
  store: Store,
  stretches: readonly Stretch[],
  o: WalkOptions,
): Promise<readonly number[]> {
  const found: number[] = [];
  const ordered = o.newestFirst ? stretches.toReversed() : stretches;
  for await (const page of new Journal(store).saves.walk(ordered, o))
    found.push(...page.map(({ save }) => save.seq));
  return found;
}

describe.each(orders)("a walk, %s", (_, order) => {
  test.each([1, 2, 3, 500])("answers every save of a past once, %i at once", async (rows) => {
    const { store, branch, own } = await grown();
    const past = await new Journal(store).past(own).all();
    const expected = [
      ...(await savesOf(store, branch)).slice(0, 8),
      ...(await savesOf(store, own)),
    ].map(({ seq }) => seq);
    const found = await walked(store, past.toReversed(), { ...order, ...everything, rows });
    expect(order.newestFirst ? found.toReversed() : found).toEqual(expected);
  });

  test.each([
    ["here", true],
    ["over a wire", false],
  ])(
    "WALK-1 names the record that is missing, whichever save is gone: %s",
    async (_where, oneMachine) => {
      const { store, branch, own } = await grown();
      const past = (await new Journal(store).past(own).all())
        .toReversed()
        .map((one) => ({ ...one, to: Math.min(one.to, 60) }));
      const bounded = past.map((one) => (one.branch === own ? { ...one, to: one.from + 11 } : one));
      const all = [...(await savesOf(store, branch)).slice(0, 8), ...(await savesOf(store, own))];
      for (const rows of [2, 500])
        for (const gone of all) {
          const found = walked(
            damaged(store, without(gone), { ...store.traits, oneMachine }),
            bounded,
            { ...order, ...everything, rows },
          );
          const numbers = Array.from(
            { length: gone.seq - firstSeq(gone) + 1 },
            (_no, i) => firstSeq(gone) + i,
          );
          await expect(found, `without ${gone.seq}`).rejects.toMatchObject(coded("CORRUPT"));
          await found.catch(({ details }) => expect(numbers).toContain(details.seq));
        }
    },
  );

  test("WALK-2 sees a save that was exchanged for a sound one of another history", async () => {
    const [one, two] = [await grown(), await grown()];
    const others = await savesOf(two.store, two.branch);
    const own = { branch: one.branch, from: 1, to: MAX_SEQ, session: "a" };
    for (const [i, other] of others.entries()) {
      const save = (await savesOf(one.store, one.branch))[i] as Save;
      const exchanged = damaged(one.store, (was) => (was.seq === save.seq ? other : was));
      const found = walked(
        wrapped(exchanged, { copies: { anchors: async () => noTailAnchors } }),
        [own],
        {
          ...order,
          ...everything,
        },
      );
      await expect(found, `at ${save.seq}`).rejects.toMatchObject(coded("CORRUPT"));
    }
  });

  test("WALK-3 sees that a line ends before its anchor, if a session owns it", async () => {
    const { store, branch } = await grown();
    const last = (await savesOf(store, branch)).at(-1) as Save;
    const anchor = { branch, seq: last.seq, check: last.check };
    const anchors = async () => ({
      of: (id: string) => (id === branch ? anchor : undefined),
      [Symbol.iterator]: () => [anchor].values(),
    });
    const short = wrapped(damaged(store, without(last)), { copies: { anchors } });
    const own = { branch, from: 1, to: MAX_SEQ, session: "a" };
    await expect(walked(short, [own], order)).rejects.toMatchObject(coded("CORRUPT"));
    // Nothing follows the place that the walk begins behind: that place itself may be gone.
    const rest = { ...own, from: last.seq + 1 };
    await expect(walked(short, [rest], order)).rejects.toMatchObject(coded("CORRUPT"));
    const sound = wrapped(store, { copies: { anchors } });
    expect(await walked(sound, [rest], order)).toEqual([]);
    expect(await walked(short, [{ ...own, session: null }], order)).toHaveLength(11);
    expect(await walked(sound, [own], order)).toHaveLength(12);
  });

  test("goes on where retention has left a gap, and takes it for damage where all must be there", async () => {
    const { store, hold, branch, own } = await withBases(grown);
    for (const id of ["a", "fork"]) {
      await withBases(async () => {
        const session = await hold.session(id);
        session.splice("messages", 0, session.messages.length, { role: "user", content: "so far" });
        for (let n = 0; n < 4; n++) {
          session.set("n", `${n}`.padEnd(300, "x"));
          await session.checkpoint();
        }
        await session.close();
      });
      await hold.checkpoints.prune(id, { keep: 1 });
    }
    const past = (await new Journal(store).past(own).all()).toReversed();
    expect((await savesOf(store, branch)).length + (await savesOf(store, own)).length).toBeLessThan(
      24,
    );
    expect((await walked(store, past, { ...order, ...everything })).length).toBeGreaterThan(2);
    await expect(
      walked(store, past, { ...order, ...everything, whole: true }),
    ).rejects.toMatchObject(coded("CORRUPT"));
  });
});

test("negative control: a walk that does not look at numbers would miss a hole", async () => {
  const { store, branch } = await grown();
  const gone = (await savesOf(store, branch))[4] as Save;
  const seen: number[] = [];
  const reader = new Journal(damaged(store, without(gone))).saves;
  for await (const page of reader.pages({ branch, from: 1, to: MAX_SEQ }, {}))
    seen.push(...page.map(({ seq }) => seq));
  expect(seen).toHaveLength(11);
});

interface Situation {
  /** Makes the store, and answers the save that is to be hidden. */
  readonly make: (hold: Holdfast, store: Store) => Promise<Save>;
  readonly ask: (hold: Holdfast) => Promise<unknown>;
  /** Hide the save from this reader alone: another one on the way would find it first. */
  readonly from?: (query: SaveQuery) => boolean;
  /** The reader names the damage instead of throwing. */
  readonly tells?: unknown;
}

async function talk(hold: Holdfast, n = 8): Promise<readonly string[]> {
  const session = await hold.session("a", { agent: "writer" });
  const ids: string[] = [];
  for (let i = 0; i < n; i++) {
    session.append({ role: "user", content: `message ${i}` });
    session.set("n", `${i}`.padEnd(300, "x"));
    ids.push((await session.checkpoint()).id);
  }
  await session.close();
  return ids;
}

const nth = async (store: Store, n: number, id = "a"): Promise<Save> => {
  const branch = (await store.session(id)).row?.head.branch as BranchId;
  return (await savesOf(store, branch)).at(n) as Save;
};

const talked = async (hold: Holdfast, store: Store): Promise<Save> => {
  await talk(hold);
  return nth(store, 3);
};

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

/** Asks for three payments, each of which waits for a person. */
const payer = () => ({
  name: "payer",
  model: async () => ({
    content: "",
    toolCalls: ["x", "y", "z"].map((id) => ({ callId: id, name: "pay", input: { id } })),
  }),
  tools: { pay: { mode: "once" as const, approval: true, run: () => "paid" } },
});

let decided = "";
let fork: readonly string[] = [];
const readers: Readonly<Record<string, Situation>> = {
  "the loader, from the start": { make: talked, ask: (hold) => hold.session("a") },
  "the loader, messages before a base": {
    async make(hold, store) {
      await withBases(() => talk(hold, 30));
      return nth(store, 2);
    },
    ask: (hold) => hold.session("a"),
  },
  history: {
    make: talked,
    from: ({ newestFirst, items }) => newestFirst === true && items,
    async ask(hold) {
      const session = await hold.session("a");
      try {
        await session.history({ limit: 100 });
      } finally {
        await session.close();
      }
    },
  },
  events: { make: talked, ask: (hold) => all(hold.sessions.events("a", { live: false })) },
  "lists of checkpoints": { make: talked, ask: (hold) => hold.checkpoints.list("a") },
  export: { make: talked, ask: (hold) => all(hold.export({ session: "a" })) },
  verify: { make: talked, ask: (hold) => hold.verify(), tells: { ok: false } },
  "the survey of a prune": {
    make: talked,
    ask: (hold) => hold.checkpoints.prune("a", { keep: 1 }),
  },
  "the steps of a prune": {
    make: talked,
    from: ({ newestFirst, items }) => newestFirst === true && items,
    ask: (hold) => hold.checkpoints.prune("a", { keep: 1 }),
  },
  redaction: { make: talked, ask: (hold) => hold.sessions.redact("a", "message") },
  search: {
    make: talked,
    ask: (hold) => hold.sessions.search("message"),
    tells: { damaged: [{ id: "a" }] },
  },
  "calls of a line that was left": {
    async make(hold, store) {
      const ids = await talk(hold, 2);
      const branch = (await store.session("a")).row?.head.branch as BranchId;
      const session = await hold.session("a");
      for (const key of ["one", "two", "three"])
        await session.effect("ship", { key }, { mode: "once", key }, async () => "shipped");
      await session.checkpoint();
      await session.rewind(ids[0] as string, { effects: "ask" } as never);
      await session.checkpoint();
      await session.close();
      return (await savesOf(store, branch)).at(-3) as Save;
    },
    async ask(hold) {
      const session = await hold.session("a");
      try {
        await session.effect("pay", {}, { mode: "once", key: "new" }, async () => "paid");
      } finally {
        await session.close();
      }
    },
  },
  "an earlier turn": {
    async make(hold, store) {
      const bot = hold.agent({ name: "bot", model: async () => ({ content: "hello" }) } as never);
      for (const key of ["one", "two", "three"]) await bot.run("a", key, { key });
      return nth(store, 3);
    },
    ask: (hold) =>
      hold
        .agent({ name: "bot", model: async () => ({ content: "hello" }) } as never)
        .run("a", "one", { key: "one" }),
    from: ({ newestFirst, items }) => newestFirst === true && items,
  },
  "the place that an imported fork begins at": {
    async make(hold, store) {
      const source = at(new MemoryStore());
      const ids = await talk(source);
      await source.sessions.fork(ids[3] as string, { id: "fork" });
      await hold.import(source.export({ session: "a" }));
      fork = await all(source.export({ session: "fork" }));
      return nth(store, 3);
    },
    from: ({ from, to }) => from === to,
    ask: (hold) => hold.import(fork),
    tells: { conflicts: [{ id: "fork", code: "CORRUPT" }] },
  },
  "the reply that asks for a call": {
    async make(hold, store) {
      await hold.agent(payer() as never).run("a", "go");
      return nth(store, -1);
    },
    from: ({ from, to, items }) => from === to && items,
    ask: (hold) => hold.effects.list({ status: "waiting" }),
    tells: { items: [], damaged: [{ id: "a" }] },
  },
  "the decision about a call": {
    async make(hold, store) {
      await hold.agent(payer() as never).run("a", "go");
      const waiting = (await hold.effects.list({ status: "waiting" })).items.map(
        ({ effectId }) => effectId,
      );
      for (const id of waiting) await hold.effects.approve(id);
      [decided = ""] = waiting;
      return nth(store, -2);
    },
    from: ({ newestFirst, state, items }) => newestFirst === true && state && !items,
    ask: (hold) => hold.effects.deny(decided, { reason: "too late" }),
  },
};

describe("a save below each reader is missing", () => {
  test.each(Object.entries(readers))("%s", async (_, { make, ask, from = () => true, tells }) => {
    const store = new MemoryStore();
    const gone = await make(at(store), store);
    await ask(at(store)).catch((error: { code?: string }) =>
      expect(error.code, "control: nothing is missing").not.toBe("CORRUPT"),
    );
    const second = new MemoryStore();
    const hidden = await make(at(second), second);
    expect(hidden.seq).toBe(gone.seq);
    const saves = async (branch: BranchId, query: SaveQuery) =>
      (await second.saves(branch, { ...query, limit: MAX_SEQ }))
        .filter(({ branch: of, seq }) => !from(query) || of !== hidden.branch || seq !== hidden.seq)
        .slice(0, query.limit);
    const asked = ask(at(wrapped(second, { saves })));
    if (tells === undefined) await expect(asked).rejects.toMatchObject(coded("CORRUPT"));
    else expect(await asked).toMatchObject(tells as object);
  });
});
