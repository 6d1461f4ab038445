/**
 * A session that is rewound again and again: each line begins on the one before. Counted and not
 * timed.
 */
import { afterEach, describe, expect, test, vi } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { Past } from "../../../src/engine/journal/past.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, open, type Session } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { Store } from "../../../src/store/index.js";
import { thisMachine } from "../../../src/store/machine.js";
import { errorOf } from "../../support/error-of.js";
import { stores } from "../../support/stores.js";

const { branchBytes, slackBytes } = baseTuning;
afterEach(() => {
  baseTuning.branchBytes = branchBytes;
  baseTuning.slackBytes = slackBytes;
  vi.restoreAllMocks();
});

/** A store that counts its calls, and the rows that they answer. */
async function counted(
  address: string,
): Promise<{ readonly hold: Holdfast; readonly count: { calls: number; rows: number } }> {
  const count = { calls: 0, rows: 0 };
  const store = new Proxy(await openStore(address), {
    get(target, name: keyof Store) {
      const method = target[name];
      if (typeof method !== "function") return method;
      return async (...args: never[]) => {
        const answer = await (method as (...a: never[]) => unknown).apply(target, args);
        count.calls += 1;
        count.rows += Array.isArray(answer) ? answer.length : 1;
        return answer;
      };
    },
  });
  return { hold: new Opened(store, thisMachine(), { now: Date.now }, 30_000), count };
}

/** Goes on for two checkpoints, and back to the first of them. */
async function goBack(session: Session, i: number): Promise<void> {
  session.set("k", i);
  const { id } = await session.checkpoint();
  session.set("k", -i);
  await session.checkpoint();
  await session.rewind(id);
}

interface Cost {
  readonly calls: number;
  readonly rows: number;
}

/**
 * The dearest of twenty rewinds up to each of these, and what it takes then to open the session and
 * to read its state.
 */
async function costsOf(
  address: string,
  upTo: readonly number[],
): Promise<readonly Record<"rewind" | "open" | "state", Cost>[]> {
  const { hold, count } = await counted(address);
  try {
    const of = async (work: () => Promise<unknown>): Promise<Cost> => {
      const before = { ...count };
      await work();
      return { calls: count.calls - before.calls, rows: count.rows - before.rows };
    };
    let session = await hold.session("a");
    session.append({ role: "user", content: "the first message stays" });
    await session.checkpoint();
    const costs: Record<"rewind" | "open" | "state", Cost>[] = [];
    let window: Cost[] = [];
    for (let i = 1; i <= Math.max(...upTo); i++) {
      window.push(await of(() => goBack(session, i)));
      window = window.slice(-20);
      if (!upTo.includes(i)) continue;
      await session.close();
      const opened = await of(async () => {
        session = await hold.session("a");
      });
      expect([session.state["k"], session.messages.length]).toEqual([i, 1]);
      const dearest = {
        calls: Math.max(...window.map(({ calls }) => calls)),
        rows: Math.max(...window.map(({ rows }) => rows)),
      };
      costs.push({
        rewind: dearest,
        open: opened,
        state: await of(() => hold.sessions.state("a")),
      });
    }
    return costs;
  } finally {
    await hold.close();
  }
}

/**
 * What is counted are calls of the port: other stores answer the same ones (see the store
 * contract).
 */
describe.each(stores.filter(({ name }) => name === "memory" || name === "sqlite"))(
  "a chain of lines on $name",
  ({ address }) => {
    test("the 120th rewind reads no more than the 40th, nor does opening the session or reading its state", async () => {
      const [early, late] = (await costsOf(address(), [40, 120])) as [
        Record<string, Cost>,
        Record<string, Cost>,
      ];
      expect(late["rewind"]?.rows).toBeLessThanOrEqual((early["rewind"] as Cost).rows);
      // A heartbeat may fall into one of them.
      expect(late["rewind"]?.calls).toBeLessThanOrEqual((early["rewind"] as Cost).calls + 1);
      // How many lines stand between the end and the newest base differs: by sixteen at most.
      for (const what of ["open", "state"]) {
        expect(late[what]?.calls).toBeLessThanOrEqual((early[what] as Cost).calls + 20);
        expect(late[what]?.rows).toBeLessThanOrEqual((early[what] as Cost).rows + 40);
      }
    });
  },
);

