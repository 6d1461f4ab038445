/**
 * Cross features: after any two operations, in either order, every list, count and copy still
 * agrees with the others. Memory goes through all pairs, the other stores through a fixed sample.
 */
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../src/holdfast.js";
import { type Checkpoint, type MessageInput, open, transcriptVersion } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import { wrapped } from "../support/failures/wrapped.js";
import { rowsOf } from "../support/moving.js";
import { everyStore, type StoreKind, stores } from "../support/stores.js";

interface World {
  readonly store: StoreKind;
  readonly address: string;
  hold: Holdfast;
  /** A copy in another store. */
  elsewhere?: Holdfast;
  readonly snapshot: string;
  /** The first and third checkpoint of session "s". */
  readonly first: string;
  readonly third: string;
}

const openIn = (address: string): Promise<Holdfast> => open(address, { search: false });
const user = (content: string): MessageInput => ({ role: "user", content });

async function say(
  hold: Holdfast,
  id: string,
  ...texts: readonly string[]
): Promise<readonly string[]> {
  const session = await hold.session(id, { agent: "ann" });
  const ids: string[] = [];
  for (const text of texts) {
    session.append(user(text));
    session.set("last", text);
    ids.push((await session.checkpoint(text)).id);
  }
  await session.close();
  return ids;
}

/** Session "s" was rewound once, "t" forks it, and "other" belongs to no agent. */
async function made(store: StoreKind, given?: Holdfast): Promise<World> {
  const address = store.address();
  const hold = given ?? (await openIn(address));
  await hold.agents.save({ id: "ann" });
  const [first = "", , third = ""] = await say(hold, "s", "one", "two secret", "three", "four");
  await hold.sessions.rewind("s", third);
  await say(hold, "s", "five");
  await hold.sessions.fork(first, { id: "t" });
  await say(hold, "t", "six secret");
  const other = await hold.session("other");
  other.append(user("seven"));
  await other.checkpoint();
  await other.close();
  const { id: snapshot } = await hold.agents.snapshot("ann");
  return { store, address, hold, snapshot, first, third };
}

const isAbsent = (error: unknown): boolean =>
  ["NOT_FOUND", "CONFLICT"].includes((error as { code?: string }).code ?? "");
/** Do something unless the other operation has removed what it needs. */
const ifThere = async (act: () => Promise<unknown>): Promise<void> => {
  await act().catch((error: unknown) => {
    if (!isAbsent(error)) throw error;
  });
};

const operations: Readonly<Record<string, (world: World) => Promise<unknown>>> = {
  fork: ({ hold, third }) => ifThere(() => hold.sessions.fork(third)),
  rewind: ({ hold, first }) => ifThere(() => hold.sessions.rewind("s", first)),
  redact: ({ hold }) => ifThere(() => hold.sessions.redact("s", "secret", { scrub: false })),
  prune: ({ hold }) =>
    ifThere(() => hold.checkpoints.prune("s", { keep: 1, labelled: false, branches: "all" })),
  "delete a checkpoint": ({ hold, third }) => ifThere(() => hold.checkpoints.delete(third)),
  "delete the origin": ({ hold }) => hold.sessions.delete("s"),
  gc: ({ hold }) => hold.gc(),
  replace: async ({ hold }) => {
    if (!(await hold.sessions.has("s"))) return;
    const { messages } = await hold.sessions.state("s");
    await hold.sessions.replace("s", [user("instead")], { version: transcriptVersion(messages) });
  },
  "set a key of the agent": ({ hold }) => hold.agents.set("ann", "mood", "calm"),
  "restore the snapshot": ({ hold, snapshot }) => ifThere(() => hold.agents.restore(snapshot)),
  "remove snapshots": ({ hold }) => hold.agents.pruneSnapshots("ann", { keep: 0, labelled: false }),
  "export and import": async (world) => {
    const copy = await openIn("memory:");
    expect(await copy.import(await rowsOf(world.hold.export()))).toMatchObject({ conflicts: [] });
    await world.elsewhere?.close();
    world.elsewhere = copy;
  },
  "open again": async (world) => {
    if (!world.store.traits.durable) return;
    await world.hold.close();
    world.hold = await openIn(world.address);
  },
  "write from a second process": async ({ store, address }) => {
    if (!store.traits.shared) return;
    const second = await openIn(address);
    await say(second, "s", "eight");
    await second.close();
  },
};

async function all(hold: Holdfast, agent?: string): Promise<readonly Checkpoint[]> {
  const found: Checkpoint[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list({
      limit: 3,
      branches: "all",
      ...(agent !== undefined && { agent }),
      ...(cursor !== undefined && { cursor }),
    });
    expect(page.damaged).toBeUndefined();
    found.push(...page.items);
    if (page.next === undefined) return found;
    cursor = page.next;
  }
}

