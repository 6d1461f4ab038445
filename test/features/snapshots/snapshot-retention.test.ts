/** Retention policies for snapshots, also while one is restored. */
import { afterEach, describe, expect, test } from "vitest";
import { type RetentionRules } from "../../../src/core/retention/policy.js";
import { type RetentionReport } from "../../../src/features/retention/tally.js";
import { Holdfast as Hold } from "../../../src/holdfast.js";
import { type CheckpointKind, type Holdfast, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { SNAPSHOT } from "../../../src/store/port/documents.js";
import { errorOf } from "../../support/error-of.js";
import { type Replaced, wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const DAY = 24 * 60 * 60 * 1_000;
const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

interface World {
  readonly hold: Holdfast;
  readonly store: Store;
  readonly clock: { now: number };
}

/** An open store, with the calls that a test replaces. */
async function world(
  address = "memory:",
  calls: (store: Store) => Replaced = () => ({}),
): Promise<World> {
  const store = await openStore(address);
  const clock = { now: Date.UTC(2026, 0, 10) };
  const hold = new Hold(
    wrapped(store, calls(store)),
    thisMachine(),
    { now: () => clock.now },
    30_000,
  );
  opened.push(hold);
  return { hold, store, clock };
}

/**
 * Says something in a session of the agent, and takes a snapshot, so many times. Answers the ids,
 * oldest first.
 */
async function snapshots(hold: Holdfast, agent: string, count: number): Promise<string[]> {
  const made: string[] = [];
  for (let i = 0; i < count; i++) {
    await hold.sessions.append(
      `of ${agent}`,
      [{ role: "user", content: `${i}`.padEnd(200, "x") }],
      { create: true, agent },
    );
    made.push((await hold.agents.snapshot(agent)).id);
  }
  return made;
}

const left = async (hold: Holdfast, agent: string) =>
  (await hold.agents.snapshots(agent, { limit: 1_000 })).items.map(({ id }) => id);

describe.each(stores)("snapshots by a policy on $name", ({ address }) => {
  test("by the agent's own rules, else by the store's, else none; what they pinned is freed", async () => {
    const hold = await open(address());
    opened.push(hold);
    const [ann, bob, carl] = [
      await snapshots(hold, "ann", 4),
      await snapshots(hold, "bob", 4),
      await snapshots(hold, "carl", 2),
    ];
    await hold.retention.set({ keep: 50 });
    expect(await hold.retention.apply()).toMatchObject({
      removedSnapshots: 0,
      prunedSnapshots: [],
    });
    await hold.retention.set({ snapshots: { keep: 3 } });
    await hold.retention.set({ keep: 1, snapshots: { keep: 2 } }, { agent: "ann" });
    // Of an agent with a policy of its own, and no rules for snapshots, none goes.
    await hold.retention.set({ keep: 50 }, { agent: "carl" });
    expect(await hold.retention.get({ agent: "ann" })).toEqual({ keep: 1, snapshots: { keep: 2 } });

    const expected = {
      removedSnapshots: 3,
      prunedSnapshots: [
        { agent: "ann", removed: 2 },
        { agent: "bob", removed: 1 },
      ],
      failedSnapshots: [],
    };
    const byAgent = (report: RetentionReport) => ({
      ...report,
      prunedSnapshots: [...report.prunedSnapshots].sort((a, b) => (a.agent < b.agent ? -1 : 1)),
    });
    expect(byAgent(await hold.retention.apply({ dryRun: true }))).toMatchObject(expected);
    expect((await hold.stats()).snapshots).toBe(10);
    expect(await hold.retention.apply({ agent: "bob", dryRun: true })).toMatchObject({
      sessions: 1,
      removedSnapshots: 1,
    });
    const told: number[] = [];
    expect(
      byAgent(await hold.retention.apply({ onProgress: (at) => told.push(at.removedSnapshots) })),
    ).toMatchObject(expected);
    expect(told.at(-1)).toBe(3);
    expect(await left(hold, "ann")).toEqual([ann[3], ann[2]]);
    expect(await left(hold, "bob")).toEqual([bob[3], bob[2], bob[1]]);
    expect(await left(hold, "carl")).toEqual([carl[1], carl[0]]);
    expect((await hold.stats()).snapshots).toBe(7);
    expect(await hold.verify()).toMatchObject({ ok: true });
    // Those that stay can be restored, though the checkpoints at their places are pruned.
    const { sessions } = await hold.agents.restore(ann[2] as string);
    expect(sessions).toEqual([{ id: "of ann", outcome: "moved" }]);
    expect((await hold.sessions.state("of ann")).messages).toHaveLength(3);

    // Deleted, the session is kept by the snapshots alone: once they are gone, nothing of it is
    // left.
    await hold.sessions.delete("of bob");
    await hold.gc();
    const before = (await hold.stats()).messages;
    expect(await hold.agents.pruneSnapshots("bob", { keep: 1 })).toEqual({ removed: 2 });
    await hold.agents.deleteSnapshot(bob[3] as string);
    expect((await hold.gc()).saves).toBeGreaterThan(0);
    expect((await hold.stats()).messages).toBeLessThan(before);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });
});

test("each rule keeps what it says; the newest always stays; a name counts as a label, but not of a recovery snapshot", async () => {
  const { hold, clock } = await world();
  await hold.agents.save({ id: "ann" });
  const given: readonly (readonly [label: string, kind: CheckpointKind, isNamed: boolean])[] = [
    ["old", "manual", false],
    ["named", "manual", true],
    ["recovery", "recovery", true],
    ["automatic", "automatic", false],
    ["newest", "manual", false],
  ];
  const labels = new Map<string, string>();
  for (const [label, kind, isNamed] of given) {
    clock.now += DAY;
    await hold.agents.save({ id: "ann", metadata: { label } });
    labels.set(
      (await hold.agents.snapshot("ann", { kind, ...(isNamed && { name: label }) })).id,
      label,
    );
  }
  const goes = async (rules: RetentionRules) =>
    ((await hold.agents.pruneSnapshots("ann", { ...rules, dryRun: true })).ids ?? [])
      .map((id) => labels.get(id))
      .reverse();
  expect(await goes({})).toEqual([]);
  expect(await goes({ labelled: false, kinds: ["manual"] })).toEqual([]);
  expect(await goes({ keep: 0 })).toEqual(["old", "named", "recovery", "automatic"]);
  expect(await goes({ keep: 2 })).toEqual(["old", "named", "recovery"]);
  expect(await goes({ keep: 2, labelled: true })).toEqual(["old", "recovery"]);
  expect(await goes({ olderThanMs: 1.5 * DAY })).toEqual(["old", "recovery"]);
  expect(await goes({ daily: 2 })).toEqual(["old", "recovery"]);
  expect(await goes({ daily: 1, kinds: ["recovery"], labelled: false })).toEqual([
    "old",
    "named",
    "automatic",
  ]);
  // The policy of the agent holds where no rule is given.
  await hold.retention.set({ snapshots: { keep: 4 } }, { agent: "ann" });
  expect(await hold.agents.pruneSnapshots("ann")).toEqual({ removed: 1 });
  expect([...labels.values()].slice(1).reverse()).toEqual(
    (await left(hold, "ann")).map((id) => labels.get(id)),
  );
});

test("rules for snapshots do not change the rules for checkpoints", async () => {
  const { hold } = await world();
  for (let i = 0; i < 3; i++)
    await hold.checkpoints.create((await made(hold, "s")).id, { label: `no ${i}` });
  // `keep` alone means so many, with a label or without.
  await hold.retention.set({ keep: 1, snapshots: { daily: 3 } });
  await hold.retention.apply();
  expect((await hold.checkpoints.list("s")).items).toHaveLength(1);
});

const made = (hold: Holdfast, id: string) => hold.sessions.update(id, {}, { create: true });

test.each([
  [{ snapshots: { keep: -1 } }, "snapshots.keep"],
  [{ snapshots: { keep: undefined } }, "snapshots.keep"],
  [{ snapshots: { kinds: ["none"] } }, "snapshots.kinds[0]"],
  [{ snapshots: { snapshots: {} } }, "snapshots"],
  [{ snapshots: undefined }, "snapshots"],
  [{ snapshots: null }, "snapshots"],
])("a policy with %j is refused, and the error names %s", async (policy, path) => {
  const { hold } = await world();
  expect(await errorOf(() => hold.retention.set(policy as never))).toMatchObject({
    code: "INVALID_OPTION",
    details: { path },
  });
  expect(
    await errorOf(() => hold.checkpoints.prune("s", { snapshots: { keep: 1 } } as never)),
  ).toMatchObject({ code: "INVALID_OPTION" });
});

test("a damaged snapshot, and a damaged policy, are passed over, and the others are pruned", async () => {
  const damaged = new Set<string>();
  const { hold } = await world("memory:", (store) => ({
    documents: {
      list: async (query) =>
        (await store.documents.list(query)).map((row) =>
          damaged.has(row.id) ? { ...row, text: "x" } : row,
        ),
    },
  }));
  const [first] = await snapshots(hold, "ann", 3);
  await snapshots(hold, "bob", 3);
  await hold.retention.set({ keep: 1 }, { agent: "bob" });
  await hold.retention.set({ snapshots: { keep: 1 } });
  for (const id of [first as string, "bob"]) damaged.add(id);
  expect(await hold.retention.apply()).toMatchObject({
    prunedSnapshots: [{ agent: "ann", removed: 1 }],
    failedSnapshots: [{ agent: "bob", code: "CORRUPT" }],
  });
  damaged.clear();
  expect([(await left(hold, "ann")).length, (await left(hold, "bob")).length]).toEqual([2, 3]);
});

test("no body of a snapshot is read to count them, or to find which go", async () => {
  const read: string[] = [];
  const { hold } = await world("memory:", (store) => ({
    documents: {
      get: async (kind, id) => {
        if (kind === SNAPSHOT) read.push(id);
        return store.documents.get(kind, id);
      },
    },
  }));
  await snapshots(hold, "ann", 5);
  await hold.retention.set({ snapshots: { keep: 2 } });
  expect(await hold.stats()).toMatchObject({ snapshots: 5 });
  expect(await hold.retention.apply()).toMatchObject({ removedSnapshots: 3 });
  expect(read).toEqual([]);
});

test("a sweep tells how many snapshots went", async () => {
  const { hold } = await world();
  await snapshots(hold, "ann", 3);
  await hold.retention.set({ snapshots: { keep: 1 } });
  const report = await new Promise<RetentionReport>((onSwept, onError) =>
    hold.retention.sweep({ everyMs: 60_000, onSwept, onError }),
  );
  expect(report).toMatchObject({
    removedSnapshots: 2,
    prunedSnapshots: [{ agent: "ann", removed: 2 }],
  });
});

describe("a restore whose snapshot goes while it is read", () => {
  const places = stores.filter(({ traits }) => traits.durable);

  /** Restores a snapshot, and does something after it was read and before anything is changed. */
  async function restoring(address: string, act: (hold: Holdfast, id: string) => Promise<unknown>) {
    let middle: (() => Promise<unknown>) | undefined;
    const { hold } = await world(address, (under) => ({
      documents: {
        capture: async (...given) => {
          const now = middle;
          middle = undefined;
          await now?.();
          return under.documents.capture(...given);
        },
      },
    }));
    const [first] = (await snapshots(hold, "ann", 3)) as [string];
    middle = () => act(hold, first);
    const error = await errorOf(() => hold.agents.restore(first));
    expect(middle).toBeUndefined();
    expect(error).toMatchObject({ code: "NOT_FOUND", details: { found: first } });
    expect((await hold.sessions.state("of ann")).messages).toHaveLength(3);
    expect(await hold.verify()).toMatchObject({ ok: true });
    return hold;
  }

  test.each(places)("by a policy, with what it pinned, on $name", async ({ address }) => {
    const hold = await restoring(address(), async (under) => {
      await under.retention.set({ keep: 1, snapshots: { keep: 1 } });
      expect(await under.retention.apply()).toMatchObject({ removedSnapshots: 2 });
      await under.gc();
    });
    expect(await left(hold, "ann")).toHaveLength(1);
  });

  test("by a call", async () => {
    await restoring("memory:", async (hold, id) => {
      await hold.agents.deleteSnapshot(id);
      await hold.checkpoints.prune("of ann", { keep: 1 });
    });
  });
});
