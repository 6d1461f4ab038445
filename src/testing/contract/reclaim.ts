/** What takes saves and blobs away, or puts others in their place. */
import assert from "node:assert/strict";
import { rewrite } from "../../core/journal/rewrite-save.js";
import type { Save } from "../../core/journal/save.js";
import { digest } from "../../core/values/digest.js";
import { oneBranch } from "../../store/port/queries.js";
import type { Replacement, Swept } from "../../store/port/reclaim.js";
import { all, anything, type ContractCase, defineFor, ok, refused, seqs } from "./case.js";
import { begin, branchOf, digestOf, Fixture, freed } from "./fixture.js";

const salt = () => "fedcba9876543210";
const now = { dueBy: 0, limit: 10 };

const define = defineFor("reclaim");
const defineWithInbox = defineFor("reclaim", "inbox");

export const reclaim: readonly ContractCase[] = [
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
        await store.reclaim.replace(
          f.branch,
          [better[0] as Replacement, { save: bare, refs: [], was: [{ ...three, mark: null }] }],
          anything,
        ),
        false,
      );
      assert.equal(
        await store.reclaim.replace(f.branch, [{ save: gap, refs: [], was: [one] }], anything),
        false,
      );
      assert.deepEqual(await store.saves(f.branch, all), f.saves);
      assert.equal(await store.reclaim.replace(f.branch, better, anything), true);
      assert.deepEqual(await store.reclaim.sweep(100, true), freed(["body 0", "body 1", "body 2"]));
      const steps: Swept[] = [await store.reclaim.sweep(2, false)];
      assert.equal(typeof steps[0]?.next, "string", "there are more to look at");
      for (let next = steps[0]?.next; next !== undefined; next = steps.at(-1)?.next)
        steps.push(await store.reclaim.sweep(2, false, next));
      const sum = (part: "count" | "bytes") => steps.reduce((all, step) => all + step[part], 0);
      assert.deepEqual(
        { count: sum("count"), bytes: sum("bytes") },
        freed(["body 0", "body 1", "body 2"]),
      );
      assert.ok(
        steps.every(({ count }) => count <= 2),
        "no step looks at more than it is told",
      );
      return { branch: f.branch, saves: [gap, bare, f.saves[3] as Save] };
    },
    async check(store, { branch, saves }) {
      assert.deepEqual(await store.saves(branch, all), saves);
      assert.deepEqual(await store.reclaim.sweep(100, true), { count: 0, bytes: 0 });
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
      assert.equal(await store.reclaim.replace(f.branch, replacements, anything), true);
      return saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
      assert.deepEqual(await store.reclaim.sweep(100, true), freed(["body 2", "body 3"]));
    },
  }),

  define("replace is refused where a fork has begun since it was planned", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 3; i++) ok(await store.apply([f.save({ items: 1, mark: true })]));
      const known = ((await store.branches(oneBranch(f.branch)))[0] as { no: number }).no;
      ok(await store.apply([begin("b", { forkPoint: { branch: f.branch, seq: 4 } })]));
      const bare = { ...(f.saves[0] as Save), mark: null };
      assert.equal(
        await store.reclaim.replace(
          f.branch,
          [{ save: bare, refs: [], was: [f.saves[0] as Save] }],
          {
            ...anything,
            branch: known,
          },
        ),
        false,
      );
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
    },
  }),

  define("cut leaves what a fork begins at, also among saves that came together", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      const together = [1, 2, 3].flatMap(() => f.save({ items: 1, mark: true }).saves ?? []);
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, saves: together }]));
      ok(await store.apply([begin("b", { forkPoint: { branch: f.branch, seq: 4 } })]));
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      assert.equal((await store.reclaim.cut(f.branch, 4, 100, false)).count, 2);
      return f.saves.slice(0, 2);
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
      assert.equal((await store.reclaim.cut(branchOf(saves), 4, 100, false)).count, 0);
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
    },
  }),

  define("cut frees ownerless branches, and never what a fork needs", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 5; i++)
        ok(await store.apply([f.save({ items: 1, mark: true, blob: `body ${i}` })]));
      const b = f.forked("b", 4);
      ok(await store.apply([b.begin()]));
      assert.deepEqual(
        await store.reclaim.cut(f.branch, -1, 100, false),
        { count: 0, bytes: 0 },
        "an owned branch is not cut",
      );
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      const would = await store.reclaim.cut(f.branch, 4, 100, true);
      assert.equal(would.count, 3);
      assert.equal((await store.reclaim.cut(f.branch, 4, 2, false)).count, 2);
      assert.equal(
        (await store.reclaim.cut(f.branch, -1, 100, false)).count,
        1,
        "the fork's part stays, whatever is asked",
      );
      assert.deepEqual(seqs(await store.saves(f.branch, all)), [2, 4]);
      ok(await store.apply([{ session: "b", when: {}, remove: true }]));
      assert.equal((await store.reclaim.cut(b.branch, -1, 100, false)).count, 0);
      assert.equal((await store.branches(oneBranch(b.branch)))[0], undefined);
      assert.equal((await store.reclaim.cut(f.branch, -1, 100, false)).count, 2);
      return f.branch;
    },
    async check(store, branch) {
      assert.equal((await store.branches(oneBranch(branch)))[0], undefined);
      assert.deepEqual(await store.saves(branch, all), []);
      assert.deepEqual(await store.branches({ kind: "all" }), []);
      assert.equal((await store.reclaim.sweep(100, true)).count, 5);
    },
  }),

  define("PORT-8 the number of a branch that was cut away is not given again", {
    async act(store) {
      const made = begin("a");
      ok(await store.apply([made]));
      const old = (await store.branches(oneBranch(made.branch.id)))[0]?.no ?? 0;
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      await store.reclaim.cut(made.branch.id, -1, 100, false);
      assert.equal((await store.branches(oneBranch(made.branch.id)))[0], undefined);
      const next = begin("b");
      ok(await store.apply([next]));
      return { old, branch: next.branch.id };
    },
    async check(store, { old, branch }) {
      assert.ok(((await store.branches(oneBranch(branch)))[0]?.no ?? 0) > old);
    },
  }),

  define("blobs are kept once under their digest, and as long as a save refers to them", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, blob: "same" })]));
      ok(await store.apply([f.save({ items: 1, blob: "same" })]));
      assert.deepEqual(await store.reclaim.sweep(100, false), { count: 0, bytes: 0 });
      return undefined;
    },
    async check(store) {
      assert.equal(Buffer.from((await store.blob(digestOf("same"))) ?? []).toString(), "same");
      assert.equal(await store.blob(digestOf("other")), undefined);
    },
  }),

  define("what was brought in and never claimed can be cut", {
    async act(store) {
      const f = new Fixture("a");
      const absent = { session: "a", when: { absent: true } } as const;
      ok(
        await store.apply([
          {
            ...absent,
            loose: f.begin().branch,
            saves: f.save({ items: 1, mark: true, blob: "gone" }).saves ?? [],
          },
        ]),
      );
      assert.equal((await store.reclaim.cut(f.branch, -1, 100, false)).count, 1);
      assert.deepEqual(await store.reclaim.sweep(10, false), freed(["gone"]));
      return f.branch;
    },
    async check(store, branch) {
      assert.equal((await store.branches(oneBranch(branch)))[0], undefined);
      assert.deepEqual((await store.info("counts")).counts, {
        agents: 0,
        sessions: 0,
        checkpoints: 0,
        snapshots: 0,
        messages: 0,
        sizeBytes: 0,
      });
    },
  }),

  define(
    "PORT-3 a save that came with a head, or was pruned to a gap since, is known; one in its place is not taken for it",
    {
      async act(store) {
        const f = new Fixture("a");
        const made = f.begin();
        ok(await store.apply([made]));
        ok(await store.apply([f.save({ state: 1 })]));
        const astray = f.peek({ state: 2 });
        const first = f.save({ state: 4 });
        ok(await store.apply([{ ...first, head: { ...made.head, text: "head 2" } }]));
        ok(await store.apply([first]), "without its head");
        refused(await store.apply([astray]), "tail");
        const emptied = f.gapOf(1, 1);
        assert.equal(
          await store.reclaim.replace(
            f.branch,
            [{ save: emptied, refs: [], was: [f.saves[1] as Save] }],
            anything,
          ),
          true,
        );
        ok(await store.apply([first]), "pruned");
        return f.saves.with(1, emptied);
      },
      async check(store, saves) {
        assert.deepEqual(await store.saves(branchOf(saves), all), saves);
      },
    },
  ),

  define(
    "replace brings the blobs that the new saves refer to, and lets go of those that the old ones did",
    {
      async act(store) {
        const f = new Fixture("a");
        ok(await store.apply([f.begin()]));
        for (const blob of ["old", "shared", "shared"])
          ok(await store.apply([f.save({ items: 1, state: 1, mark: true, blob })]));
        const [one, two] = f.saves as [Save, Save];
        const other = Buffer.from("new");
        const blobs = [{ digest: digest(other), bytes: other }];
        const better = [one, two].map((save) =>
          rewrite(save, { items: ['{"append":{"role":"user","content":"…"}}'], salt }),
        );
        const replacements = better.map((save, i) => ({
          save,
          refs: [digestOf("new")],
          was: [f.saves[i] as Save],
          blobs,
        }));
        assert.equal(await store.reclaim.replace(f.branch, replacements, anything), true);
        assert.deepEqual(await store.reclaim.sweep(100, false), freed(["old"]));
        // What is there is not what was read before: the note tells.
        assert.equal(await store.reclaim.replace(f.branch, replacements, anything), false);
        const again = better.map((save) =>
          rewrite(save, { state: ['{"set":"k0","value":null}'], salt }),
        );
        const second = again.map((save, i) => ({
          save,
          refs: [digestOf("new")],
          was: [better[i] as Save],
        }));
        assert.equal(await store.reclaim.replace(f.branch, second, anything), true);
        return { branch: f.branch, saves: [...again, f.saves[2] as Save] };
      },
      async check(store, { branch, saves }) {
        assert.deepEqual(await store.saves(branch, all), saves);
        assert.equal(Buffer.from((await store.blob(digestOf("new"))) ?? []).toString(), "new");
        assert.equal(await store.blob(digestOf("old")), undefined);
        assert.notEqual(await store.blob(digestOf("shared")), undefined);
        assert.deepEqual(await store.reclaim.sweep(100, true), { count: 0, bytes: 0 });
      },
    },
  ),

  defineWithInbox("scrub leaves everything as it is", {
    async act(store) {
      const f = new Fixture("a", { tags: ["x"] });
      ok(await store.apply([f.begin()]));
      for (const blob of ["one", "two"])
        ok(await store.apply([f.save({ items: 2, mark: true, blob })]));
      await store.inbox.post("a", { id: "m", text: "letter", due: 0 });
      const [first] = f.saves as [Save];
      assert.equal(
        await store.reclaim.replace(
          f.branch,
          [{ save: { ...first, items: null }, refs: [], was: [first] }],
          anything,
        ),
        true,
      );
      const { left } = await store.reclaim.scrub(() => true);
      assert.ok(Array.isArray(left));
      ok(await store.apply([f.save({ items: 1 })]));
      return { branch: f.branch, saves: [{ ...first, items: null }, ...f.saves.slice(1)] };
    },
    async check(store, { branch, saves }) {
      assert.deepEqual(await store.saves(branch, all), saves);
      assert.deepEqual(await store.inbox.list("a", now), [{ id: "m", text: "letter", due: 0 }]);
      assert.deepEqual(
        (await store.sessions({ tag: "x", limit: 5 })).map(({ id }) => id),
        ["a"],
      );
      assert.notEqual(await store.blob(digestOf("two")), undefined);
    },
  }),
];