const idsOf = (checkpoints: readonly Checkpoint[]): readonly string[] =>
  checkpoints.map(({ id }) => id).sort();

/** Say in what lists, counts and copies disagree. */
async function check(hold: Holdfast): Promise<void> {
  expect(await hold.verify()).toMatchObject({ ok: true });
  const sessions = (await hold.sessions.list({ limit: 100 })).items;
  const every = await all(hold);
  expect(new Set(idsOf(every)).size).toBe(every.length);
  const own = await Promise.all(
    sessions.map(async ({ id }) =>
      (await hold.checkpoints.list(id, { limit: 100, branches: "all" })).items.filter(
        ({ sessionId }) => sessionId === id,
      ),
    ),
  );
  expect(idsOf(every)).toEqual(idsOf(own.flat()));
  const ofAnn = new Set(sessions.filter(({ agent }) => agent === "ann").map(({ id }) => id));
  expect(idsOf(await all(hold, "ann"))).toEqual(
    idsOf(every.filter(({ sessionId }) => ofAnn.has(sessionId))),
  );
  const { snapshots } = await hold.stats();
  expect(snapshots).toBe((await hold.agents.snapshots("ann", { limit: 100 })).items.length);
  for (const checkpoint of every) {
    expect(await hold.checkpoints.has(checkpoint.id)).toBe(true);
    await checkCopy(hold, checkpoint);
  }
  for (const { id } of sessions) {
    expect(await hold.sessions.has(id)).toBe(true);
    const { messages } = await hold.sessions.state(id);
    const version = transcriptVersion(messages);
    expect(await hold.sessions.replace(id, messages, { version })).toEqual({
      removed: 0,
      added: 0,
      length: messages.length,
    });
  }
}

/** Export one checkpoint alone: the import stands where the checkpoint is. */
async function checkCopy(hold: Holdfast, { id, sessionId }: Checkpoint): Promise<void> {
  const copy = await openIn("memory:");
  expect(await copy.import(await rowsOf(hold.export({ checkpoint: id })))).toMatchObject({
    sessions: [{ id: sessionId }],
    conflicts: [],
  });
  const [there, here] = [await copy.sessions.state(sessionId), await hold.checkpoints.state(id)];
  expect([there.messages, there.state]).toEqual([here.messages, here.state]);
  await copy.close();
}

/**
 * Delete all sessions, one after the other. Each answer counts the checkpoints that are gone from
 * the list then.
 */
async function checkDeletes(hold: Holdfast): Promise<void> {
  for (const { id } of (await hold.sessions.list({ limit: 100 })).items) {
    const before = await all(hold);
    const foretold = await hold.sessions.delete(id, { dryRun: true });
    const deleted = await hold.sessions.delete(id);
    expect(deleted).toEqual(foretold);
    expect(deleted).toMatchObject({
      deleted: true,
      sessions: 1,
      checkpoints: before.length - (await all(hold)).length,
    });
    expect(await hold.sessions.delete(id)).toMatchObject({
      deleted: false,
      sessions: 0,
      checkpoints: 0,
    });
    expect(await hold.sessions.has(id)).toBe(false);
  }
  expect(await all(hold)).toEqual([]);
}

const names = Object.keys(operations);
const pairs = names.flatMap((one) => names.map((other) => [one, other] as const));
/**
 * A number that has no factor in common with that of the pairs: the sample goes over all rows and
 * columns.
 */
const STEP = 27;

describe.each(stores)("on $name", (store) => {
  const sample = store.name === "memory" ? pairs : pairs.filter((_, i) => i % STEP === 0);
  test.each(sample)("%s, then %s", async (one, other) => {
    const world = await made(store);
    await operations[one]?.(world);
    await operations[other]?.(world);
    for (const hold of [world.elsewhere, world.hold]) {
      if (hold === undefined) continue;
      await check(hold);
      await checkDeletes(hold);
      await hold.close();
    }
  });
});

test("negative control: a store that leaves out a session of an agent is caught", async () => {
  const store = await openStore("memory:");
  const forgets = wrapped(store, {
    sessions: async (query) =>
      (await store.sessions(query)).filter(({ id }) => !("agent" in query) || id !== "t"),
  });
  const hold = new Holdfast(forgets, thisMachine(), { now: Date.now }, 30_000, { indexed: false });
  await made(everyStore[0] as StoreKind, hold);
  await expect(check(hold)).rejects.toThrow("to deeply equal");
  await hold.close();
});
