/** Documents beside the sessions, and the places that they pin. */
import assert from "node:assert/strict";
import type { Save } from "../../core/journal/save.js";
import type { Place } from "../../core/values/ids.js";

import type { Doc, DocChange } from "../../store/port/documents.js";
import { oneBranch } from "../../store/port/queries.js";
import type { Present } from "../../store/port/rows.js";
import {
  all,
  anything,
  type ContractCase,
  defineFor,
  type Having,
  ok,
  openHaving,
  refused,
  seqs,
} from "./case.js";
import { begin, Fixture } from "./fixture.js";

type Put = Omit<Doc, "kind" | "id">;

const put = (text: string, o: Partial<Put> = {}): Put => ({
  of: null,
  version: 1,
  text,
  body: null,
  pins: [],
  ...o,
});
const made = (kind: string, id: string, o: Partial<Put> = {}): DocChange => ({
  kind,
  id,
  when: { absent: true },
  put: put(`${kind} ${id}`, o),
});

/** Makes a document that pins places, in the one way there is. */
const pinned = (store: Having<"documents">, agent: string, change: DocChange) =>
  store.documents.capture({ agent, limit: 100, hold: false }, () => ({
    changes: [],
    docs: [change],
  }));

const ids = async (
  store: Having<"documents">,
  query: {
    readonly kind: string;
    readonly of?: string;
    readonly before?: number;
    readonly limit?: number;
  },
) => (await store.documents.list({ limit: 100, ...query })).map(({ id }) => id);

const define = defineFor("documents");
const defineWithReclaim = defineFor("documents", "reclaim");

