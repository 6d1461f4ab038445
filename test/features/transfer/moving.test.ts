/**
 * Export and import: what is moved looks the same there, comes once, and nothing that was changed
 * on the way is believed.
 */

import { createReadStream, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { firstSeq, type Save } from "../../../src/core/journal/save.js";
import { type Draft, seal } from "../../../src/core/journal/seal-save.js";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import type {
  AgentText,
  BranchText,
  SessionText,
  TransferRow,
} from "../../../src/core/transfer/export-format.js";
import { digest } from "../../../src/core/values/digest.js";
import { headOf, headRow } from "../../../src/engine/records/rows.js";
import { type TransferProgress } from "../../../src/features/transfer/export.js";
import { Holdfast as Runtime } from "../../../src/holdfast.js";
import { type Holdfast, type HoldfastError, type ImportReport, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { SessionRow } from "../../../src/store/port/rows.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { forged, look, lookAtAll, rich, rowsOf } from "../../support/moving.js";
import { random, SEED } from "../../support/random.mjs";
import { eachNth, isThorough, runs } from "../../support/runs.js";
import { everyStore, type StoreKind, scratch, stores } from "../../support/stores.js";
import { commands, World } from "../../support/world.js";

const slackBytes = baseTuning.slackBytes;
beforeAll(() => {
  baseTuning.slackBytes = 300;
});
afterAll(() => {
  baseTuning.slackBytes = slackBytes;
});

const opened: Holdfast[] = [];
async function make(kind: StoreKind): Promise<Holdfast> {
  const hold = await open(kind.address());
  opened.push(hold);
  return hold;
}
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

const [memory] = everyStore as readonly [StoreKind, ...StoreKind[]];
/** Each to the next, and in the faults to itself. Any two are tried with random work, below. */
const pairs = stores.flatMap((from) =>
  eachNth(2, [
    everyStore[(everyStore.indexOf(from) + 1) % everyStore.length] as StoreKind,
    from,
  ]).map((to) => ({
    from,
    to,
    name: `${from.name} to ${to.name}`,
  })),
);
const outcomes = ({ sessions }: ImportReport) =>
  Object.fromEntries(sessions.map(({ id, outcome }) => [id, outcome]));
const sound = async (hold: Holdfast) =>
  expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });

/** A few rows of each kind: a session that was rewound, its fork, and a blob. */
async function small(hold: Holdfast): Promise<string[]> {
  const a = await hold.session("a", { tags: ["t"] });
  a.append({ role: "user", content: "x".repeat(9_000) });
  const first = await a.checkpoint();
  a.set("k", 1);
  await a.checkpoint();
  a.unset("k");
  await a.checkpoint();
  await a.rewind(first.id);
  a.set("k", 2);
  await a.checkpoint();
  await a.close();
  await hold.sessions.fork(first.id, { id: "b" });
  return rowsOf(hold.export());
}

