/**
 * A handle of one tenant shows only the tenant's own numbers, and calls that concern all
 * tenants are the operator's.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/index.js";
import { scriptedModel } from "../../src/testing/index.js";
import { run } from "../cli/command.js";
import { errorOf } from "../support/error-of.js";
import { scratch, stores } from "../support/stores.js";

const OWN = 5;
const text = (content: string) => [{ role: "user" as const, content }];

/** Another tenant's work: sessions, agents, saves. */
async function makeNoise(place: string, many: number): Promise<void> {
  const noisy = await open(place, { tenant: "noisy" });
  const one = (i: number) => [
    noisy.sessions.append(`noise ${i}`, text(`${i} kelp `.repeat(1_500)), { create: true }),
    noisy.agents.save({ id: `noise ${i}` }),
  ];
  await Promise.all(Array.from({ length: many }, (_, i) => one(i)).flat());
  await noisy.close();
}

/** A tenant with a few of everything that is listed. */
async function fill(hold: Holdfast): Promise<void> {
  const clerk = hold.agent({
    name: "clerk",
    model: scriptedModel([
      { content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] },
      "Paid.",
    ]),
    tools: { pay: { mode: "keyed", approval: () => true, run: async () => ({ paid: true }) } },
  });
  for (let i = 0; i < OWN; i++) {
    expect((await clerk.run(`own ${i}`, "Pay.")).status).toBe("waiting");
    await hold.sessions.append(`saved ${i}`, text("hello"), { create: true });
    await hold.agents.save({ id: `agent ${i}` });
    await hold.agents.snapshot("clerk");
  }
}

type List = (o: {
  limit: number;
  cursor?: string;
}) => Promise<{ readonly items: readonly unknown[]; readonly next?: string }>;
const listsOf = (hold: Holdfast): Readonly<Record<string, List>> => ({
  "sessions.list": (o) => hold.sessions.list(o),
  "agents.list": (o) => hold.agents.list(o),
  "agents.snapshots": (o) => hold.agents.snapshots("clerk", o),
  "effects.list": (o) => hold.effects.list({ status: "waiting", ...o }),
  "checkpoints.list": (o) => hold.checkpoints.list(o),
});

/** Walks each list in pages, with two handles by turns, and answers the cursors. */
async function cursorsOf(
  reopen: () => Promise<Holdfast>,
): Promise<Readonly<Record<string, readonly string[]>>> {
  const found: Record<string, readonly string[]> = {};
  const holds = [await reopen(), await reopen()] as const;
  const [hold] = holds;
  for (const [name, list] of Object.entries(listsOf(hold))) {
    const all = (await list({ limit: 100 })).items;
    const items: unknown[] = [];
    const cursors: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const turn = holds[cursors.length % 2] as Holdfast;
      const page = await (listsOf(turn)[name] as List)({
        limit: 2,
        ...(cursor !== undefined && { cursor }),
      });
      items.push(...page.items);
      if (page.next === undefined) break;
      cursor = page.next;
      cursors.push(cursor);
    }
    expect(items).toEqual(all);
    expect(cursors.length, name).toBeGreaterThan(1);
    found[name] = cursors;
  }
  for (const each of holds) await each.close();
  return found;
}

/** The number that is read off a cursor. */
const numberIn = (cursor: string): number =>
  Number(/^[a-z](\d{1,15})(?:\.|$)/.exec(cursor)?.[1] ?? 0);
/** Agents and their snapshots are counted together. */
const MOST = 2 * OWN + 5;