test("negative control: without a price for lines, each rewind reads more than the one before", async () => {
  baseTuning.branchBytes = 0;
  const [early, late] = (await costsOf("memory:", [40, 120])) as [
    Record<string, Cost>,
    Record<string, Cost>,
  ];
  for (const what of ["rewind", "open", "state"])
    expect((late[what] as Cost).rows).toBeGreaterThan(2 * (early[what] as Cost).rows);
});

test("a rewind to where the session stands reads none of its messages", async () => {
  const { hold, count } = await counted("memory:");
  const session = await hold.session("a");
  const rows: number[] = [];
  for (let i = 0; i < 120; i++) {
    session.append({ role: "user", content: `message ${i}` });
    const { id } = await session.checkpoint();
    const before = count.rows;
    await session.rewind(id);
    rows.push(count.rows - before);
  }
  expect(Math.max(...rows.slice(-40))).toBe(Math.max(...rows.slice(40, 80)));
  expect(session.messages.map(({ content }) => content)).toEqual(
    Array.from({ length: 120 }, (_, i) => `message ${i}`),
  );
  await hold.close();
});

/** Messages on many lines, and a base that names them. */
async function chain(hold: Holdfast, count: number): Promise<readonly string[]> {
  baseTuning.slackBytes = 0;
  const session = await hold.session("a");
  for (let i = 0; i < count; i++) {
    session.append({ role: "user", content: `kept ${i}` });
    session.set("k", i);
    const { id } = await session.checkpoint();
    session.append({ role: "user", content: "left behind" });
    session.set("k", "left behind");
    await session.checkpoint();
    await session.rewind(id);
    if (i % 7 === 6) session.splice("messages", 0, 1);
  }
  await session.checkpoint();
  const texts = session.messages.map(({ content }) => String(content));
  await session.close();
  return texts;
}

describe.each(stores.filter(({ traits }) => traits.oneMachine))(
  "messages on many lines, on $name",
  ({ address }) => {
    test("are loaded, listed, forked, pruned, redacted, exported and imported, and verify", async () => {
      const place = address();
      const hold = await open(place);
      const texts = await chain(hold, 40);
      const says = async (at: Holdfast, id: string) =>
        (await at.sessions.state(id)).messages.map(({ content }) => String(content));
      expect(await says(hold, "a")).toEqual(texts);
      const { items } = await hold.checkpoints.list("a", { limit: 1_000 });
      expect(items).toHaveLength(41);
      await hold.sessions.fork((items[0] as { id: string }).id, { id: "b" });
      expect(await says(hold, "b")).toEqual(texts);
      const other = await open(address());
      expect(await other.import(hold.export({ session: "b" }))).toMatchObject({ conflicts: [] });
      expect(await says(other, "b")).toEqual(texts);
      expect(await other.verify()).toMatchObject({ ok: true });
      await other.close();
      await hold.sessions.redact("b", "kept 39");
      const redacted = texts.map((text) => text.replace("kept 39", "[redacted]"));
      expect(await says(hold, "b")).toEqual(redacted);
      await hold.checkpoints.prune("a", { keep: 1, branches: "all" });
      await hold.gc();
      expect(await says(hold, "a")).toEqual(redacted);
      expect((await hold.sessions.search("kept", { sessionId: "a" })).items.length).toBeGreaterThan(
        0,
      );
      expect(await hold.verify()).toMatchObject({ ok: true });
      await hold.close();
    });
  },
);

test("a base that names a line which its own does not go back to is found by verify, and refused by an import", async () => {
  const hold = await open("memory:");
  const strange = await hold.session("strange");
  strange.append(
    ...Array.from({ length: 40 }, (_, i) => ({ role: "user" as const, content: `secret ${i}` })),
  );
  const [branch] = (await strange.checkpoint()).id.split("-") as [string];
  await strange.close();
  const branchesOf = vi.spyOn(Past.prototype, "branchesOf").mockReturnValue([[branch, 1, 40]]);
  await chain(hold, 8);
  expect(branchesOf).toHaveBeenCalled();
  branchesOf.mockRestore();
  const { ok, findings } = await hold.verify();
  expect([ok, findings[0]?.message]).toEqual([
    false,
    expect.stringContaining(`says that its messages stand on branch ${branch}`),
  ]);
  const other = await open("memory:");
  const refused = await errorOf(() => other.import(hold.export({ session: "a" })));
  expect(refused).toMatchObject({
    message: expect.stringContaining("names a branch to which its own does not go back"),
  });
  expect((await other.sessions.list()).items).toEqual([]);
  await other.close();
  await hold.close();
});