describe.each(pairs)("$name", ({ from, to }) => {
  test("everything looks the same there, and a second time is known", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    const rows = await rowsOf(source.export());
    const names = rows
      .filter((row) => row.startsWith('{"blob"'))
      .map((row) => (JSON.parse(row) as { blob: string }).blob);
    expect(names).toHaveLength(new Set(names).size);
    const report = await target.import(rows);
    expect(report).toMatchObject({
      conflicts: [],
      leftOut: [],
      bytes: Buffer.byteLength(rows.join("")),
    });
    expect(new Set(Object.values(outcomes(report)))).toEqual(new Set(["imported"]));
    const seen = await lookAtAll(source);
    expect(seen).toHaveLength(8);
    expect(await lookAtAll(target)).toEqual(seen);
    expect(await target.stats()).toEqual(await source.stats());
    for (const { past } of seen)
      for (const [i, { id }] of past.entries())
        expect((await target.checkpoints.diff(id, past[i + 1]?.id ?? id)).text).toBe(
          (await source.checkpoints.diff(id, past[i + 1]?.id ?? id)).text,
        );
    await sound(target);
    const again = await target.import(rows);
    expect(again).toMatchObject({ conflicts: [], saves: 0, blobs: 0 });
    expect(new Set(Object.values(outcomes(again)))).toEqual(new Set(["known"]));
    expect(await lookAtAll(target)).toEqual(seen);
    // What came over can go back, and further.
    expect(outcomes(await source.import(target.export()))).toEqual(outcomes(again));
    const third = await make(from);
    await third.import(target.export());
    expect(await lookAtAll(third)).toEqual(seen);
    expect((await target.gc()).freedBytes).toBe((await source.gc()).freedBytes);
    await sound(target);
  });

  test("a session alone brings what it shares, and nothing else of others", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    expect(outcomes(await target.import(source.export({ session: "c" })))).toEqual({
      c: "imported",
    });
    const [there, here] = [await look(source, "c"), await look(target, "c")];
    expect(here.now).toEqual(there.now);
    expect(here.session).toEqual(there.session);
    expect((await target.sessions.list()).items).toHaveLength(1);
    const rows = (await rowsOf(source.export({ session: "c" }))).join("");
    expect(rows).not.toContain("another way");
    expect(rows).not.toContain("switched");
    expect(await target.gc()).toMatchObject({ freedBytes: 0, saves: 0, blobs: 0 });
    await sound(target);
    // The rest finds the shared part there, and claims it.
    expect(outcomes(await target.import(source.export()))).toMatchObject({
      a: "imported",
      c: "known",
      orphan: "imported",
    });
    for (const id of ["a", "c", "pruned", "orphan", "fork of pruned"])
      expect(await look(target, id)).toEqual(await look(source, id));
    await sound(target);
    // Its forks stand before it there: they still come over together.
    const third = await make(to);
    await third.import(target.export());
    for (const id of ["a", "c"]) expect(await look(third, id)).toEqual(await look(source, id));
    await sound(third);
  });

  test("the sessions of an agent", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    const report = await target.import(source.export({ agent: "y" }));
    expect(outcomes(report)).toEqual({
      pruned: "imported",
      "fork of pruned": "imported",
      orphan: "imported",
      "orphan too": "imported",
    });
    for (const id of ["pruned", "orphan", "orphan too"])
      expect(await look(target, id)).toEqual(await look(source, id));
    await sound(target);
    expect(outcomes(await target.import(source.export({ agent: "nobody" })))).toEqual({});
  });

  test("cut after any row, or inside one: what was complete is there, and the whole goes on from it", async () => {
    const source = await make(from);
    const rows = await small(source);
    const seen = await lookAtAll(source);
    for (let cut = 0; cut < rows.length; cut++) {
      const target = await make(to);
      const part =
        rows.slice(0, cut).join("") +
        (rows[cut] as string).slice(0, Math.min(cut * 7, (rows[cut] as string).length - 2));
      const error = await errorOf(() => target.import([part]));
      expect(error).toMatchObject({ code: part === "" ? "NOT_A_STORE" : "CORRUPT" });
      if (part !== "") expect((error as Error).message).toMatch(/ended early.*again/);
      await sound(target);
      const complete = rows.slice(0, cut).filter((row) => row.startsWith('{"session"')).length;
      expect((await target.sessions.list()).items).toHaveLength(complete);
      expect((await target.import(rows)).conflicts).toEqual([]);
      expect(await lookAtAll(target)).toEqual(seen);
      await sound(target);
    }
  });

  test("rows that were changed, lost, doubled or moved are refused, and what was complete stays sound", async () => {
    const source = await make(from);
    const rows = await small(source);
    const broken: [string, string[]][] = rows.flatMap((row, i): [string, string[]][] => {
      const flipped = Buffer.from(row);
      const at = Math.floor((flipped.length - 1) * ((i % 7) / 7));
      flipped[at] = (flipped[at] as number) ^ 1;
      return [
        [`${i} flipped`, rows.with(i, flipped.toString("latin1"))],
        [`${i} removed`, rows.toSpliced(i, 1)],
        [`${i} doubled`, rows.toSpliced(i, 0, row)],
        [`${i} swapped`, i === 0 ? [] : rows.with(i, rows[i - 1] as string).with(i - 1, row)],
      ];
    });
    for (const [what, bad] of broken.filter(([, some]) => some.length > 0)) {
      const target = await make(to);
      const error = (await errorOf(() => target.import(bad))) as HoldfastError;
      expect([what, error.code, error.message]).toEqual([
        what,
        "CORRUPT",
        expect.stringMatching(/row \d+/i),
      ]);
      expect(error.details.row).toBeGreaterThanOrEqual(1);
      await sound(target);
      await target.close();
    }
  });

  test("a target that has gone on is known and stays as it is; one that has gone another way is a conflict", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    const rows = await rowsOf(source.export());
    await target.import(rows);
    const ahead = await target.session("a");
    ahead.append({ role: "user", content: "further" });
    await ahead.checkpoint();
    await ahead.close();
    await target.sessions.update("a", { title: "Mine" });
    await target.checkpoints.prune("a", { keep: 1 });
    const seen = await lookAtAll(target);
    expect(outcomes(await target.import(rows))).toMatchObject({ a: "known" });
    expect(await lookAtAll(target)).toEqual(seen);

    const other = await source.session("a");
    other.append({ role: "user", content: "elsewhere" });
    const at = await other.checkpoint();
    await other.close();
    await source.sessions.fork(at.id, { id: "on what differs" });
    const report = await target.import(source.export());
    expect(report.conflicts).toEqual([
      {
        id: "a",
        code: "CONFLICT",
        message: expect.stringContaining(
          "Delete it here and import again, or import into another tenant or store",
        ),
      },
      {
        id: "on what differs",
        code: "CONFLICT",
        message: expect.stringContaining("import into another tenant or store"),
      },
    ]);
    expect(outcomes(report)).toMatchObject({ c: "known", orphan: "known" });
    expect(await lookAtAll(target)).toEqual(seen);
    await sound(target);
    // As it says: deleted here, it comes.
    await target.sessions.delete("a");
    await target.gc();
    expect((await target.import(source.export())).conflicts).toMatchObject([]);
    expect(await look(target, "on what differs")).toEqual(await look(source, "on what differs"));
    await sound(target);
  });

  test("another session of the same name is a conflict, its forks come all the same, and nothing else is left", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    const mine = await target.session("a");
    mine.set("mine", true);
    await mine.checkpoint();
    await mine.close();
    const report = await target.import(source.export());
    expect(report.conflicts).toMatchObject([{ id: "a", code: "CONFLICT" }]);
    expect((await look(target, "c")).now).toEqual((await look(source, "c")).now);
    expect((await look(target, "a")).now).toMatchObject({ state: { mine: true } });
    expect(await target.gc()).toMatchObject({ freedBytes: 0, saves: 0, blobs: 0 });
    await sound(target);
  });

  test("a dry run says the same and changes nothing", async () => {
    const [source, target] = [await make(from), await make(to)];
    await rich(source);
    const before = await target.stats();
    const dry = await target.import(source.export(), { dryRun: true });
    expect(await target.stats()).toEqual(before);
    expect((await target.sessions.list()).items).toEqual([]);
    expect(dry).toEqual(await target.import(source.export()));
    expect(outcomes(await target.import(source.export(), { dryRun: true }))).toMatchObject({
      a: "known",
    });
  });

  test("a session that was deleted comes back, also as it was earlier", async () => {
    const [source, target] = [await make(from), await make(to)];
    const session = await source.session("a");
    session.append({ role: "user", content: "one" });
    await session.checkpoint();
    const early = await rowsOf(source.export());
    const seen = (await look(source, "a").catch(() => undefined)) ?? undefined;
    expect(seen).toBeUndefined();
    session.append({ role: "user", content: "two" });
    await session.checkpoint();
    await session.close();
    await target.import(source.export());
    const held = await target.session("a");
    await held.checkpoint("held here");
    await held.close();
    await target.sessions.delete("a");
    await target.gc();
    expect(outcomes(await target.import(early))).toEqual({ a: "imported" });
    expect((await look(target, "a")).now).toMatchObject({
      messages: [{ content: "one" }],
      status: "in-progress",
    });
    await sound(target);
  });

  test("D5 what was held is free there, under an epoch that never falls", async () => {
    const [source, target] = [await make(from), await make(to)];
    const session = await source.session("a");
    await session.checkpoint();
    const rows = await rowsOf(source.export());
    await target.import(rows);
    await (await target.session("a")).close();
    await target.sessions.delete("a");
    await target.import(rows);
    const again = await target.session("a");
    again.set("k", 1);
    await again.checkpoint();
    await again.close();
    await session.close();
    await sound(target);
  });

  test("a session is exported as it was at one moment, however it goes on", async () => {
    const [source, target] = [await make(from), await make(to)];
    const session = await source.session("a");
    for (let i = 0; i < 40; i++) {
      session.append({ role: "user", content: `${i} ${"x".repeat(300)}` });
      await session.checkpoint();
    }
    const rows: string[] = [];
    let written = 0;
    for await (const row of source.export()) {
      rows.push(row);
      session.append({ role: "user", content: `meanwhile ${written}` });
      if (written % 5 === 4) await session.halt("a rest");
      else await session.checkpoint();
      written += 1;
    }
    await session.close();
    expect(outcomes(await target.import(rows))).toEqual({ a: "imported" });
    const { messages, status } = await target.checkpoints.state(
      (await target.checkpoints.latest("a"))?.id as string,
    );
    const there = (await source.checkpoints.list("a", { limit: 1_000 })).items.map(({ id }) => id);
    expect(there).toEqual(
      expect.arrayContaining(
        (await target.checkpoints.list("a", { limit: 1_000 })).items.map(({ id }) => id),
      ),
    );
    expect(messages.length).toBeGreaterThanOrEqual(40);
    expect(messages.length).toBeLessThan(45);
    expect((await target.sessions.get("a"))?.status).toBe(status);
    await sound(target);
  });

  test("pruned, deleted and begun again while it is exported: it comes as it is then, or not at all", async () => {
    const [source, target] = [await make(from), await make(to)];
    for (const id of ["a", "b", "c"]) {
      const session = await source.session(id);
      for (let i = 0; i < (id === "b" ? 250 : 60); i++) {
        session.append({ role: "user", content: `${i} ${"x".repeat(300)}` });
        if (i % 4 === 3) session.splice("messages", 0, 3);
        await session.checkpoint();
      }
      await session.close();
    }
    const rows: string[] = [];
    let since = 0;
    let of: string | null = null;
    for await (const row of source.export()) {
      rows.push(row);
      since += 1;
      if (row.startsWith('{"branch"')) [of, since] = [(JSON.parse(row) as BranchText).of, 0];
      if (of === "a" && since === 5) await source.checkpoints.prune("a", { keep: 1 });
      if (of === "b" && since === 5) await source.sessions.delete("b");
    }
    expect(rows.join("")).toContain('{"again":"a"');
    expect(rows.join("")).toContain('{"again":"b"');
    const report = await target.import(rows);
    expect(report).toMatchObject({ conflicts: [], leftOut: [] });
    expect(outcomes(report)).toEqual({ a: "imported", c: "imported" });
    for (const id of ["a", "c"]) expect(await look(target, id)).toEqual(await look(source, id));
    await sound(target);
  });
});