export const documents: readonly ContractCase[] = [
  define("PORT-2 a document is there, whole, and is listed newest first without its body", {
    async act(store) {
      for (const [i, id] of ["a", "b", "c", "d"].entries())
        ok(
          await store.apply(
            [],
            [
              made("note", id, {
                of: i % 2 ? "odd" : "even",
                body: `body of ${id}`,
                version: i + 1,
              }),
            ],
          ),
        );
      ok(await store.apply([], [made("other", "a")]));
      return undefined;
    },
    async check(store) {
      const b = await store.documents.get("note", "b");
      assert.deepEqual(b, {
        no: b?.no,
        kind: "note",
        id: "b",
        of: "odd",
        version: 2,
        text: "note b",
        body: "body of b",
      });
      assert.equal((await store.documents.get("other", "a"))?.body, null);
      assert.equal(await store.documents.get("other", "b"), undefined);
      assert.equal(await store.documents.get("none", "a"), undefined);
      assert.deepEqual(await ids(store, { kind: "note" }), ["d", "c", "b", "a"]);
      assert.deepEqual(await ids(store, { kind: "note", of: "even" }), ["c", "a"]);
      assert.deepEqual(await ids(store, { kind: "note", limit: 2 }), ["d", "c"]);
      const [, c] = await store.documents.list({ kind: "note", limit: 2 });
      assert.deepEqual(await ids(store, { kind: "note", before: c?.no as number, limit: 1 }), [
        "b",
      ]);
      assert.deepEqual(await ids(store, { kind: "note", of: "even", before: c?.no as number }), [
        "a",
      ]);
      assert.deepEqual(await ids(store, { kind: "none" }), []);
    },
  }),

  define("a document is changed where its version is the one that was read", {
    async act(store) {
      ok(await store.apply([], [made("note", "a", { body: "long" })]));
      const { no } = (await store.documents.get("note", "a")) as { no: number };
      refused(await store.apply([], [made("note", "a")]), "exists");
      const next = (version: number, o: Partial<Put> = {}): DocChange => ({
        kind: "note",
        id: "a",
        when: { version },
        put: put("again", { version: version + 1, ...o }),
      });
      refused(await store.apply([], [next(2)]), "version");
      refused(await store.apply([], [{ ...next(1), id: "b" }]), "absent");
      ok(await store.apply([], [next(1, { of: "somebody" })]));
      refused(await store.apply([], [next(1)]), "version");
      ok(
        await store.apply(
          [],
          [{ kind: "note", id: "a", when: {}, put: put("last", { version: 9, of: "x" }) }],
        ),
      );
      refused(await store.apply([], [{ kind: "note", id: "b", when: {}, remove: true }]), "absent");
      return no;
    },
    async check(store, no) {
      assert.deepEqual(await store.documents.get("note", "a"), {
        no,
        kind: "note",
        id: "a",
        of: "x",
        version: 9,
        text: "last",
        body: null,
      });
    },
  }),

  define("PORT-8 the number of a document that was removed is not given again", {
    async act(store) {
      ok(await store.apply([], [made("note", "a"), made("note", "b")]));
      const old = (await store.documents.get("note", "b"))?.no ?? 0;
      refused(
        await store.apply([], [{ kind: "note", id: "b", when: { version: 2 }, remove: true }]),
        "version",
      );
      ok(await store.apply([], [{ kind: "note", id: "b", when: { version: 1 }, remove: true }]));
      assert.equal(await store.documents.get("note", "b"), undefined);
      ok(await store.apply([], [made("note", "b", { version: 7 })]));
      return old;
    },
    async check(store, old) {
      const b = await store.documents.get("note", "b");
      assert.equal(b?.version, 7);
      assert.ok((b?.no ?? 0) > old);
      assert.deepEqual(await ids(store, { kind: "note" }), ["b", "a"]);
    },
  }),

  define("PORT-1 documents and sessions change together, or not at all", {
    async act(store) {
      ok(
        await store.apply([begin("a", { agent: "x" })], [made("note", "a"), made("note", "gone")]),
      );
      refused(await store.apply([begin("b")], [made("note", "b"), made("note", "a")]), "exists", 2);
      refused(await store.apply([begin("a")], [made("note", "c")]), "exists");
      refused(
        await store.apply(
          [{ session: "a", when: {}, remove: true }],
          [
            { kind: "note", id: "gone", when: {}, remove: true },
            { kind: "note", id: "never", when: {}, remove: true },
          ],
        ),
        "absent",
        2,
      );
      ok(
        await store.apply(
          [begin("c"), begin("d")],
          [
            made("note", "d"),
            { kind: "note", id: "a", when: { version: 1 }, put: put("changed", { version: 2 }) },
            { kind: "note", id: "gone", when: {}, remove: true },
          ],
        ),
      );
      return undefined;
    },
    async check(store) {
      assert.deepEqual(
        (await store.sessions({ limit: 10 })).map(({ id }) => id),
        ["d", "c", "a"],
      );
      assert.deepEqual(await ids(store, { kind: "note" }), ["d", "a"]);
      assert.equal((await store.documents.get("note", "a"))?.text, "changed");
    },
  }),

  define("PORT-7 names of documents are compared byte by byte and never interpreted", {
    async act(store) {
      const names = [
        "a",
        "A",
        "a%",
        "../x",
        "..",
        "a'b",
        "__proto__",
        "é",
        "e\u0301",
        "con",
        "a/b",
        "*",
        "last",
      ];
      for (const id of names) ok(await store.apply([], [made("note", id, { of: id })]));
      return names;
    },
    async check(store, names) {
      for (const id of names) {
        assert.equal((await store.documents.get("note", id))?.text, `note ${id}`);
        assert.deepEqual(await ids(store, { kind: "note", of: id }), [id]);
      }
      assert.equal((await ids(store, { kind: "note" })).length, names.length);
      assert.equal(await store.documents.get("note", "constructor"), undefined);
    },
  }),

  define(
    "capture sees where an agent's sessions stand, the oldest first, and applies what is decided",
    {
      async act(store) {
        const fixtures = ["a", "b", "c"].map((id) => new Fixture(id, { agent: "x" }));
        for (const f of fixtures) ok(await store.apply([f.begin()]));
        ok(await store.apply([begin("other", { agent: "y" }), begin("nobody's")]));
        const [a, b] = fixtures as [Fixture, Fixture, Fixture];
        for (let i = 0; i < 3; i++) ok(await store.apply([a.save({ items: 1, mark: i < 2 })]));
        ok(await store.apply([b.save({ items: 2, state: 1 })]));
        let seen: readonly Present[] = [];
        const look = (sessions: readonly Present[]) => void (seen = sessions);
        ok(await store.documents.capture({ agent: "x", limit: 100, hold: true }, look));
        const stand = await Promise.all(
          ["a", "b", "c"].map(async (id) => {
            const { row, branch, end } = await store.session(id, "end");
            return { row, branch, end };
          }),
        );
        assert.deepEqual(seen, stand);
        ok(await store.documents.capture({ agent: "x", limit: 2, hold: false }, look));
        assert.deepEqual(seen, stand.slice(0, 2));
        ok(await store.documents.capture({ agent: "none", limit: 2, hold: false }, look));
        assert.deepEqual(seen, []);
        // What is decided is refused whole, like any other change.
        const head = {
          status: "completed",
          agent: "x",
          branch: a.branch,
          due: null,
          text: "changed",
        };
        const change = { session: "a", when: { epoch: 1 }, head };
        const query = { agent: "x", limit: 100, hold: true };
        const together = (when: { readonly epoch: number }) => () => ({
          changes: [{ ...change, when }],
          docs: [made("note", "n")],
        });
        refused(await store.documents.capture(query, together({ epoch: 2 })), "epoch");
        assert.equal(await store.documents.get("note", "n"), undefined);
        ok(await store.documents.capture(query, together({ epoch: 1 })));
        return undefined;
      },
      async check(store) {
        assert.equal((await store.session("a")).row?.head.text, "changed");
        assert.equal((await store.documents.get("note", "n"))?.text, "note n");
      },
    },
  ),

  defineWithReclaim("PORT-10 what a document pins is kept from those who did not know of it", {
    async act(store) {
      const f = new Fixture("a", { agent: "x" });
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 4; i++) ok(await store.apply([f.save({ items: 1, mark: i === 0 })]));
      const [, second] = f.saves as [Save, Save, Save, Save];
      const place = { branch: f.branch, seq: second.seq };
      // A branch begins at a checkpoint, or where something is pinned.
      refused(await store.apply([begin("fork", { forkPoint: place })]), "forkPoint");
      refused(
        await pinned(store, "x", made("snap", "s", { pins: [{ ...place, seq: 99 }] })),
        "forkPoint",
      );
      ok(await pinned(store, "x", made("snap", "s", { pins: [place] })));
      const { no } = (await store.documents.get("snap", "s")) as { no: number };
      assert.deepEqual(await store.documents.pins(f.branch), [{ seq: second.seq, doc: no }]);
      const bare = [{ save: { ...second, items: null }, refs: [], was: [second] }];
      assert.equal(
        await store.reclaim.replace(f.branch, bare, { ...anything, doc: no - 1 }),
        false,
      );
      assert.deepEqual(await store.saves(f.branch, all), f.saves);
      assert.equal(await store.reclaim.replace(f.branch, bare, { ...anything, doc: no }), true);
      ok(await store.apply([begin("fork", { forkPoint: place })]));
      // A later version of it pins what the first did.
      ok(
        await store.apply(
          [],
          [{ kind: "snap", id: "s", when: {}, put: put("later", { version: 2 }) }],
        ),
      );
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      ok(await store.apply([{ session: "fork", when: {}, remove: true }]));
      return { branch: f.branch, seq: second.seq, first: (f.saves[0] as Save).seq };
    },
    async check(store, { branch, seq, first }) {
      assert.deepEqual(
        (await store.documents.pins(branch)).map((pin) => pin.seq),
        [seq],
      );
      assert.ok((await store.reclaim.cut(branch, -1, 100, true)).count <= 2);
      await store.reclaim.cut(branch, -1, 100, false);
      assert.deepEqual(seqs(await store.saves(branch, all)), [first, seq]);
    },
  }),

  define(
    "PORT-8 PORT-10 a document that ends, and is made anew with the same apply, is another one, with pins of its own",
    {
      async act(store) {
        const f = new Fixture("a", { agent: "x" });
        ok(await store.apply([f.begin()]));
        for (let i = 0; i < 2; i++) ok(await store.apply([f.save({ items: 1, mark: true })]));
        const [one, two] = f.saves.map(({ branch, seq }) => ({ branch, seq })) as [Place, Place];
        for (const id of ["s", "t", "u"])
          ok(await pinned(store, "x", made("snap", id, { pins: [one] })));
        const old = await Promise.all(
          ["s", "t", "u"].map(async (id) => (await store.documents.get("snap", id))?.no as number),
        );
        const ends = { when: { version: 1 }, remove: true } as const;
        const anew = put("anew", { pins: [two] });
        ok(await pinned(store, "x", { kind: "snap", id: "s", ...ends, put: anew }));
        const both = [{ kind: "snap", id: "t", ...ends }, made("snap", "t", { ...anew })];
        ok(
          await store.documents.capture({ agent: "x", limit: 100, hold: false }, () => ({
            changes: [],
            docs: both,
          })),
        );
        // Refused behind that, all is as it was.
        const refusedOnce = [{ kind: "snap", id: "u", ...ends, put: anew }, made("snap", "t")];
        refused(
          await store.documents.capture({ agent: "x", limit: 100, hold: false }, () => ({
            changes: [],
            docs: refusedOnce,
          })),
          "exists",
          1,
        );
        return { branch: f.branch, old, one, two };
      },
      async check(store, { branch, old, one, two }) {
        const [s, t, u] = await Promise.all(
          ["s", "t", "u"].map((id) => store.documents.get("snap", id)),
        );
        assert.deepEqual([s?.text, t?.text, u?.text], ["anew", "anew", "snap u"]);
        assert.ok(Math.min(s?.no ?? 0, t?.no ?? 0) > Math.max(...old));
        assert.equal(u?.no, old[2]);
        const pins = (await store.documents.pins(branch)).toSorted((a, b) => a.doc - b.doc);
        const expected = [
          { seq: one.seq, doc: u?.no },
          { seq: two.seq, doc: s?.no },
          { seq: two.seq, doc: t?.no },
        ];
        assert.deepEqual(pins, expected);
      },
    },
  ),

  defineWithReclaim("PORT-10 what no document pins any more is free", {
    async act(store) {
      const f = new Fixture("a", { agent: "x" });
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 2; i++) ok(await store.apply([f.save({ items: 1 })]));
      const [one, two] = f.saves as [Save, Save];
      for (const [id, { seq }] of [["s", one] as const, ["t", two] as const])
        ok(await pinned(store, "x", made("snap", id, { pins: [{ branch: f.branch, seq }] })));
      ok(
        await store.apply(
          [{ session: "a", when: {}, remove: true }],
          [{ kind: "snap", id: "t", when: {}, remove: true }],
        ),
      );
      assert.equal((await store.reclaim.cut(f.branch, -1, 100, false)).count, 1);
      assert.deepEqual(seqs(await store.saves(f.branch, all)), [one.seq]);
      ok(await store.apply([], [{ kind: "snap", id: "s", when: {}, remove: true }]));
      assert.equal((await store.reclaim.cut(f.branch, -1, 100, false)).count, 1);
      return f.branch;
    },
    async check(store, branch) {
      assert.equal((await store.branches(oneBranch(branch)))[0], undefined);
      assert.deepEqual(await store.documents.pins(branch), []);
    },
  }),

  {
    name: "PORT-9 documents of another tenant are not there",
    needs: ["documents"],
    async run(make) {
      const harness = await make();
      const mine = await openHaving(harness, ["documents"], "acme");
      const theirs = await openHaving(harness, ["documents"]);
      try {
        const f = new Fixture("a", { agent: "x" });
        ok(await mine.apply([f.begin()]));
        ok(await mine.apply([f.save({ items: 1 })]));
        const change = made("snap", "s", { of: "x", pins: [{ branch: f.branch, seq: 1 }] });
        ok(await pinned(mine, "x", change));
        ok(
          await mine.apply(
            [],
            [
              made("agent", "x"),
              made("agent", "alone"),
              made("snapshot", "one"),
              made("snapshot", "two"),
            ],
          ),
        );
        ok(await mine.apply([], [{ kind: "snapshot", id: "one", when: {}, remove: true }]));
        assert.equal(await theirs.documents.get("snap", "s"), undefined);
        assert.deepEqual(await theirs.documents.list({ kind: "snap", limit: 10 }), []);
        assert.deepEqual(await theirs.documents.pins(f.branch), []);
        refused(
          await theirs.apply([], [{ kind: "snap", id: "s", when: {}, remove: true }]),
          "absent",
        );
        refused(await pinned(theirs, "x", change), "forkPoint");
        ok(
          await theirs.documents.capture({ agent: "x", limit: 10, hold: true }, (sessions) => {
            assert.deepEqual(sessions, []);
            return undefined;
          }),
        );
        ok(await theirs.apply([], [made("snap", "s")]));
        assert.equal((await mine.documents.get("snap", "s"))?.of, "x");
        // An agent counts, with sessions or without.
        assert.equal((await mine.info("counts")).counts?.agents, 2);
        assert.equal((await theirs.info("counts")).counts?.agents, 0);
        assert.deepEqual(
          [
            (await mine.info("counts")).counts?.snapshots,
            (await theirs.info("counts")).counts?.snapshots,
          ],
          [1, 0],
        );
      } finally {
        await mine.close();
        await theirs.close();
      }
    },
  },
];
