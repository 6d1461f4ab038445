/**
 * Applying changes and reading saves back: conditions, order, groups, and what is nobody else's to
 * change.
 */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import type { Change } from "../../store/port/changes.js";
import type { Store } from "../../store/port.js";
import { all, type ContractCase, define, ok, refused, seqs } from "./case.js";
import { begin, branchOf, bytesOf, digestOf, Fixture } from "./fixture.js";

export const saves: readonly ContractCase[] = [
  define("PORT-2 saves are there, section by section", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 5; i++)
        ok(await store.apply([f.save({ items: 2, state: i % 2, mark: i !== 3 })]));
      return f.saves;
    },
    async check(store, saves) {
      const branch = branchOf(saves);
      assert.deepEqual(await store.saves(branch, all), saves);
      const headers = await store.saves(branch, { ...all, items: false, state: false });
      assert.deepEqual(
        headers,
        saves.map((save) => ({ ...save, items: null, state: null })),
      );
      const items = await store.saves(branch, { ...all, state: false });
      assert.deepEqual(
        items.map(({ items: text, state }) => [text, state]),
        saves.map(({ items: text }) => [text, null]),
      );
      const state = await store.saves(branch, { ...all, items: false });
      assert.deepEqual(
        state.map(({ items: text, state: kept }) => [text, kept]),
        saves.map(({ state: kept }) => [null, kept]),
      );
    },
  }),

  define(
    "PORT-5 ranges give the saves that hold any of their records, in either order, up to a limit",
    {
      async act(store) {
        const f = new Fixture("a");
        ok(await store.apply([f.begin()]));
        // Saves end at 3, 6, 9, …
        for (let i = 0; i < 10; i++)
          ok(await store.apply([f.save({ items: 2, state: 0, mark: true })]));
        return branchOf(f.saves);
      },
      async check(store, branch) {
        const ask = async (from: number, to: number, more: object = {}) =>
          seqs(await store.saves(branch, { ...all, from, to, ...more }));
        assert.deepEqual(await ask(1, 3), [3]);
        assert.deepEqual(await ask(3, 3), [3]);
        assert.deepEqual(await ask(2, 4), [3, 6]);
        assert.deepEqual(await ask(4, 4), [6]);
        assert.deepEqual(await ask(7, 13), [9, 12, 15]);
        assert.deepEqual(await ask(29, 2 ** 32 - 1), [30]);
        assert.deepEqual(await ask(31, 2 ** 32 - 1), []);
        assert.deepEqual(await ask(1, 30, { limit: 2 }), [3, 6]);
        assert.deepEqual(await ask(1, 30, { limit: 2, newestFirst: true }), [30, 27]);
        assert.deepEqual(await ask(5, 10, { newestFirst: true }), [12, 9, 6]);
        assert.deepEqual(seqs(await store.saves("0000000000000000" as never, all)), []);
      },
    },
  ),

  define("PORT-1 every condition is checked, and a refusal changes nothing", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin({ epoch: 5, until: 1_000, version: 3 })]));
      ok(await store.apply([f.save({ items: 1, state: 0, mark: false }, 5)]));
      const before = await snapshot(store);
      refused(await store.apply([begin("a")]), "exists");
      refused(
        await store.apply([{ session: "nobody", when: {}, head: begin("nobody").head }]),
        "absent",
      );
      refused(await store.apply([f.peek({ items: 1 }, 4)]), "epoch");
      refused(await store.apply([f.peek({ items: 1 }, 6)]), "epoch");
      refused(
        await store.apply([
          { session: "a", when: { epoch: 4 }, lease: { epoch: 9, until: 9, text: "x" } },
        ]),
        "epoch",
      );
      refused(
        await store.apply([
          {
            session: "a",
            when: { epoch: 5, until: 999 },
            lease: { epoch: 6, until: 9, text: "x" },
          },
        ]),
        "until",
      );
      refused(
        await store.apply([
          { session: "a", when: { version: 2 }, label: { ...begin("a").label, version: 4 } },
        ]),
        "version",
      );
      // No mark there: a fork cannot begin at it.
      refused(
        await store.apply([begin("b", { forkPoint: { branch: f.branch, seq: 1 } })]),
        "forkPoint",
      );
      refused(
        await store.apply([begin("b", { forkPoint: { branch: f.branch, seq: 2 } })]),
        "forkPoint",
      );
      refused(
        await store.apply([
          begin("b", { forkPoint: { branch: "0000000000000000" as never, seq: 1 } }),
        ]),
        "forkPoint",
      );
      assert.deepEqual(await snapshot(store), before);
      return before;
    },
    async check(store, before) {
      assert.deepEqual(await snapshot(store), before);
    },
  }),

  define("PORT-1 a save must follow the end of its branch", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const skipped = f.peek({ items: 1, text: "another" });
      ok(await store.apply([f.save({ items: 1 })]));
      const ahead = f.later(f.peek({ items: 1 }), 1);
      refused(await store.apply([skipped]), "tail");
      refused(await store.apply([ahead]), "tail");
      ok(await store.apply([f.save({ items: 3, mark: true })]));
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
    },
  }),

  define("PORT-1 changes applied together stand or fall together", {
    async act(store) {
      const a = new Fixture("a");
      const b = new Fixture("b");
      ok(await store.apply([a.begin(), b.begin()]));
      refused(
        await store.apply([a.peek({ items: 1, blob: "kept?" }), b.peek({ items: 1 }, 7)]),
        "epoch",
        1,
      );
      refused(await store.apply([begin("c"), a.peek({ items: 1 }, 7)]), "epoch", 1);
      refused(
        await store.apply([
          {
            ...a.peek({ items: 1 }),
            head: { status: "failed", agent: null, branch: a.branch, due: null, text: "x" },
          },
          begin("b"),
        ]),
        "exists",
        1,
      );
      assert.equal((await store.session("c")).row, undefined);
      assert.equal(await store.blob(digestOf("kept?")), undefined);
      ok(await store.apply([a.save({ items: 1 }), b.save({ items: 2 })]));
      return { a: a.saves, b: b.saves };
    },
    async check(store, { a, b }) {
      assert.deepEqual(await store.saves(branchOf(a), all), a);
      assert.deepEqual(await store.saves(branchOf(b), all), b);
      assert.equal((await store.session("a")).row?.head.status, "in-progress");
      assert.equal((await store.info("counts")).counts?.sessions, 2);
    },
  }),

  define("PORT-3 a save that is there already is ok again, and is there once", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const first = f.save({ items: 1, mark: true });
      ok(await store.apply([first]));
      const astray = f.peek({ items: 3, text: "follows what was the end" });
      ok(await store.apply([first]), "at the end of the branch");
      ok(await store.apply([f.save({ items: 1, blob: "body" })]));
      ok(await store.apply([first]), "further back");
      const other = f.rewritten(first);
      refused(await store.apply([other]), "tail");
      ok(await store.apply([first]));
      refused(await store.apply([astray]), "tail");
      ok(await store.apply([f.save({ items: 2 })]));
      ok(await store.apply([f.save({ items: 2 })]));
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(branchOf(saves), all), saves);
    },
  }),

  define("PORT-4 applies of one tick succeed and fail apart", {
    async act(store) {
      const fixtures = Array.from({ length: 20 }, (_, i) => new Fixture(`s${i}`));
      for (const f of fixtures) ok(await store.apply([f.begin()]));
      const answers = await Promise.all(
        fixtures.map((f, i) =>
          store.apply([
            i % 3 === 0
              ? f.peek({ items: 1 }, 9)
              : f.save({ items: 1, ...(i % 3 === 1 ? { blob: `blob ${i}` } : {}) }),
          ]),
        ),
      );
      answers.forEach((answer, i) => (i % 3 === 0 ? refused(answer, "epoch") : ok(answer)));
      return fixtures.map((f) => ({ branch: f.branch, saves: f.saves }));
    },
    async check(store, fixtures) {
      for (const { branch, saves } of fixtures)
        assert.deepEqual(await store.saves(branch, all), saves);
    },
  }),

  define("PORT-4 applies of one session in one tick keep their order", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const changes = Array.from({ length: 30 }, () => f.save({ items: 1, mark: true }));
      for (const answer of await Promise.all(changes.map((change) => store.apply([change]))))
        ok(answer);
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(seqs(await store.saves(branchOf(saves), all)), seqs(saves));
    },
  }),

  define("PORT-6 what is passed in and handed out is nobody's to change", {
    async act(store) {
      const f = new Fixture("a");
      const bytes = new Uint8Array([1, 2, 3]);
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, bytes })]));
      bytes.fill(9);
      const got = (await store.blob(bytesOf([1, 2, 3]))) as Uint8Array;
      got.fill(8);
    },
    async check(store) {
      assert.deepEqual([...((await store.blob(bytesOf([1, 2, 3]))) as Uint8Array)], [1, 2, 3]);
    },
  }),

  define("long texts and many saves", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, text: "é𝔘\u0000\n".repeat(100_000) })]));
      for (let i = 0; i < 300; i++)
        ok(await store.apply([f.save({ items: 3, state: 1, mark: true })]));
      return f.saves;
    },
    async check(store, saves) {
      const found: Save[] = [];
      for (let from = 1; ; ) {
        const page = await store.saves(branchOf(saves), { ...all, from, limit: 100 });
        if (page.length === 0) break;
        found.push(...page);
        from = (page.at(-1) as Save).seq + 1;
      }
      assert.deepEqual(found, saves);
    },
  }),

  define("the clock of leases does not go back, and a sound store finds no damage", {
    async act(store) {
      const before = await store.now();
      await new Promise((resolve) => setTimeout(resolve, 5));
      assert.ok((await store.now()) >= before);
      assert.ok(Number.isFinite(before));
      ok(await store.apply([begin("a")]));
      return undefined;
    },
    async check(store) {
      assert.deepEqual(await store.check(), []);
      assert.equal((await store.session("a")).row?.id, "a");
    },
  }),

  {
    name: "a closed store says so, and closing twice is no harm",
    needs: [],
    async run(make) {
      const store = await (await make()).open();
      const { inbox, claims } = store;
      const change: Change = begin("a");
      const none = () => undefined;
      await store.close();
      await store.close();
      for (const call of [
        () => store.apply([change]),
        () => store.session("a"),
        () => store.sessions({ limit: 1 }),
        () => store.saves(change.branch?.id as never, all),
        () => store.branches({ kind: "all" }),
        () => store.info("counts"),
        ...(inbox ? [() => inbox.list("a", { dueBy: 0, limit: 1 })] : []),
        ...(claims ? [() => claims.claim({ agent: "x", dueBy: 0, limit: 1 }, none)] : []),
      ]) {
        await assert.rejects(call, { code: "CLOSED" });
      }
    },
  },
];

/** Everything a store shows, to compare it before and after. */
async function snapshot(store: Store): Promise<unknown> {
  const branches = await store.branches({ kind: "all" });
  return {
    sessions: await store.sessions({ limit: 1_000 }),
    branches,
    saves: await Promise.all(branches.map(({ id }) => store.saves(id, all))),
    counts: (await store.info("counts")).counts,
  };
}