describe.each(stores)("$name", (kind) => {
  test("gc in the target at any moment: it comes whole, or not at all and later", {
    timeout: 120_000,
  }, async () => {
    const source = await make(memory);
    await rich(source);
    const long = await source.session("long");
    for (let i = 0; i < 700; i++) {
      long.append({ role: "user", content: `${i}` });
      await long.checkpoint();
    }
    await long.close();
    const rows = await rowsOf(source.export());
    // Another user of the same store: its gc knows nothing of the import.
    const store = await openStore(kind.address());
    const [target, other] = [holdOn(store), holdOn(store)];
    let running = true;
    const rng = random(SEED);
    const collecting = (async () => {
      // A slow machine is disturbed as often as a fast one, and not kept from ever ending.
      for (let n = 0; running && n < 40; n++) {
        await other.gc();
        // Over a wire an import takes longer.
        await new Promise((resolve) =>
          setTimeout(resolve, rng.next() * (kind.traits.oneMachine ? 3 : 1_500)),
        );
      }
    })();
    let report = await target.import(rows);
    for (let i = 0; i < 50 && report.conflicts.length > 0; i++) {
      expect(report.conflicts.every(({ code }) => code === "BUSY")).toBe(true);
      await sound(target);
      report = await target.import(rows);
    }
    running = false;
    await collecting;
    expect((await target.import(rows)).conflicts).toEqual([]);
    for (const { id } of (await source.sessions.list({ limit: 100 })).items) {
      if (id !== "long") expect(await look(target, id)).toEqual(await look(source, id));
      else
        expect(await target.checkpoints.list(id, { limit: 1_000 })).toEqual(
          await source.checkpoints.list(id, { limit: 1_000 }),
        );
    }
    await sound(target);
    await store.close();
  });

  test("a gc that cuts half a journal while it is brought in is noticed", async () => {
    const source = await make(memory);
    const long = await source.session("long");
    for (let i = 0; i < 800; i++) {
      long.append({ role: "user", content: `${i}` });
      await long.checkpoint();
    }
    await long.close();
    const rows = await rowsOf(source.export());
    const store = await openStore(kind.address());
    const line = (
      await rowsOf(source.export()).then(([, row]) => JSON.parse(row as string) as BranchText)
    ).branch;
    for (const at of eachNth(3, [500, 250, 803])) {
      let cuts = 0;
      // Just before the change that comes at this row, half of what is there goes: newest first, as
      // a gc would.
      const cutting = wrapped(store, {
        apply: async (changes, docs) => {
          if (read >= at && cuts === 0) {
            cuts += 1;
            await store.reclaim.cut(line, -1, 100, false);
          }
          return store.apply(changes, docs);
        },
      });
      let read = 0;
      const report = await holdOn(cutting).import(
        (function* () {
          for (const row of rows) {
            read += 1;
            yield row;
          }
        })(),
      );
      expect([at, cuts, outcomes(report), report.conflicts]).toEqual([
        at,
        1,
        { long: "imported" },
        [],
      ]);
      const target = holdOn(store);
      expect((await target.checkpoints.list("long", { limit: 1_000 })).items).toHaveLength(800);
      await sound(target);
      await target.sessions.delete("long");
      await target.gc();
    }
    await store.close();
  });

  test("a gc of the same process leaves alone what is being brought in", async () => {
    const source = await make(memory);
    const long = await source.session("long");
    for (let i = 0; i < 900; i++) await long.checkpoint();
    await long.close();
    const target = await make(kind);
    let collected = 0;
    const report = await target.import(
      (async function* () {
        for await (const row of source.export()) {
          yield row;
          if (collected++ % 100 === 0) await target.gc();
        }
      })(),
    );
    expect(report).toMatchObject({ conflicts: [], saves: 900 });
    await sound(target);
  });

  test("two imports of one stream at once: each session once", async () => {
    const [source, target] = [await make(memory), await make(kind)];
    await rich(source);
    const rows = await rowsOf(source.export());
    const reports = await Promise.all([
      target.import(rows),
      target.import(rows),
      target.import(rows),
    ]);
    for (const { conflicts } of reports) expect(conflicts).toEqual([]);
    const imported = reports.flatMap(({ sessions }) =>
      sessions.filter(({ outcome }) => outcome === "imported").map(({ id }) => id),
    );
    expect(imported.toSorted()).toEqual(
      (await source.sessions.list()).items.map(({ id }) => id as string).toSorted(),
    );
    expect(await lookAtAll(target)).toEqual(await lookAtAll(source));
    await sound(target);
  });

  if (isThorough)
    test("what an import of another export has left is no hindrance", async () => {
      const source = await make(memory);
      const session = await source.session("a");
      for (let i = 0; i < 250; i++) {
        session.append({ role: "user", content: `${i}` });
        if (i % 3 === 2) session.splice("messages", 0, 2);
        await session.checkpoint();
      }
      const early = await rowsOf(source.export());
      for (let i = 0; i < 250; i++) await session.checkpoint();
      await session.close();
      const late = await rowsOf(source.export());
      await source.checkpoints.prune("a", { keep: 3 });
      const pruned = await rowsOf(source.export());
      const target = await make(kind);
      for (const [left, then] of [
        [late, early],
        [late, pruned],
        [early, late],
      ] as const) {
        expect(await errorOf(() => target.import(left.slice(0, -2)))).toMatchObject({
          code: "CORRUPT",
        });
        expect((await target.sessions.list()).items).toEqual([]);
        expect(outcomes(await target.import(then))).toEqual({ a: "imported" });
        const other = await make(memory);
        await other.import(then);
        expect(await look(target, "a")).toEqual(await look(other, "a"));
        await sound(target);
        await target.sessions.delete("a");
        await target.gc();
      }
    });

  test("a session that is damaged is named and left out, and the others come", async () => {
    const store = await openStore(kind.address());
    const source = holdOn(store);
    await rich(source);
    const other = await source.session("hurt");
    const before = await other.checkpoint();
    other.set("k", "a secret");
    const at = await other.checkpoint();
    await other.close();
    await source.sessions.fork(before.id, { id: "before it" });
    await source.sessions.fork(at.id, { id: "after it" });
    const [line] = at.id.split("-") as [never];
    const lies = wrapped(store, {
      saves: async (...args) =>
        (await store.saves(...args)).map((save) =>
          save.branch === line && save.state !== null
            ? { ...save, state: save.state.replace("secret", "secreT") }
            : save,
        ),
    });
    const left: unknown[] = [];
    const rows = await rowsOf(holdOn(lies).export({}, { onLeftOut: (one) => left.push(one) }));
    expect(left).toMatchObject([
      {
        id: "hurt",
        code: "CORRUPT",
        message: expect.stringContaining("does not match its digest"),
      },
      { id: "after it", code: "CORRUPT" },
    ]);
    expect(rows.join("")).not.toContain("secreT");
    const target = await make(memory);
    const report = await target.import(rows);
    expect(report.leftOut).toEqual(left);
    expect(report.conflicts).toEqual([]);
    expect(Object.keys(outcomes(report))).toHaveLength(9);
    expect(await (await target.session("before it")).history()).toEqual(
      await (await source.session("before it")).history(),
    );
    await sound(target);
    // Without a function that is told, the stream is complete, and then an error.
    const told: string[] = [];
    const error = await errorOf(async () => {
      for await (const row of holdOn(lies).export()) told.push(row);
    });
    expect(error).toMatchObject({
      code: "CORRUPT",
      message: expect.stringMatching(/"hurt", "after it"/),
    });
    expect(told.at(-1)).toContain('{"end"');
    expect((await (await make(memory)).import(told)).sessions).toHaveLength(9);
    await store.close();
  });
});

