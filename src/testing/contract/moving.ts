/** Journals that are brought in before anybody owns them, the past of a branch, and tenants. */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import { oneBranch } from "../../store/port/queries.js";
import type { Store } from "../../store/port.js";
import { all, anything, type ContractCase, define, ok, refused } from "./case.js";
import { begin, branchOf, digestOf, Fixture, freed } from "./fixture.js";

export const moving: readonly ContractCase[] = [
  define(
    "a journal is brought in branch by branch, and belongs to nobody until its session is made",
    {
      async act(store) {
        const f = new Fixture("a");
        const made = f.begin();
        const absent = { session: "a", when: { absent: true } } as const;
        ok(await store.apply([{ ...absent, loose: made.branch }]));
        ok(await store.apply([{ ...absent, loose: made.branch }]), "again");
        refused(
          await store.apply([{ ...absent, loose: { ...made.branch, text: "another" } }]),
          "branch",
        );
        const first = f.save({ items: 2, mark: true, blob: "kept" });
        ok(await store.apply([{ ...absent, saves: first.saves ?? [] }]));
        ok(await store.apply([{ ...absent, saves: first.saves ?? [] }]), "PORT-3 again");
        refused(
          await store.apply([{ ...absent, saves: f.later(f.peek({ items: 1 }), 1).saves ?? [] }]),
          "tail",
        );
        assert.deepEqual(
          [
            (await store.branches(oneBranch(f.branch)))[0]?.owned,
            (await store.branches(oneBranch(f.branch)))[0]?.session,
          ],
          [false, null],
        );
        assert.equal((await store.session("a")).row, undefined);
        assert.deepEqual(await store.sessions({ limit: 10 }), []);
        // A second branch, that begins on the first.
        const other = f.forked("a", 3);
        ok(
          await store.apply([
            {
              ...absent,
              loose: other.begin().branch,
              saves: other.save({ items: 1, mark: true }).saves ?? [],
            },
          ]),
        );
        const { branch: _branch, ...session } = other.begin();
        refused(
          await store.apply([{ ...session, claims: [f.branch, "0000000000000000" as never] }]),
          "branch",
        );
        assert.equal((await store.session("a")).row, undefined);
        ok(await store.apply([{ ...session, claims: [f.branch, other.branch] }]));
        refused(await store.apply([{ ...absent, loose: made.branch }]), "exists");
        refused(await store.apply([{ ...begin("b"), claims: [f.branch] }]), "branch");
        refused(
          await store.apply([{ session: "b", when: { absent: true }, loose: made.branch }]),
          "branch",
        );
        return { first: f.saves, second: other.saves };
      },
      async check(store, { first, second }) {
        assert.deepEqual(await store.saves(branchOf(first), all), first);
        assert.deepEqual(await store.saves(branchOf(second), all), second);
        assert.deepEqual(
          (await store.branches({ kind: "session", session: "a" })).map(({ id, owned }) => [
            id,
            owned,
          ]),
          [
            [branchOf(second), true],
            [branchOf(first), true],
          ],
        );
        assert.deepEqual((await store.session("a", "end")).end, {
          ...(second[0] as Save),
          items: null,
          state: null,
        });
        assert.equal((await store.session("b")).row, undefined);
      },
    },
  ),

  define(
    "branches, their saves and the session that claims them come in one apply, or not at all",
    {
      async act(store) {
        const f = new Fixture("a");
        const absent = { session: "nobody", when: { absent: true } } as const;
        const { branch, ...session } = f.begin();
        const first = {
          ...absent,
          loose: branch,
          saves: f.save({ items: 1, mark: true }).saves ?? [],
        };
        const other = f.forked("a", 2);
        const second = {
          ...absent,
          loose: other.begin().branch,
          saves: other.save({ items: 1, mark: true }).saves ?? [],
        };
        const claims = [f.branch, other.branch];
        // The end of a branch is repeated as a condition: it must be there, or come next.
        const missing = f.later(f.peek({ items: 1 }), 1).saves ?? [];
        refused(
          await store.apply([first, second, { ...session, claims, saves: missing }]),
          "tail",
          2,
        );
        assert.deepEqual(
          [(await store.branches(oneBranch(f.branch)))[0], (await store.session("a")).row],
          [undefined, undefined],
        );
        ok(await store.apply([first, second, { ...session, claims, saves: first.saves }]));
        return claims;
      },
      async check(store, claims) {
        assert.deepEqual(
          (await store.branches({ kind: "session", session: "a" })).map(({ id }) => id),
          claims.toReversed(),
        );
        for (const branch of claims) assert.equal((await store.saves(branch, all)).length, 1);
        assert.equal((await store.session("nobody")).row, undefined);
      },
    },
  ),

  define("the past of a branch is the branch and those it goes back to, newest first", {
    async act(store) {
      const a = new Fixture("a");
      ok(await store.apply([a.begin()]));
      for (let i = 0; i < 3; i++) ok(await store.apply([a.save({ items: 1, mark: true })]));
      const b = a.forked("b", 4);
      ok(await store.apply([b.begin(), b.save({ items: 1, mark: true })]));
      const c = b.forked("c", 6);
      ok(await store.apply([c.begin()]));
      const aside = a.forked("d", 2);
      ok(await store.apply([aside.begin()]));
      ok(await store.apply([{ session: "b", when: {}, remove: true }]));
      return { a: a.branch, b: b.branch, c: c.branch };
    },
    async check(store, { a, b, c }) {
      const past = await store.branches({ kind: "past", id: c, limit: 10 });
      assert.deepEqual(past, [
        (await store.branches(oneBranch(c)))[0],
        (await store.branches(oneBranch(b)))[0],
        (await store.branches(oneBranch(a)))[0],
      ]);
      assert.deepEqual(
        past.map(({ session }) => session),
        ["c", null, "a"],
      );
      assert.deepEqual(await store.branches({ kind: "past", id: a, limit: 10 }), [
        (await store.branches(oneBranch(a)))[0],
      ]);
      assert.deepEqual(await store.branches({ kind: "past", id: c, limit: 2 }), past.slice(0, 2));
      assert.deepEqual(await store.branches({ kind: "past", id: c, limit: 1 }), past.slice(0, 1));
      assert.deepEqual(
        await store.branches({ kind: "past", id: "0000000000000000", limit: 10 }),
        [],
      );
    },
  }),

  define("a watch can be begun and stopped at any time", {
    async act(store) {
      ok(await store.apply([begin("a")]));
      const stop = store.watch("a", () => {});
      store.watch("nobody", () => {})();
      stop();
      stop();
      return store.watch("a", () => {});
    },
    async check(_store, stop) {
      stop();
    },
  }),

  {
    name: "PORT-9 tenants do not see each other, whatever they name",
    needs: [],
    async run(make) {
      const harness = await make();
      const mine = await harness.open("acme");
      const theirs = await harness.open("Acme");
      const plain = await harness.open();
      const a = new Fixture("a", { agent: "x", due: 5, tags: ["t"] });
      const b = new Fixture("a", { agent: "y", tags: ["t"] });
      try {
        ok(await mine.apply([a.begin({ epoch: 7 })]));
        ok(await mine.apply([a.save({ items: 2, mark: true, blob: "secret" }, 7)]));
        await mine.inbox?.post("a", { id: "m", text: "for acme", due: 0 });
        const before = await whole(mine, a);

        for (const other of [theirs, plain]) {
          assert.equal((await other.session("a")).row, undefined);
          assert.equal((await other.session("a", "end")).row, undefined);
          assert.equal((await other.branches(oneBranch(a.branch)))[0], undefined);
          assert.deepEqual(await other.branches({ kind: "past", id: a.branch, limit: 10 }), []);
          assert.deepEqual(await other.saves(a.branch, all), []);
          for (const query of [
            { kind: "session", session: "a" },
            { kind: "forks", of: a.branch },
            { kind: "all" },
          ] as const)
            assert.deepEqual(await other.branches(query), []);
          for (const query of [
            {},
            { agent: "x" },
            { tag: "t" },
            { status: "in-progress" },
            { archived: false },
          ])
            assert.deepEqual(await other.sessions({ limit: 10, ...query }), []);
          assert.equal(await other.blob(digestOf("secret")), undefined);
          if (other.inbox !== undefined) {
            assert.deepEqual(await other.inbox.list("a", { dueBy: 0, limit: 10 }), []);
            assert.equal(await other.inbox.post("a", { id: "m", text: "x", due: 0 }), "absent");
          }
          const due = { agent: "x", dueBy: 10, limit: 10 };
          assert.deepEqual((await other.claims?.claim(due, ({ lease }) => lease)) ?? [], []);
          assert.deepEqual((await other.info("counts")).counts, {
            agents: 0,
            sessions: 0,
            checkpoints: 0,
            snapshots: 0,
            messages: 0,
            sizeBytes: 0,
          });
          if (other.reclaim !== undefined) {
            const replacement = { save: a.gapOf(0, 0), refs: [], was: a.saves };
            assert.deepEqual(await other.reclaim.sweep(10, false), freed([]));
            assert.deepEqual(await other.reclaim.cut(a.branch, -1, 10, false), freed([]));
            assert.equal(await other.reclaim.replace(a.branch, [replacement], anything), false);
          }
          refused(await other.apply([a.peek({ items: 1 }, 7)]), "absent");
          refused(await other.apply([{ session: "a", when: {}, remove: true }]), "absent");
          refused(
            await other.apply([begin("fork", { forkPoint: { branch: a.branch, seq: 3 } })]),
            "forkPoint",
          );
          refused(await other.apply([{ ...begin("thief"), claims: [a.branch] }]), "branch");
        }
        assert.deepEqual(await whole(mine, a), before);

        // The same names, another session; and an end for the one leaves the other as it was.
        ok(await theirs.apply([b.begin()]));
        ok(await theirs.apply([b.save({ items: 1, mark: true, blob: "secret" })]));
        assert.deepEqual(
          [
            (await theirs.info("counts")).counts?.sessions,
            (await theirs.info("counts")).counts?.messages,
          ],
          [1, 1],
        );
        refused(await theirs.apply([b.begin()]), "exists");
        ok(await theirs.apply([{ session: "a", when: {}, remove: true }]));
        if (theirs.reclaim !== undefined) {
          await theirs.reclaim.cut(b.branch, -1, 10, false);
          assert.deepEqual(await theirs.reclaim.sweep(10, false), freed(["secret"]));
        }
        assert.equal((await theirs.session("a")).buried, 1);
        assert.equal((await plain.session("a")).buried, 0);
        assert.deepEqual(await whole(mine, a), before);
        // A journal brought over keeps the ids of its branches.
        const absent = { session: "b", when: { absent: true } } as const;
        ok(
          await theirs.apply([
            {
              ...absent,
              loose: a.begin().branch,
              saves: [{ save: a.saves[0] as Save, refs: [], blobs: [] }],
            },
          ]),
        );
        assert.equal((await theirs.saves(a.branch, all)).length, 1);
        if (theirs.reclaim !== undefined)
          assert.equal((await theirs.reclaim.cut(a.branch, -1, 10, false)).count, 1);
        assert.deepEqual(await whole(mine, a), before);
      } finally {
        for (const store of [mine, theirs, plain]) await store.close();
      }
      if (!harness.traits.durable) return;
      const again = await harness.open("acme");
      const plainAgain = await harness.open();
      try {
        assert.equal((await again.saves(a.branch, all)).length, 1);
        assert.equal((await plainAgain.session("a")).row, undefined);
      } finally {
        await again.close();
        await plainAgain.close();
      }
    },
  },
];

async function whole(store: Store, { id, branch }: Fixture): Promise<unknown> {
  return [
    await store.session(id),
    await store.saves(branch, all),
    await store.inbox?.list(id, { dueBy: 0, limit: 10 }),
    (await store.info("counts")).counts,
    await store.blob(digestOf("secret")),
    await store.branches({ kind: "all" }),
  ];
}
