/**
 * What takes away: replacing and cutting saves, blobs that nothing refers to, and what is left to
 * count.
 */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import type { Replacement, Swept } from "../../store/port/reclaim.js";
import { all, anything, type ContractCase, define, ok, seqs } from "./case.js";
import { begin, digestOf, Fixture, freed, lineOf } from "./fixture.js";

export const removal: readonly ContractCase[] = [
  define("replace puts saves in the place of those with the same records", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 4; i++)
        ok(await store.apply([f.save({ items: 1, mark: true, blob: `body ${i}` })]));
      const gap = f.gapOf(0, 1);
      const bare = { ...(f.saves[2] as Save), items: null };
      const [one, two, three] = f.saves as [Save, Save, Save];
      const better = [
        { save: gap, refs: [], was: [one, two] },
        { save: bare, refs: [], was: [three] },
      ];
      // Not what is there: refused whole.
      assert.equal(
        await store.replace(
          f.line,
          [better[0] as Replacement, { save: bare, refs: [], was: [{ ...three, mark: null }] }],
          anything,
        ),
        false,
      );
      assert.equal(
        await store.replace(f.line, [{ save: gap, refs: [], was: [one] }], anything),
        false,
      );
      assert.deepEqual(await store.saves(f.line, all), f.saves);
      assert.equal(await store.replace(f.line, better, anything), true);
      assert.deepEqual(await store.sweep(100, true), freed(["body 0", "body 1", "body 2"]));
      const steps: Swept[] = [await store.sweep(2, false)];
      assert.equal(typeof steps[0]?.next, "string", "there are more to look at");
      for (let next = steps[0]?.next; next !== undefined; next = steps.at(-1)?.next)
        steps.push(await store.sweep(2, false, next));
      const sum = (part: "count" | "bytes") => steps.reduce((all, step) => all + step[part], 0);
      assert.deepEqual(
        { count: sum("count"), bytes: sum("bytes") },
        freed(["body 0", "body 1", "body 2"]),
      );
      assert.ok(
        steps.every(({ count }) => count <= 2),
        "no step looks at more than it is told",
      );
      return { line: f.line, saves: [gap, bare, f.saves[3] as Save] };
    },
    async check(store, { line, saves }) {
      assert.deepEqual(await store.saves(line, all), saves);
      assert.deepEqual(await store.sweep(100, true), { count: 0, bytes: 0 });
      assert.equal(await store.blob(digestOf("body 0")), undefined);
      assert.notEqual(await store.blob(digestOf("body 3")), undefined);
    },
  }),

  define("replace changes what it is told of a save, and nothing else", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 4; i++)
        ok(await store.apply([f.save({ items: 2, state: 2, mark: true, blob: `body ${i}` })]));
      const without = [
        { mark: null },
        { state: null },
        { items: null, mark: null },
        { items: null, state: null },
      ];
      const saves = f.saves.map((save, i) => ({ ...save, ...without[i] }));
      const refs = (i: number) => (i < 2 ? [digestOf(`body ${i}`)] : []);
      const replacements = saves.map((save, i) => ({
        save,
        refs: refs(i),
        was: [f.saves[i] as Save],
      }));
      assert.equal(await store.replace(f.line, replacements, anything), true);
      return saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
      assert.deepEqual(await store.sweep(100, true), freed(["body 2", "body 3"]));
    },
  }),

  define("replace is refused where a fork has begun since it was planned", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 3; i++) ok(await store.apply([f.save({ items: 1, mark: true })]));
      const known = ((await store.line(f.line)) as { no: number }).no;
      ok(await store.apply([begin("b", { origin: { line: f.line, seq: 4 } })]));
      const bare = { ...(f.saves[0] as Save), mark: null };
      assert.equal(
        await store.replace(f.line, [{ save: bare, refs: [], was: [f.saves[0] as Save] }], {
          ...anything,
          line: known,
        }),
        false,
      );
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("cut leaves what a fork begins at, also among saves that came together", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      const together = [1, 2, 3].flatMap(() => f.save({ items: 1, mark: true }).saves ?? []);
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, saves: together }]));
      ok(await store.apply([begin("b", { origin: { line: f.line, seq: 4 } })]));
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      assert.equal((await store.cut(f.line, 4, 100, false)).count, 2);
      return f.saves.slice(0, 2);
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
      assert.equal((await store.cut(lineOf(saves), 4, 100, false)).count, 0);
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("cut frees ownerless lines, and never what a fork needs", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 5; i++)
        ok(await store.apply([f.save({ items: 1, mark: true, blob: `body ${i}` })]));
      const b = f.forked("b", 4);
      ok(await store.apply([b.begin()]));
      assert.deepEqual(
        await store.cut(f.line, -1, 100, false),
        { count: 0, bytes: 0 },
        "an owned line is not cut",
      );
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      const would = await store.cut(f.line, 4, 100, true);
      assert.equal(would.count, 3);
      assert.equal((await store.cut(f.line, 4, 2, false)).count, 2);
      assert.equal(
        (await store.cut(f.line, -1, 100, false)).count,
        1,
        "the fork's part stays, whatever is asked",
      );
      assert.deepEqual(seqs(await store.saves(f.line, all)), [2, 4]);
      ok(await store.apply([{ session: "b", when: {}, remove: true }]));
      assert.equal((await store.cut(b.line, -1, 100, false)).count, 0);
      assert.equal(await store.line(b.line), undefined);
      assert.equal((await store.cut(f.line, -1, 100, false)).count, 2);
      return f.line;
    },
    async check(store, line) {
      assert.equal(await store.line(line), undefined);
      assert.deepEqual(await store.saves(line, all), []);
      assert.deepEqual(await store.lines({ all: true }), []);
      assert.equal((await store.sweep(100, true)).count, 5);
    },
  }),

  define("P8 the number of a line that was cut away is not given again", {
    async act(store) {
      const made = begin("a");
      ok(await store.apply([made]));
      const old = (await store.line(made.line.id))?.no ?? 0;
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      await store.cut(made.line.id, -1, 100, false);
      assert.equal(await store.line(made.line.id), undefined);
      const next = begin("b");
      ok(await store.apply([next]));
      return { old, line: next.line.id };
    },
    async check(store, { old, line }) {
      assert.ok(((await store.line(line))?.no ?? 0) > old);
    },
  }),

  define("blobs are kept once under their digest, and as long as a save refers to them", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, blob: "same" })]));
      ok(await store.apply([f.save({ items: 1, blob: "same" })]));
      assert.deepEqual(await store.sweep(100, false), { count: 0, bytes: 0 });
      return undefined;
    },
    async check(store) {
      assert.equal(Buffer.from((await store.blob(digestOf("same"))) ?? []).toString(), "same");
      assert.equal(await store.blob(digestOf("other")), undefined);
    },
  }),

  define("counts are counted", {
    async act(store) {
      const f = new Fixture("a", { agent: "x" });
      ok(
        await store.apply([
          f.begin(),
          begin("b", { agent: "x" }),
          begin("c", { agent: "y" }),
          begin("d"),
        ]),
      );
      for (let i = 0; i < 3; i++)
        ok(
          await store.apply([
            f.save({ items: 2, state: 1, mark: i > 0, blob: i === 0 ? "0123456789" : "" }),
          ]),
        );
      const text = f.saves.reduce(
        (sum, { items, state, mark }) =>
          sum + [items, state, mark].reduce((n, part) => n + Buffer.byteLength(part ?? ""), 0),
        0,
      );
      return {
        agents: 2,
        sessions: 4,
        checkpoints: 2,
        snapshots: 0,
        messages: 6,
        sizeBytes: text + 10,
      };
    },
    async check(store, counts) {
      assert.deepEqual(await store.counts(), counts);
    },
  }),
];