test("EXPORT-1 whole sessions cannot change places, or come twice", async () => {
  const source = await make(memory);
  for (const id of ["a", "b", "c"]) await (await source.session(id)).close();
  const [first, a, endOfA, b, endOfB, ...rest] = (await rowsOf(source.export())) as [
    string,
    string,
    string,
    string,
    string,
    ...string[],
  ];
  for (const rows of [
    [first, b, endOfB, a, endOfA, ...rest],
    [first, a, endOfA, a, endOfA, ...rest],
    [first, a, endOfA, ...rest],
  ]) {
    const target = await make(memory);
    expect(await errorOf(() => target.import(rows))).toMatchObject({
      code: "CORRUPT",
      message: expect.stringContaining("its check"),
    });
  }
});

test("a moment is one: a session that goes to another line while it is looked at is looked at again", async () => {
  const store = await openStore("memory:");
  const source = holdOn(store);
  const session = await source.session("a");
  const first = await session.checkpoint();
  session.set("k", 1);
  await session.checkpoint();
  let moved = false;
  const moving = wrapped(store, {
    branches: async (query) => {
      if (!moved) {
        moved = true;
        await session.rewind(first.id);
        session.set("k", 2);
        await session.checkpoint();
      }
      return store.branches(query);
    },
  });
  const rows = await rowsOf(holdOn(moving).export());
  await session.close();
  const target = await make(memory);
  await target.import(rows);
  expect(await look(target, "a")).toEqual(await look(source, "a"));
});

test("a blob that came with another session is not swept from under the one that shares it", async () => {
  const source = await make(memory);
  for (const id of ["a", "b"]) {
    const session = await source.session(id);
    session.set("big", "x".repeat(9_000));
    await session.checkpoint();
    await session.close();
  }
  const store = await openStore("memory:");
  const other = holdOn(store);
  const sweeping = wrapped(store, {
    apply: async (changes, docs) => {
      if (changes.some(({ session, head }) => session === "b" && head !== undefined)) {
        await other.sessions.delete("a");
        await other.gc();
      }
      return store.apply(changes, docs);
    },
  });
  expect(outcomes(await holdOn(sweeping).import(source.export()))).toEqual({
    a: "imported",
    b: "imported",
  });
  await sound(other);
  expect(await look(other, "b")).toEqual(await look(source, "b"));
});

