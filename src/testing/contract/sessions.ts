/**
 * Sessions, their branches, labels, leases and inboxes: making, finding, listing and moving them.
 */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import { oneBranch } from "../../store/port/queries.js";
import { all, type ContractCase, define, ok, refused, seqs } from "./case.js";
import { begin, branchOf, Fixture } from "./fixture.js";

export const sessions: readonly ContractCase[] = [
  define("PORT-2 a session that was made is there, whole", {
    async act(store) {
      const made = begin("a", {
        agent: "scribe",
        status: "waiting",
        tags: ["x", "y"],
        archived: true,
      });
      ok(await store.apply([made]));
      return made;
    },
    async check(store, made) {
      const { row } = await store.session("a");
      assert.deepEqual(row && { id: row.id, head: row.head, label: row.label, lease: row.lease }, {
        id: "a",
        head: made.head,
        label: made.label,
        lease: made.lease,
      });
      assert.deepEqual((await store.branches(oneBranch(made.branch.id)))[0], {
        ...made.branch,
        no: 1,
        owned: true,
        session: "a",
      });
      assert.equal((await store.session("b")).row, undefined);
      assert.equal((await store.branches(oneBranch("0000000000000000")))[0], undefined);
    },
  }),

  define("a session, the branch it is on and that branch's last save are had in one look", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const bare = await store.session("a", "end");
      assert.equal(bare.end, undefined);
      assert.equal(bare.branch?.id, f.branch);
      for (let i = 0; i < 3; i++)
        ok(await store.apply([f.save({ items: 2, state: 1, mark: true })]));
      // It goes to a branch that begins at the first save, and back to the one it was on.
      const other = f.fork("a", (f.saves[0] as Save).seq);
      const head = { status: "in-progress", agent: null, due: null, text: "on another branch" };
      ok(
        await store.apply([
          { session: "a", when: { epoch: 1 }, branch: other, head: { ...head, branch: other.id } },
        ]),
      );
      const moved = await store.session("a", "end");
      assert.deepEqual(
        [moved.row?.head.branch, moved.branch?.id, moved.end],
        [other.id, other.id, undefined],
      );
      ok(
        await store.apply([
          { session: "a", when: { epoch: 1 }, head: { ...head, branch: f.branch } },
        ]),
      );
      return f.saves;
    },
    async check(store, saves) {
      const last = saves.at(-1) as Save;
      assert.deepEqual(await store.session("a", "end"), {
        ...(await store.session("a")),
        branch: (await store.branches(oneBranch(last.branch)))[0],
        end: { ...last, items: null, state: null },
      });
      assert.equal((await store.session("b", "end")).row, undefined);
    },
  }),

  define("PORT-7 ids and texts are compared byte by byte and never interpreted", {
    async act(store) {
      const ids = [
        "a",
        "A",
        "a%",
        "a_",
        "*",
        "a'b",
        'a"b',
        "a;--",
        "__proto__",
        "constructor",
        "é",
        "e\u0301",
        "𝔘",
        "a ",
        " a",
        "..",
        "../x",
        "?",
        "$1",
        ":id",
        "null",
      ];
      for (const id of ids) ok(await store.apply([begin(id, { agent: id, tags: [id] })]));
      return ids;
    },
    async check(store, ids) {
      for (const id of ids) {
        assert.equal((await store.session(id)).row?.id, id);
        assert.deepEqual(
          (await store.sessions({ agent: id, limit: 100 })).map((row) => row.id),
          [id],
        );
        assert.deepEqual(
          (await store.sessions({ tag: id, limit: 100 })).map((row) => row.id),
          [id],
        );
        assert.deepEqual(
          (await store.branches({ kind: "session", session: id })).map((row) => row.session),
          [id],
        );
      }
      for (const id of ["", "%", "b", "a%%", "toString"])
        assert.equal((await store.session(id)).row, undefined);
      assert.equal((await store.sessions({ limit: 100 })).length, ids.length);
    },
  }),

  define("PORT-8 sessions are listed newest first, by filters and pages", {
    async act(store) {
      for (let i = 0; i < 12; i++) {
        ok(
          await store.apply([
            begin(`s${i}`, {
              agent: i % 2 ? "odd" : "even",
              status: i % 3 ? "in-progress" : "completed",
              archived: i > 8,
              tags: i % 4 ? [] : ["four", `t${i}`],
            }),
          ]),
        );
      }
      return undefined;
    },
    async check(store) {
      const ask = async (query: object) =>
        (await store.sessions({ limit: 100, ...query })).map((row) => row.id);
      assert.deepEqual(await ask({}), [
        "s11",
        "s10",
        "s9",
        "s8",
        "s7",
        "s6",
        "s5",
        "s4",
        "s3",
        "s2",
        "s1",
        "s0",
      ]);
      assert.deepEqual(await ask({ agent: "odd" }), ["s11", "s9", "s7", "s5", "s3", "s1"]);
      assert.deepEqual(await ask({ agent: "odd", status: "completed" }), ["s9", "s3"]);
      assert.deepEqual(await ask({ tag: "four" }), ["s8", "s4", "s0"]);
      assert.deepEqual(await ask({ tag: "four", status: "completed", agent: "even" }), ["s0"]);
      assert.deepEqual(await ask({ archived: true }), ["s11", "s10", "s9"]);
      assert.deepEqual(await ask({ archived: false, agent: "even" }), [
        "s8",
        "s6",
        "s4",
        "s2",
        "s0",
      ]);
      const first = await store.sessions({ limit: 5 });
      assert.deepEqual(await ask({ before: first.at(-1)?.no, limit: 3 }), ["s6", "s5", "s4"]);
      assert.deepEqual(
        await ask({ tag: "four", before: (await store.session("s8")).row?.no, limit: 1 }),
        ["s4"],
      );
    },
  }),

  define(
    "PORT-7 ids that begin alike are found byte by byte, those of sessions and of branches that have an owner",
    {
      async act(store) {
        const branches: string[] = [];
        for (const id of ["ab", "a", "a%", "a_", "aé", "a\u{10ffff}", "b", "A"]) {
          const made = begin(id);
          branches.push(made.branch.id);
          ok(await store.apply([made]));
        }
        ok(await store.apply([{ session: "b", when: {}, remove: true }]));
        return { branches };
      },
      async check(store, { branches }) {
        const branchIds = async (beginning: string, limit: number) =>
          (await store.branches({ kind: "beginning", beginning, limit })).map(({ id }) => id);
        const sessions = async (beginning: string, limit = 100) =>
          (await store.sessions({ beginning, limit })).map(({ id }) => id);
        assert.deepEqual(await sessions("a"), ["a", "a%", "a_", "ab", "aé", "a\u{10ffff}"]);
        assert.deepEqual(await sessions("a", 2), ["a", "a%"]);
        assert.deepEqual(await sessions("a%"), ["a%"]);
        assert.deepEqual(await sessions("a_"), ["a_"]);
        assert.deepEqual(await sessions("aé"), ["aé"]);
        assert.deepEqual(await sessions("b"), []);
        assert.equal((await sessions("")).length, 7);
        assert.deepEqual(await branchIds("", 100), branches.toSorted());
        for (const branch of branches)
          assert.deepEqual(await branchIds(branch.slice(0, 12), 9), [branch]);
      },
    },
  ),

  define("a store says what it is, and where", {
    act: async () => undefined,
    async check(store) {
      const about = (await store.info()).about;
      assert.ok(about.place.length > 0 && about.engine.length > 0 && about.synced.length > 0);
      assert.ok(about.format >= 1 && (about.diskBytes ?? 0) >= 0);
      for (const { code, message, fix } of about.concerns) assert.ok(code && message && fix);
    },
  }),

  define("PORT-8 no number is used twice, and the epoch of a deleted session is kept", {
    async act(store) {
      const old = new Fixture("a");
      ok(await store.apply([old.begin({ epoch: 7 })]));
      ok(await store.apply([old.save({ items: 1, mark: true }, 7)]));
      const { no } = (await store.session("a")).row as { no: number };
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      assert.equal((await store.session("a")).row, undefined);
      assert.equal((await store.session("a")).buried, 7);
      assert.equal((await store.session("b")).buried, 0);
      refused(await store.apply([old.peek({ items: 1 }, 7)]), "absent");
      const stale = begin("a");
      refused(await store.apply([{ ...stale, when: { absent: true, buried: 0 } }]), "epoch");
      const young = new Fixture("a");
      ok(await store.apply([{ ...young.begin({ epoch: 8 }), when: { absent: true, buried: 7 } }]));
      refused(await store.apply([old.peek({ items: 1 }, 7)]), "epoch");
      return { no, old: old.branch, young: young.branch };
    },
    async check(store, { no, old, young }) {
      assert.ok(((await store.session("a")).row as { no: number }).no > no);
      assert.deepEqual(
        [
          (await store.branches(oneBranch(old)))[0]?.owned,
          (await store.branches(oneBranch(old)))[0]?.session,
        ],
        [false, null],
      );
      assert.deepEqual(
        (await store.branches({ kind: "session", session: "a" })).map(({ id }) => id),
        [young],
      );
    },
  }),

  define("PORT-8 branches are listed newest first, by session and by fork point", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      const rewound = f.fork("a", 2);
      const forked = begin("b", { forkPoint: { branch: f.branch, seq: 4 } });
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, branch: rewound }]));
      ok(await store.apply([forked]));
      return { first: f.branch, rewound: rewound.id, forked: forked.branch.id };
    },
    async check(store, { first, rewound, forked }) {
      assert.deepEqual(
        (await store.branches({ kind: "session", session: "a" })).map(({ id }) => id),
        [rewound, first],
      );
      assert.deepEqual(
        (await store.branches({ kind: "forks", of: first })).map(({ id }) => id),
        [forked, rewound],
      );
      const [oldest, next] = await store.branches({
        kind: "later-forks",
        of: first,
        after: 0,
        limit: 2,
      });
      assert.deepEqual([oldest?.id, next?.id], [rewound, forked]);
      const page = async (after: number, limit: number) =>
        (await store.branches({ kind: "later-forks", of: first, after, limit })).map(
          ({ id }) => id,
        );
      assert.deepEqual(await page(0, 1), [rewound]);
      assert.deepEqual(await page(oldest?.no ?? 0, 9), [forked]);
      assert.deepEqual(await page(next?.no ?? 0, 9), []);
      assert.deepEqual(
        (await store.branches({ kind: "all" })).map(({ id }) => id),
        [forked, rewound, first],
      );
      const [newest] = await store.branches({ kind: "all", limit: 1 });
      assert.equal(newest?.id, forked);
      assert.deepEqual(
        (await store.branches({ kind: "all", before: newest?.no ?? 0, limit: 5 })).map(
          ({ id }) => id,
        ),
        [rewound, first],
      );
      assert.deepEqual((await store.branches(oneBranch(rewound)))[0]?.forkPoint, {
        branch: first,
        seq: 2,
      });
      const numbers = (await store.branches({ kind: "all" })).map(({ no }) => no);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => b - a),
      );
    },
  }),

  define("PORT-1 a fork's branch goes on from the number it began at", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 3, mark: true })]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      const b = f.forked("b", 4);
      ok(await store.apply([b.begin()]));
      refused(await store.apply([b.later(b.peek({ items: 1 }), 1)]), "tail");
      ok(await store.apply([b.save({ items: 1, mark: true })]));
      return { a: f.saves, b: b.saves };
    },
    async check(store, { a, b }) {
      assert.deepEqual(seqs(await store.saves(branchOf(a), all)), [4, 6]);
      assert.deepEqual(seqs(await store.saves(branchOf(b), all)), [6]);
    },
  }),

  define("the holder's head, a lease and a label change apart from each other", {
    async act(store) {
      const made = begin("a", { tags: ["old"] });
      ok(await store.apply([made]));
      const head = {
        status: "completed",
        agent: "x",
        branch: made.branch.id,
        due: 5,
        text: "head 2",
      };
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, head }]));
      ok(
        await store.apply([
          {
            session: "a",
            when: { version: 1 },
            label: { version: 2, archived: true, tags: ["new", "newer"], text: "label 2" },
          },
        ]),
      );
      ok(
        await store.apply([
          {
            session: "a",
            when: { epoch: 1, until: 0 },
            lease: { epoch: 2, until: 77, text: "lease 2" },
          },
        ]),
      );
      return head;
    },
    async check(store, head) {
      const { row } = await store.session("a");
      assert.deepEqual(row?.head, head);
      assert.deepEqual(row?.label, {
        version: 2,
        archived: true,
        tags: ["new", "newer"],
        text: "label 2",
      });
      assert.deepEqual(row?.lease, { epoch: 2, until: 77, text: "lease 2" });
      assert.equal((await store.sessions({ tag: "old", limit: 10 })).length, 0);
      assert.equal((await store.sessions({ tag: "newer", limit: 10 })).length, 1);
      assert.equal(
        (await store.sessions({ status: "completed", agent: "x", archived: true, limit: 10 }))
          .length,
        1,
      );
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
      assert.deepEqual((await store.info("counts")).counts, counts);
    },
  }),
];