describe.each(stores.filter(({ traits }) => traits.durable))(
  "tenants on $name",
  ({ name, address }) => {
    const isShared = name !== "dir";

    test("cursors say nothing of what others have, and go on in another process", {
      timeout: 60_000,
    }, async () => {
      const place = address();
      await makeNoise(place, 20);
      const mine = await open(place, { tenant: "acme" });
      await fill(mine);
      await mine.close();
      const cursors = await cursorsOf(() => open(place, { tenant: "acme" }));
      for (const [list, given] of Object.entries(cursors))
        for (const cursor of given)
          expect(numberIn(cursor), `${list} ${cursor}`).toBeLessThanOrEqual(MOST);
      // The control: the operator's handle shows the numbers of the whole store.
      const operator = await open(place);
      for (const id of ["a", "b"])
        await operator.sessions.append(id, text("hello"), { create: true });
      const { next = "" } = await operator.sessions.list({ limit: 1 });
      if (isShared) expect(numberIn(next)).toBeGreaterThan(20);
      await operator.close();
    });

    test("a cursor holds where its session is deleted, and one that was changed, or is another's, is refused", async () => {
      const place = address();
      const [mine, other] = [
        await open(place, { tenant: "acme" }),
        await open(place, { tenant: "other" }),
      ];
      for (const hold of [mine, other])
        for (let i = 0; i < 4; i++)
          await hold.sessions.append(`s${i}`, text("hello"), { create: true });
      const { items, next = "" } = await mine.sessions.list({ limit: 2 });
      await mine.sessions.delete((items[1] as { id: string }).id);
      expect(
        (await mine.sessions.list({ limit: 2, cursor: next })).items.map(({ id }) => id),
      ).toEqual(["s1", "s0"]);
      if (isShared) {
        const changed = `${next.slice(0, 5)}${next[5] === "A" ? "B" : "A"}${next.slice(6)}`;
        for (const cursor of [
          changed,
          "s3",
          `d${next.slice(1)}`,
          `${next}A`,
          (await other.sessions.list({ limit: 2 })).next ?? "",
        ])
          expect(await errorOf(() => mine.sessions.list({ cursor })), cursor).toMatchObject({
            code: "INVALID_OPTION",
          });
      }
      await mine.close();
      await other.close();
    });

    test("what a tenant is told of the store does not change with what others do", {
      timeout: 60_000,
    }, async () => {
      const place = address();
      const [mine, operator] = [await open(place, { tenant: "acme" }), await open(place)];
      await mine.sessions.append("own", text("kelp holds"), { create: true });
      await mine.sessions.search("kelp");
      await operator.sessions.search("kelp");
      // Postgres counts a save as not taken in while a transaction is open that began before it,
      // also another test's.
      await expect
        .poll(async () => {
          await mine.sessions.search("kelp");
          return (await mine.info()).index?.behind ?? 0;
        })
        .toBe(0);
      const told = async (hold: Holdfast) => {
        const { concerns: _ofTheDisk, diskBytes: _own, ...about } = await hold.info();
        return {
          about,
          stats: await hold.stats(),
          verdict: await hold.verify(),
          found: (await hold.sessions.search("kelp")).items,
        };
      };
      const before = await told(mine);
      const { diskBytes: ownBytes } = await mine.info();
      const { diskBytes = 0 } = await operator.info();
      await makeNoise(place, 10);
      expect((await mine.info()).index).toEqual(before.about.index);
      expect(await told(mine)).toEqual(before);
      // A directory of its own grows by its own files: a lock, an index.
      const grown = ((await mine.info()).diskBytes ?? 0) - (ownBytes ?? 0);
      expect([ownBytes === undefined, grown < 2_000]).toEqual([isShared, true]);
      // The control: the operator sees it.
      expect((await operator.info()).diskBytes).toBeGreaterThan(diskBytes + 10_000);
      await mine.close();
      await operator.close();
    });

    test("gc tells a tenant nothing of the room that others have left", {
      timeout: 60_000,
    }, async () => {
      const place = address();
      await makeNoise(place, 12);
      const noisy = await open(place, { tenant: "noisy" });
      await Promise.all(Array.from({ length: 12 }, (_, i) => noisy.sessions.delete(`noise ${i}`)));
      const [mine, operator] = [await open(place, { tenant: "acme" }), await open(place)];
      expect(await mine.gc()).toEqual({ freedBytes: 0, saves: 0, blobs: 0, returnedBytes: 0 });
      const { diskBytes = 0 } = await operator.info();
      const { freedBytes, returnedBytes } = await noisy.gc();
      expect(freedBytes).toBeGreaterThan(50_000);
      if (isShared) expect(returnedBytes).toBe(0);
      // The control: the file did become smaller.
      if (name === "sqlite")
        expect((await operator.info()).diskBytes).toBeLessThan(diskBytes - 50_000);
      await mine.close();
      await noisy.close();
      await operator.close();
    });

    test("a new generation is the operator's to begin: a tenant puts no other in doubt", async () => {
      const place = address();
      const [mine, other] = [
        await open(place, { tenant: "acme" }),
        await open(place, { tenant: "other" }),
      ];
      await (await other.session("theirs")).checkpoint();
      await other.close();
      const refused = await errorOf(() => mine.markRestored());
      expect(refused).toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining("tenant"),
      });
      await mine.close();
      const generationOf = async (tenant?: string) => {
        await using hold = await open(place, tenant === undefined ? {} : { tenant });
        return (await hold.info()).generation;
      };
      expect(await generationOf("other")).toBeUndefined();
      // The control: of the operator it holds for all.
      await using operator = await open(place);
      await operator.markRestored();
      expect(await generationOf("other")).toEqual(await generationOf());
      expect(await generationOf("other")).toBeDefined();
    });
  },
);

describe("SQLite", () => {
  test("a backup of all tenants is the operator's to make", async () => {
    const place = scratch();
    const to = join(place, "backup.db");
    const [mine, operator] = [
      await open(join(place, "a.db"), { tenant: "acme" }),
      await open(join(place, "a.db")),
    ];
    expect(await errorOf(() => mine.backup(to))).toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringContaining("tenant"),
    });
    expect(existsSync(to)).toBe(false);
    await operator.backup(to);
    expect(existsSync(to)).toBe(true);
    await mine.close();
    await operator.close();
  });

  test("the command line says so", { timeout: 30_000 }, async () => {
    const cwd = scratch();
    await (await open(join(cwd, "a.db"), { tenant: "acme" })).close();
    const of = ["--store", "a.db", "--tenant", "acme"];
    for (const words of [
      ["mark-restored", "--yes"],
      ["backup", "b.db"],
    ]) {
      const { exit, stderr } = await run([...words, ...of], { cwd });
      expect([exit, stderr]).toEqual([1, expect.stringContaining("every tenant")]);
    }
    const { stdout } = await run(["doctor", ...of], { cwd });
    expect(stdout).toMatch(/size +0 B stored\n/);
  });
});