test.each(stores.filter(({ traits }) => traits.durable))(
  "tenants of one $name: the same lines twice, and both are sound",
  async (kind) => {
    const address = kind.address();
    const [mine, theirs] = [
      await open(address, { tenant: "acme" }),
      await open(address, { tenant: "other" }),
    ];
    opened.push(mine, theirs);
    await rich(mine);
    const seen = await lookAtAll(mine);
    expect((await theirs.import(mine.export())).conflicts).toEqual([]);
    expect(await lookAtAll(theirs)).toEqual(seen);
    await theirs.sessions.delete("a");
    await theirs.gc();
    expect(await lookAtAll(mine)).toEqual(seen);
    await sound(mine);
    await sound(theirs);
  },
);

test.each(stores.filter(({ traits }) => traits.durable))(
  "$name, closed and opened again",
  async (kind) => {
    const source = await make(memory);
    await rich(source);
    const address = kind.address();
    const rows = await rowsOf(source.export());
    const first = await open(address);
    expect(await errorOf(() => first.import(rows.slice(0, 20)))).toMatchObject({ code: "CORRUPT" });
    await first.close();
    const second = await open(address);
    await second.import(rows);
    await second.sessions.delete("c");
    await second.gc();
    await second.import(rows);
    await second.close();
    const third = await open(address);
    opened.push(third);
    await sound(third);
    expect(new Set(await lookAtAll(third))).toEqual(new Set(await lookAtAll(source)));
  },
);

test("random work moves as it is, between any two stores", { timeout: 300_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      commands,
      fc.constantFrom(...stores),
      fc.constantFrom(...stores),
      async (work, from, to) => {
        const address = from.address();
        const world = new World(address, from.traits.durable);
        const target = await open(to.address());
        try {
          await world.run(work);
          const source = await world.store();
          const rows = await rowsOf(source.export());
          expect((await target.import(rows)).conflicts).toEqual([]);
          await source.gc();
          expect(await lookAtAll(target)).toEqual(await lookAtAll(source));
          expect(await target.stats()).toEqual(await source.stats());
          await sound(target);
          expect(new Set(Object.values(outcomes(await target.import(rows))))).not.toContain(
            "imported",
          );
        } finally {
          await world.close();
          await target.close();
        }
      },
    ),
    { numRuns: runs(6, 25) },
  );
});

describe("what a forger seals anew", () => {
  const resealed = (doc: object): string =>
    digest(JSON.stringify(doc)).slice(0, 16) + JSON.stringify(doc);
  const docOf = (text: string) => JSON.parse(text.slice(16)) as Record<string, unknown>;
  const change =
    <K extends string>(kind: K, nth: number, to: (row: never) => object) =>
    (rows: TransferRow[]): TransferRow[] => {
      const at = rows
        .map((row, i) => (Object.keys(row)[0] === kind ? i : -1))
        .filter((i) => i >= 0)[nth] as number;
      return rows.with(at, to(rows[at] as never) as TransferRow);
    };
  const head = (to: (doc: Record<string, unknown>) => object) =>
    change("session", 0, (row: SessionText) => ({ ...row, head: resealed(to(docOf(row.head))) }));
  const label = (to: (doc: Record<string, unknown>) => object) =>
    change("session", 0, (row: SessionText) => ({ ...row, label: resealed(to(docOf(row.label))) }));
  const save = (nth: number, to: (save: Save) => object) =>
    change("save", nth, ({ save: was }: { save: Save }) => ({ save: { ...was, ...to(was) } }));

  /**
   * The same save, sealed anew with other words: nothing is wrong with it but what stands around
   * it.
   */
  const sealedAnew = (nth: number, to: Partial<Draft>) =>
    save(nth, ({ branch: line, at, prior, base, prev, nMessages, mark, items, state, ...was }) => {
      const texts = (section: string | null) =>
        (JSON.parse(section ?? "[0]") as unknown[])
          .slice(0, -1)
          .map((record) => JSON.stringify(record));
      const draft = {
        branch: line,
        after: firstSeq({ ...was }) - 1,
        at,
        prior,
        base,
        prev,
        nMessages,
        mark,
        items: texts(items),
        state: texts(state),
      };
      return seal({ ...draft, salt: () => "0123456789abcdef", ...to }).save;
    });

  const forgeries: Record<string, (rows: TransferRow[]) => readonly TransferRow[]> = {
    "a save left out": (rows) => rows.toSpliced(rows.findIndex((row) => "save" in row) + 1, 1),
    "saves exchanged": (rows) => {
      const at = rows.findIndex((row) => "save" in row);
      return rows.with(at, rows[at + 1] as TransferRow).with(at + 1, rows[at] as TransferRow);
    },
    "a save sealed anew": sealedAnew(1, { at: 5 }),
    "a save that leaves numbers out": sealedAnew(2, { after: 20 }),
    "a save that miscounts its messages": sealedAnew(2, { nMessages: 3 }),
    "a save that points to no base": sealedAnew(2, { base: 3 }),
    "a save that points to no checkpoint": sealedAnew(2, { prior: 1 }),
    "a message that is none": sealedAnew(2, { items: ['{"append":5}'], nMessages: 1 }),
    "a mark that is none": sealedAnew(2, { mark: '{"checkpoint":{}}' }),
    "a list of no digests": sealedAnew(2, {
      items: ['{"append":{"role":"user","content":""},"files":["../x"]}'],
      nMessages: 1,
    }),
    "a section changed": save(1, ({ state }) => ({ state: state?.replace("1", "2") ?? "" })),
    "a section dropped": save(1, () => ({ state: null, stateDigest: null })),
    "a count": save(0, () => ({ nMessages: 0 })),
    "a time": save(0, ({ at }) => ({ at: at + 1 })),
    "a pointer": save(1, () => ({ base: 1 })),
    "a number past all": save(0, () => ({ seq: 2 ** 33 })),
    "a note that says a gap": save(1, ({ branch: line, seq, prev, check }) => ({
      items: null,
      state: null,
      mark: null,
      note: `${digest(`${line} ${seq} ${prev} ${check} {"gap":9,"prior":0}`)}{"gap":9,"prior":0}`,
    })),
    "a note that is no JSON": save(1, ({ branch: line, seq, prev, check }) => ({
      note: `${digest(`${line} ${seq} ${prev} ${check} {`)}{`,
    })),
    "a blob": change("blob", 0, (row: { blob: string }) => ({ ...row, base64: "AAAA" })),
    "a blob that nobody refers to": (rows) =>
      rows.toSpliced(rows.findIndex((row) => "save" in row) + 1, 0, {
        blob: digest("x"),
        base64: Buffer.from("x").toString("base64"),
      }),
    "a blob left out": (rows) => rows.filter((row) => !("blob" in row)),
    "parts of nothing before a session": (rows) =>
      rows.toSpliced(
        rows.findIndex((row) => "session" in row),
        0,
        { part: "state", text: "[" },
      ),
    "a blob before a session": (rows) =>
      rows.toSpliced(
        rows.findIndex((row) => "session" in row),
        0,
        { blob: digest("x"), base64: Buffer.from("x").toString("base64") },
      ),
    "parts of nothing": (rows) => rows.toSpliced(2, 0, { part: "state", text: "[" }),
    "a status that is none": head((doc) => ({ ...doc, status: "fine" })),
    "a status of an object's own": head((doc) => ({ ...doc, status: "constructor" })),
    "a status that the journal does not say": head((doc) => ({ ...doc, status: "completed" })),
    "an agent that is no name": head((doc) => ({ ...doc, agent: "a\nb" })),
    "an agent that is no text": head((doc) => ({ ...doc, agent: { toString: "x" } })),
    "a time that is none": head((doc) => ({ ...doc, createdAt: 1e300 })),
    "another session's head": head((doc) => ({ ...doc, id: "b" })),
    "an origin that is no place": head((doc) => ({
      ...doc,
      forkPoint: { sessionId: "a", checkpointId: "../../etc" },
    })),
    "tags that are no names": label((doc) => ({ ...doc, tags: ["a", "a"] })),
    "tags that are no list": label((doc) => ({ ...doc, tags: "a" })),
    "metadata that is none": label((doc) => ({ ...doc, metadata: [1] })),
    "a version below all": label((doc) => ({ ...doc, version: -1 })),
    "an id that is empty": change("session", 0, (row: SessionText) => ({ ...row, session: "" })),
    "a line that is a path": change("branch", 0, (row: BranchText) => ({
      ...row,
      branch: "../../../../etc/",
    })),
    "a line in its own past": change("branch", 1, (row: BranchText) => ({
      ...row,
      forkPoint: { branch: row.branch, seq: 1 },
      text: resealed({ ...docOf(row.text), forkPoint: { branch: row.branch, seq: 1 } }),
    })),
    "a line on one that has not come": change("branch", 1, (row: BranchText) => ({
      ...row,
      forkPoint: { branch: "0000000000000000", seq: 3 },
      text: resealed({ ...docOf(row.text), forkPoint: { branch: "0000000000000000", seq: 3 } }),
    })),
    "a line that follows something else": change("branch", 1, (row: BranchText) => ({
      ...row,
      text: resealed({ ...docOf(row.text), prev: digest("x") }),
    })),
    "a root that follows something": change("branch", 0, (row: BranchText) => ({
      ...row,
      text: resealed({ ...docOf(row.text), prev: digest("x") }),
    })),
    "a line of another session": change("branch", 1, (row: BranchText) => ({ ...row, of: "c" })),
    "a line that nobody owns": change("branch", 1, (row: BranchText) => ({ ...row, of: null })),
    "a line given to two": change("session", 1, (row: SessionText) => ({
      ...row,
      branches: [...row.branches, row.branches[0]],
    })),
    "a session without its lines": (rows) =>
      rows.filter((row) => !("branch" in row) && !("save" in row) && !("blob" in row)),
    "a session without its row": (rows) =>
      rows.toSpliced(
        rows.findIndex((row) => "session" in row),
        1,
      ),
    "the end of a session only": (rows) => rows.filter((row, i) => i === 0 || "session" in row),
    "a row of no kind": (rows) => [...rows, { constructor: 1 } as never],
    "a row that is a list": (rows) => [...rows, [1] as never],
    "a second beginning": (rows) => [...rows, rows[0] as TransferRow],
    "no beginning": (rows) => rows.slice(1),
  };

  test.each(Object.entries(forgeries))("%s is refused", async (_what, forge) => {
    const [source, target] = [await make(memory), await make(memory)];
    const rows = await small(source);
    expect(forged(rows, (all) => all).slice(0, -1)).toEqual(rows.slice(0, -1));
    const error = await errorOf(() => target.import(forged(rows, forge)));
    expect(error).toMatchObject({
      code: "CORRUPT",
      message: expect.stringMatching(/^Row \d+ of the export /),
    });
    await sound(target);
    const dry = await make(memory);
    expect(await errorOf(() => dry.import(forged(rows, forge), { dryRun: true }))).toMatchObject({
      code: "CORRUPT",
    });
  });

  const agent = (to: (doc: Record<string, unknown>) => object) => (rows: TransferRow[]) =>
    change("agent", 0, (row: AgentText) => ({ ...row, text: resealed(to(docOf(row.text))) }))(rows);
  const forgedAgents: Record<string, (rows: TransferRow[]) => readonly TransferRow[]> = {
    "another's": agent((doc) => ({ ...doc, id: "b" })),
    "with a version below all": agent((doc) => ({ ...doc, version: 0 })),
    "with a time that is none": agent((doc) => ({ ...doc, createdAt: "now" })),
    "with a field that none has": agent((doc) => ({ ...doc, admin: true })),
    "with a state that is none": agent((doc) => ({ ...doc, state: [1] })),
    "without its name": agent(({ name: _name, ...doc }) => doc),
    "that came twice": (rows) => [rows[0] as TransferRow, rows[1] as TransferRow, ...rows.slice(1)],
    "in the middle of a session": (rows) =>
      rows.toSpliced(4, 0, rows[1] as TransferRow).toSpliced(1, 1),
    "under a name that is none": change("agent", 0, (row: AgentText) => ({ ...row, agent: "" })),
    "whose text is no record": change("agent", 0, (row: AgentText) => ({
      ...row,
      text: resealed([1]),
    })),
  };

  test.each(Object.entries(forgedAgents))("an agent %s is refused", async (_what, forge) => {
    const [source, target] = [await make(memory), await make(memory)];
    await source.agents.save({ id: "a", state: { n: 1 } });
    const rows = await small(source);
    expect(await errorOf(() => target.import(forged(rows, forge)))).toMatchObject({
      code: "CORRUPT",
    });
    await sound(target);
  });

  test("`__proto__` is a key like others", async () => {
    const [source, target] = [await make(memory), await make(memory)];
    const rows = await small(source);
    const own = JSON.parse('{"__proto__":{"polluted":true}}') as object;
    await target.import(
      forged(
        rows,
        label((doc) => ({ ...doc, metadata: own })),
      ),
    );
    expect(JSON.stringify((await target.sessions.get("a"))?.metadata)).toBe(JSON.stringify(own));
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("a newer format is told", async () => {
    const [source, target] = [await make(memory), await make(memory)];
    const rows = forged(
      await small(source),
      change("holdfast", 0, (row: object) => ({ ...row, version: 3, sessions: "many" })),
    );
    expect(await errorOf(() => target.import(rows))).toMatchObject({ code: "NEWER_FORMAT" });
  });
});

test.each(stores)(
  "agents come along with their sessions, and do not take the place of those that are there: $name",
  async (store) => {
    const [source, target] = [await make(store), await make(store)];
    const saved = await source.agents.save({
      id: "ann",
      name: "Ann",
      system: "Hi.",
      type: "x",
      state: { n: 1 },
      metadata: { k: 1 },
    });
    await source.agents.save({ id: "bob" });
    await source.agents.save({ id: "carl", state: { of: "source" } });
    await target.agents.save({ id: "carl", state: { of: "target" } });
    const session = await source.session("a", { agent: "ann" });
    session.append({ role: "user", content: "hello" });
    await session.checkpoint();
    await session.close();
    const rows = await rowsOf(source.export());
    const expected = { ann: "imported", bob: "imported", carl: "kept" };
    const report = async (o?: { readonly dryRun: boolean }) =>
      Object.fromEntries(
        (await target.import(rows, o)).agents.map(({ id, outcome }) => [id, outcome]),
      );
    expect(await report({ dryRun: true })).toEqual(expected);
    expect(await target.agents.get("ann")).toBeUndefined();
    expect(await report()).toEqual(expected);
    expect(await report()).toEqual({ ...expected, ann: "known", bob: "known" });
    expect(await target.agents.get("ann")).toEqual({ ...saved, activeSessions: ["a"] });
    expect((await target.agents.get("carl"))?.state).toEqual({ of: "target" });
    // One session comes alone; an agent's come with its record.
    expect((await rowsOf(source.export({ session: "a" }))).join("")).not.toContain('{"agent":');
    expect(
      (await rowsOf(source.export({ agent: "ann" }))).filter((row) => row.startsWith('{"agent":')),
    ).toHaveLength(1);
  },
);

describe("what is passed in", () => {
  test("rows in pieces of any size, as text and as bytes", async () => {
    const source = await make(memory);
    const session = await source.session("ü 🪸");
    session.append({ role: "user", content: "grün 🪸 \u2028 \ud83e\udeb8".repeat(40) });
    await session.checkpoint();
    await session.close();
    const text = (await rowsOf(source.export())).join("");
    const bytes = Buffer.from(text);
    const file = join(scratch(), "export.jsonl");
    writeFileSync(file, text);
    const chopped = (size: number) =>
      Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
        bytes.subarray(i * size, (i + 1) * size),
      );
    const ways = [
      text,
      bytes,
      [...text],
      text.split(""),
      text.split(/(?<=\n)/),
      chopped(1),
      chopped(7),
      chopped(1_000),
      [text.slice(0, 50), Buffer.from(text.slice(50))],
      [bytes.subarray(0, 50), text.slice(50)],
      createReadStream(file),
      createReadStream(file, { encoding: "utf8", highWaterMark: 13 }),
      Readable.from(chopped(5)).pipe(new PassThrough()),
      text.slice(0, -1),
    ];
    for (const way of ways) {
      const target = await make(memory);
      expect(outcomes(await target.import(way as Iterable<string>))).toEqual({
        "ü 🪸": "imported",
      });
      expect(await lookAtAll(target)).toEqual(await lookAtAll(source));
    }
  });

  test("what is no export", async () => {
    const target = await make(memory);
    for (const text of [
      "",
      "\n",
      "hello\n",
      "{}\n",
      '{"a":1}',
      "SQLite format 3\0",
      "x".repeat(100_000),
    ])
      expect(await errorOf(() => target.import([text]))).toMatchObject({ code: "NOT_A_STORE" });
    expect(await errorOf(() => target.import([Buffer.from([0xff, 0xfe, 10])]))).toMatchObject({
      code: "CORRUPT",
    });
    for (const rows of [undefined, null, 5, {}, [5], [null]])
      expect(await errorOf(() => target.import(rows as never))).toMatchObject({
        code: "INVALID_OPTION",
      });
  });

  test("a row without an end is not kept for ever", async () => {
    const target = await make(memory);
    let given = 0;
    const endless = function* () {
      for (;;) {
        given += 1;
        yield "x".repeat(1024 * 1024);
      }
    };
    expect(await errorOf(() => target.import(endless()))).toMatchObject({
      code: "TOO_LARGE",
      details: { row: 1, limit: 64 * 1024 * 1024 },
    });
    expect(given).toBeLessThan(70);
  });

  test("options", async () => {
    const hold = await make(memory);
    await (await hold.session("a")).close();
    const exports: [unknown, unknown, string][] = [
      [{ session: "nobody" }, undefined, "NOT_FOUND"],
      [{ session: "" }, undefined, "INVALID_ID"],
      [{ agent: 5 }, undefined, "INVALID_ID"],
      [{ session: "a", agent: "x" }, undefined, "INVALID_OPTION"],
      [{ sessions: "a" }, undefined, "INVALID_OPTION"],
      ["a", undefined, "INVALID_OPTION"],
      [{}, { signal: 5 }, "INVALID_OPTION"],
      [{}, { onProgress: 5 }, "INVALID_OPTION"],
      [{}, { onLeftOut: "x" }, "INVALID_OPTION"],
      [{}, { dryRun: true }, "INVALID_OPTION"],
    ];
    for (const [what, o, code] of exports)
      expect(await errorOf(() => rowsOf(hold.export(what as never, o as never)))).toMatchObject({
        code,
      });
    for (const o of [{ signal: {} }, { dryRun: "no" }, { onProgress: 1 }, { force: true }, 5])
      expect(await errorOf(() => hold.import([], o as never))).toMatchObject({
        code: "INVALID_OPTION",
      });
  });

  test("progress is told, and both can be stopped", async () => {
    const [source, target] = [await make(memory), await make(memory)];
    await rich(source);
    const out: TransferProgress[] = [];
    const rows = await rowsOf(source.export({}, { onProgress: (progress) => out.push(progress) }));
    expect(out.at(-1)).toEqual({
      sessions: 8,
      saves: 21,
      bytes: Buffer.byteLength(rows.join("")),
      of: 8,
    });
    const told: TransferProgress[] = [];
    const report = await target.import(rows, { onProgress: (progress) => told.push(progress) });
    expect(told.at(-1)).toEqual(out.at(-1));
    expect(
      Object.isFrozen(report) &&
        Object.isFrozen(report.sessions) &&
        Object.isFrozen(report.sessions[0]),
    ).toBe(true);
    const why = new Error("enough");
    const stop = new AbortController();
    expect(
      await errorOf(() =>
        rowsOf(source.export({}, { signal: stop.signal, onProgress: () => stop.abort(why) })),
      ),
    ).toBe(why);
    const other = await make(memory);
    const half = new AbortController();
    expect(
      await errorOf(() =>
        other.import(rows, {
          signal: half.signal,
          onProgress: ({ sessions }) => sessions === 3 && half.abort(why),
        }),
      ),
    ).toBe(why);
    expect((await other.sessions.list()).items).toHaveLength(3);
    expect((await other.import(rows)).conflicts).toEqual([]);
    expect(await lookAtAll(other)).toEqual(await lookAtAll(source));
  });

  test.each(eachNth(2, ["", "x"]))("what is long comes in parts %s", async (shift) => {
    const [source, target] = [await make(memory), await make(memory)];
    const session = await source.session("a");
    for (let i = 0; i < 400; i++)
      session.append({ role: "user", content: `${i === 0 ? shift : ""}${"🪸".repeat(2_000)}` });
    for (let i = 0; i < 200; i++) session.set(`k${i}`, "\\".repeat(3_500));
    session.append({
      role: "user",
      content: [{ type: "file", mediaType: "x/y", data: { bytes: Buffer.alloc(3_000_001, 7) } }],
    });
    await session.checkpoint();
    await session.close();
    const rows = await rowsOf(source.export());
    expect(rows.filter((row) => row.startsWith('{"part":"items"')).length).toBeGreaterThan(0);
    expect(rows.filter((row) => row.startsWith('{"part":"state"')).length).toBeGreaterThan(0);
    expect(rows.filter((row) => row.startsWith('{"part":"blob"')).length).toBeGreaterThan(0);
    expect(Math.max(...rows.map(({ length }) => length))).toBeLessThan(4_000_000);
    await target.import(rows);
    expect(await lookAtAll(target)).toEqual(await lookAtAll(source));
  });
});

test.each([runs(500, 10_000)])(
  "D8 %i saves pass through in bounded memory",
  { timeout: 300_000 },
  async (saves) => {
    baseTuning.slackBytes = slackBytes;
    const durable = everyStore.find(({ traits }) => traits.durable) as StoreKind;
    const [source, target] = [await make(durable), await make(durable)];
    const session = await source.session("a");
    for (let i = 0; i < saves; i++) {
      session.append({ role: "user", content: `${i} ${"x".repeat(4_000)}` });
      if (i % 50 === 49) session.splice("messages", 0, 50);
      await session.checkpoint();
    }
    await session.close();
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    gc();
    const before = process.memoryUsage().heapUsed;
    let most = 0;
    let bytes = 0;
    const watched = async function* () {
      let rows = 0;
      for await (const row of source.export()) {
        bytes += row.length;
        rows += 1;
        if (rows % (saves / 20) === 0) {
          gc();
          most = Math.max(most, process.memoryUsage().heapUsed - before);
        }
        yield row;
      }
    };
    const report = await target.import(watched());
    expect(report).toMatchObject({ saves, conflicts: [] });
    console.log(
      `${Math.round(bytes / 1e6)} MB moved; the heap grew by ${Math.round(most / 1e6)} MB at most`,
    );
    expect(most).toBeLessThan(30e6);
    await sound(target);
    baseTuning.slackBytes = 300;
  },
);

function holdOn(store: Store): Holdfast {
  return new Runtime(store, thisMachine(), { now: Date.now }, 30_000);
}

test("a session that was due is not where it is brought to, and is the same in all else", async () => {
  const [from, to] = [await openStore(memory.address()), await openStore(memory.address())];
  const runtimes = [from, to].map(
    (store) => new Runtime(store, thisMachine(), { now: Date.now }, 30_000),
  ) as [Runtime, Runtime];
  opened.push(...runtimes);
  const session = await runtimes[0].session("a", { agent: "x" });
  session.append({ role: "user", content: "hello" });
  await session.checkpoint();
  await session.close();
  const head = headOf((await from.session("a")).row as SessionRow);
  await from.apply([{ session: "a", when: {}, head: headRow({ ...head, due: 1_000 }) }]);
  const isDue = async (store: Store) => {
    let asked = false;
    await store.claims.claim({ agent: "x", dueBy: 2_000, limit: 1 }, () => void (asked = true));
    return asked;
  };
  const report = await runtimes[1].import(runtimes[0].export());
  expect(outcomes(report)).toEqual({ a: "imported" });
  expect([await isDue(from), await isDue(to)]).toEqual([true, false]);
  expect(headOf((await to.session("a")).row as SessionRow)).toEqual({
    ...head,
    generation: "(imported)",
  });
  for (const hold of runtimes) await sound(hold);
});
