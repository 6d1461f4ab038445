/**
 * The contract of a store, as cases that any test runner can loop over:
 *
 *     for (const { name, run } of storeContract) test(name, () => run(harness));
 *
 * A case acts on a fresh store and checks what it finds; where the store says it is durable, it is then closed, opened again, and
 * checked once more. Where it says it is not, it must be empty instead. Names begin with the invariants of the port they test (P1 …).
 */
import assert from "node:assert/strict";
import { HoldfastError } from "../core/errors.js";
import type { Save } from "../core/save.js";
import type { Applied, Change, Refusal, Replacement, Store, Traits } from "../store/port.js";
import { begin, bytesOf, digestOf, Fixture, freed, lineOf } from "./fixture.js";

export interface StoreHarness {
  readonly traits: Traits;
  /** Opens the store. The first call finds it empty; a later one finds what a durable store was given before. */
  open(): Promise<Store>;
}

export interface ContractCase {
  readonly name: string;
  /** `make` gives a harness on a place of its own at every call. */
  readonly run: (make: () => StoreHarness | Promise<StoreHarness>) => Promise<void>;
}

interface Case<F> {
  readonly act: (store: Store) => Promise<F>;
  readonly check: (store: Store, facts: F) => Promise<void>;
}

function define<F>(name: string, { act, check }: Case<F>): ContractCase {
  return {
    name,
    async run(make) {
      const harness = await make();
      const store = await harness.open();
      let facts: F;
      try {
        assert.deepEqual(store.traits, harness.traits, "the store's traits are those of its harness");
        facts = await act(store);
        await check(store, facts);
      } finally {
        await store.close();
      }
      const again = await harness.open();
      try {
        if (harness.traits.durable) await check(again, facts);
        else assert.equal((await again.counts()).sessions, 0, "a store that is not durable is empty when opened again");
      } finally {
        await again.close();
      }
    },
  };
}

const ok = (applied: Applied, message?: string): void => assert.equal(applied.ok, true, message);

function refused(applied: Applied, why: Refusal, change = 0): void {
  assert.deepEqual(applied, { ok: false, change, why });
}

const all = { from: 1, to: 2 ** 32 - 1, limit: 10_000, items: true, state: true } as const;
const seqs = (saves: readonly Save[]): number[] => saves.map(({ seq }) => seq);

export const storeContract: readonly ContractCase[] = [
  define("P2 a session that was made is there, whole", {
    async act(store) {
      const made = begin("a", { agent: "scribe", status: "waiting", tags: ["x", "y"], archived: true });
      ok(await store.apply([made]));
      return made;
    },
    async check(store, made) {
      const row = await store.session("a");
      assert.deepEqual(row && { id: row.id, head: row.head, label: row.label, lease: row.lease }, {
        id: "a",
        head: made.head,
        label: made.label,
        lease: made.lease,
      });
      assert.deepEqual(await store.line(made.line.id), { ...made.line, no: 1, owned: true, session: "a" });
      assert.equal(await store.session("b"), undefined);
      assert.equal(await store.line("0000000000000000"), undefined);
    },
  }),

  define("P2 saves are there, section by section", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 5; i++) ok(await store.apply([f.save({ items: 2, state: i % 2, mark: i !== 3 })]));
      return f.saves;
    },
    async check(store, saves) {
      const line = lineOf(saves);
      assert.deepEqual(await store.saves(line, all), saves);
      const headers = await store.saves(line, { ...all, items: false, state: false });
      assert.deepEqual(
        headers,
        saves.map((save) => ({ ...save, items: null, state: null })),
      );
      const items = await store.saves(line, { ...all, state: false });
      assert.deepEqual(
        items.map(({ items: text, state }) => [text, state]),
        saves.map(({ items: text }) => [text, null]),
      );
      const state = await store.saves(line, { ...all, items: false });
      assert.deepEqual(
        state.map(({ items: text, state: kept }) => [text, kept]),
        saves.map(({ state: kept }) => [null, kept]),
      );
    },
  }),

  define("a session, the line it is on and that line's last save are had in one look", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const bare = await store.present("a");
      assert.equal(bare?.end, undefined);
      assert.equal(bare?.line?.id, f.line);
      for (let i = 0; i < 3; i++) ok(await store.apply([f.save({ items: 2, state: 1, mark: true })]));
      // It goes to a line that begins at the first save, and back to the one it was on.
      const other = f.fork("a", (f.saves[0] as Save).seq);
      const head = { status: "in-progress", agent: null, text: "on another line" };
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, line: other, head: { ...head, line: other.id } }]));
      const moved = await store.present("a");
      assert.deepEqual([moved?.session.head.line, moved?.line?.id, moved?.end], [other.id, other.id, undefined]);
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, head: { ...head, line: f.line } }]));
      return f.saves;
    },
    async check(store, saves) {
      const last = saves.at(-1) as Save;
      assert.deepEqual(await store.present("a"), {
        session: await store.session("a"),
        line: await store.line(last.line),
        end: { ...last, items: null, state: null },
      });
      assert.equal(await store.present("b"), undefined);
    },
  }),

  define("P5 ranges give the saves that hold any of their records, in either order, up to a limit", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      // Saves end at 3, 6, 9, …
      for (let i = 0; i < 10; i++) ok(await store.apply([f.save({ items: 2, state: 0, mark: true })]));
      return lineOf(f.saves);
    },
    async check(store, line) {
      const ask = async (from: number, to: number, more: object = {}) => seqs(await store.saves(line, { ...all, from, to, ...more }));
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
  }),

  define("P1 every condition is checked, and a refusal changes nothing", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin({ epoch: 5, until: 1_000, version: 3 })]));
      ok(await store.apply([f.save({ items: 1, state: 0, mark: false }, 5)]));
      const before = await snapshot(store);
      refused(await store.apply([begin("a")]), "exists");
      refused(await store.apply([{ session: "nobody", when: {}, head: begin("nobody").head }]), "absent");
      refused(await store.apply([f.peek({ items: 1 }, 4)]), "epoch");
      refused(await store.apply([f.peek({ items: 1 }, 6)]), "epoch");
      refused(await store.apply([{ session: "a", when: { epoch: 4 }, lease: { epoch: 9, until: 9, text: "x" } }]), "epoch");
      refused(await store.apply([{ session: "a", when: { epoch: 5, until: 999 }, lease: { epoch: 6, until: 9, text: "x" } }]), "until");
      refused(await store.apply([{ session: "a", when: { version: 2 }, label: { ...begin("a").label, version: 4 } }]), "version");
      // No mark there: a fork cannot begin at it.
      refused(await store.apply([begin("b", { origin: { line: f.line, seq: 1 } })]), "origin");
      refused(await store.apply([begin("b", { origin: { line: f.line, seq: 2 } })]), "origin");
      refused(await store.apply([begin("b", { origin: { line: "0000000000000000" as never, seq: 1 } })]), "origin");
      assert.deepEqual(await snapshot(store), before);
      return before;
    },
    async check(store, before) {
      assert.deepEqual(await snapshot(store), before);
    },
  }),

  define("P1 a save must follow the end of its line", {
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
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("P1 changes applied together stand or fall together", {
    async act(store) {
      const a = new Fixture("a");
      const b = new Fixture("b");
      ok(await store.apply([a.begin(), b.begin()]));
      refused(await store.apply([a.peek({ items: 1, blob: "kept?" }), b.peek({ items: 1 }, 7)]), "epoch", 1);
      refused(await store.apply([begin("c"), a.peek({ items: 1 }, 7)]), "epoch", 1);
      refused(
        await store.apply([{ ...a.peek({ items: 1 }), head: { status: "failed", agent: null, line: a.line, text: "x" } }, begin("b")]),
        "exists",
        1,
      );
      assert.equal(await store.session("c"), undefined);
      assert.equal(await store.blob(digestOf("kept?")), undefined);
      ok(await store.apply([a.save({ items: 1 }), b.save({ items: 2 })]));
      return { a: a.saves, b: b.saves };
    },
    async check(store, { a, b }) {
      assert.deepEqual(await store.saves(lineOf(a), all), a);
      assert.deepEqual(await store.saves(lineOf(b), all), b);
      assert.equal((await store.session("a"))?.head.status, "in-progress");
      assert.equal((await store.counts()).sessions, 2);
    },
  }),

  define("P3 a save that came with a head, or was pruned to a gap since, is known; one in its place is not taken for it", {
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
      assert.equal(await store.replace(f.line, [{ save: emptied, refs: [], was: [f.saves[1] as Save] }], 99), true);
      ok(await store.apply([first]), "pruned");
      return f.saves.with(1, emptied);
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("P3 a save that is there already is ok again, and is there once", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const first = f.save({ items: 1, mark: true });
      ok(await store.apply([first]));
      const astray = f.peek({ items: 3, text: "follows what was the end" });
      ok(await store.apply([first]), "at the end of the line");
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
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("P4 applies of one tick succeed and fail apart", {
    async act(store) {
      const fixtures = Array.from({ length: 20 }, (_, i) => new Fixture(`s${i}`));
      for (const f of fixtures) ok(await store.apply([f.begin()]));
      const answers = await Promise.all(
        fixtures.map((f, i) =>
          store.apply([i % 3 === 0 ? f.peek({ items: 1 }, 9) : f.save({ items: 1, ...(i % 3 === 1 ? { blob: `blob ${i}` } : {}) })]),
        ),
      );
      answers.forEach((answer, i) => (i % 3 === 0 ? refused(answer, "epoch") : ok(answer)));
      return fixtures.map((f) => ({ line: f.line, saves: f.saves }));
    },
    async check(store, fixtures) {
      for (const { line, saves } of fixtures) assert.deepEqual(await store.saves(line, all), saves);
    },
  }),

  define("P4 applies of one session in one tick keep their order", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      const changes = Array.from({ length: 30 }, () => f.save({ items: 1, mark: true }));
      for (const answer of await Promise.all(changes.map((change) => store.apply([change])))) ok(answer);
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(seqs(await store.saves(lineOf(saves), all)), seqs(saves));
    },
  }),

  define("P6 what is passed in and handed out is nobody's to change", {
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

  define("P7 ids and texts are compared byte by byte and never interpreted", {
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
        assert.equal((await store.session(id))?.id, id);
        assert.deepEqual(
          (await store.sessions({ agent: id, limit: 100 })).map((row) => row.id),
          [id],
        );
        assert.deepEqual(
          (await store.sessions({ tag: id, limit: 100 })).map((row) => row.id),
          [id],
        );
        assert.deepEqual(
          (await store.lines({ session: id })).map((row) => row.session),
          [id],
        );
      }
      for (const id of ["", "%", "b", "a%%", "toString"]) assert.equal(await store.session(id), undefined);
      assert.equal((await store.sessions({ limit: 100 })).length, ids.length);
    },
  }),

  define("P8 sessions are listed newest first, by filters and pages", {
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
      const ask = async (query: object) => (await store.sessions({ limit: 100, ...query })).map((row) => row.id);
      assert.deepEqual(await ask({}), ["s11", "s10", "s9", "s8", "s7", "s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
      assert.deepEqual(await ask({ agent: "odd" }), ["s11", "s9", "s7", "s5", "s3", "s1"]);
      assert.deepEqual(await ask({ agent: "odd", status: "completed" }), ["s9", "s3"]);
      assert.deepEqual(await ask({ tag: "four" }), ["s8", "s4", "s0"]);
      assert.deepEqual(await ask({ tag: "four", status: "completed", agent: "even" }), ["s0"]);
      assert.deepEqual(await ask({ archived: true }), ["s11", "s10", "s9"]);
      assert.deepEqual(await ask({ archived: false, agent: "even" }), ["s8", "s6", "s4", "s2", "s0"]);
      const first = await store.sessions({ limit: 5 });
      assert.deepEqual(await ask({ before: first.at(-1)?.no, limit: 3 }), ["s6", "s5", "s4"]);
      assert.deepEqual(await ask({ tag: "four", before: (await store.session("s8"))?.no, limit: 1 }), ["s4"]);
    },
  }),

  define("P8 no number is used twice, and the epoch of a deleted session is kept", {
    async act(store) {
      const old = new Fixture("a");
      ok(await store.apply([old.begin({ epoch: 7 })]));
      ok(await store.apply([old.save({ items: 1, mark: true }, 7)]));
      const { no } = (await store.session("a")) as { no: number };
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      assert.equal(await store.session("a"), undefined);
      assert.equal(await store.buriedEpoch("a"), 7);
      assert.equal(await store.buriedEpoch("b"), 0);
      refused(await store.apply([old.peek({ items: 1 }, 7)]), "absent");
      const stale = begin("a");
      refused(await store.apply([{ ...stale, when: { absent: true, buried: 0 } }]), "epoch");
      const young = new Fixture("a");
      ok(await store.apply([{ ...young.begin({ epoch: 8 }), when: { absent: true, buried: 7 } }]));
      refused(await store.apply([old.peek({ items: 1 }, 7)]), "epoch");
      return { no, old: old.line, young: young.line };
    },
    async check(store, { no, old, young }) {
      assert.ok(((await store.session("a")) as { no: number }).no > no);
      assert.deepEqual([(await store.line(old))?.owned, (await store.line(old))?.session], [false, null]);
      assert.deepEqual(
        (await store.lines({ session: "a" })).map(({ id }) => id),
        [young],
      );
    },
  }),

  define("P8 lines are listed newest first, by session and by origin", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      ok(await store.apply([f.save({ items: 1, mark: true })]));
      const rewound = f.fork("a", 2);
      const forked = begin("b", { origin: { line: f.line, seq: 4 } });
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, line: rewound }]));
      ok(await store.apply([forked]));
      return { first: f.line, rewound: rewound.id, forked: forked.line.id };
    },
    async check(store, { first, rewound, forked }) {
      assert.deepEqual(
        (await store.lines({ session: "a" })).map(({ id }) => id),
        [rewound, first],
      );
      assert.deepEqual(
        (await store.lines({ origin: first })).map(({ id }) => id),
        [forked, rewound],
      );
      assert.deepEqual(
        (await store.lines({ all: true })).map(({ id }) => id),
        [forked, rewound, first],
      );
      assert.deepEqual((await store.line(rewound))?.origin, { line: first, seq: 2 });
      const numbers = (await store.lines({ all: true })).map(({ no }) => no);
      assert.deepEqual(
        numbers,
        numbers.toSorted((a, b) => b - a),
      );
    },
  }),

  define("P1 a fork's line goes on from the number it began at", {
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
      assert.deepEqual(seqs(await store.saves(lineOf(a), all)), [4, 6]);
      assert.deepEqual(seqs(await store.saves(lineOf(b), all)), [6]);
    },
  }),

  define("the holder's head, a lease and a label change apart from each other", {
    async act(store) {
      const made = begin("a", { tags: ["old"] });
      ok(await store.apply([made]));
      const head = { status: "completed", agent: "x", line: made.line.id, text: "head 2" };
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, head }]));
      ok(
        await store.apply([
          { session: "a", when: { version: 1 }, label: { version: 2, archived: true, tags: ["new", "newer"], text: "label 2" } },
        ]),
      );
      ok(await store.apply([{ session: "a", when: { epoch: 1, until: 0 }, lease: { epoch: 2, until: 77, text: "lease 2" } }]));
      return head;
    },
    async check(store, head) {
      const row = await store.session("a");
      assert.deepEqual(row?.head, head);
      assert.deepEqual(row?.label, { version: 2, archived: true, tags: ["new", "newer"], text: "label 2" });
      assert.deepEqual(row?.lease, { epoch: 2, until: 77, text: "lease 2" });
      assert.equal((await store.sessions({ tag: "old", limit: 10 })).length, 0);
      assert.equal((await store.sessions({ tag: "newer", limit: 10 })).length, 1);
      assert.equal((await store.sessions({ status: "completed", agent: "x", archived: true, limit: 10 })).length, 1);
    },
  }),

  define("replace puts saves in the place of those with the same records", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 4; i++) ok(await store.apply([f.save({ items: 1, mark: true, blob: `body ${i}` })]));
      const gap = f.gapOf(0, 1);
      const bare = { ...(f.saves[2] as Save), items: null };
      const [one, two, three] = f.saves as [Save, Save, Save];
      const better = [
        { save: gap, refs: [], was: [one, two] },
        { save: bare, refs: [], was: [three] },
      ];
      // Not what is there: refused whole.
      assert.equal(
        await store.replace(f.line, [better[0] as Replacement, { save: bare, refs: [], was: [{ ...three, mark: null }] }], 99),
        false,
      );
      assert.equal(await store.replace(f.line, [{ save: gap, refs: [], was: [one] }], 99), false);
      assert.deepEqual(await store.saves(f.line, all), f.saves);
      assert.equal(await store.replace(f.line, better, 99), true);
      assert.deepEqual(await store.sweep(100, true), freed(["body 0", "body 1", "body 2"]));
      assert.deepEqual(await store.sweep(2, false), freed(["body 0", "body 1"]));
      assert.deepEqual(await store.sweep(100, false), freed(["body 2"]));
      return { line: f.line, saves: [gap, bare, f.saves[3] as Save] };
    },
    async check(store, { line, saves }) {
      assert.deepEqual(await store.saves(line, all), saves);
      assert.deepEqual(await store.sweep(100, true), { count: 0, bytes: 0 });
      assert.equal(await store.blob(digestOf("body 0")), undefined);
      assert.notEqual(await store.blob(digestOf("body 3")), undefined);
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
      assert.equal(await store.replace(f.line, [{ save: bare, refs: [], was: [f.saves[0] as Save] }], known), false);
      return f.saves;
    },
    async check(store, saves) {
      assert.deepEqual(await store.saves(lineOf(saves), all), saves);
    },
  }),

  define("cut frees ownerless lines, and never what a fork needs", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      for (let i = 0; i < 5; i++) ok(await store.apply([f.save({ items: 1, mark: true, blob: `body ${i}` })]));
      const b = f.forked("b", 4);
      ok(await store.apply([b.begin()]));
      assert.deepEqual(await store.cut(f.line, -1, 100, false), { count: 0, bytes: 0 }, "an owned line is not cut");
      ok(await store.apply([{ session: "a", when: {}, remove: true }]));
      const would = await store.cut(f.line, 4, 100, true);
      assert.equal(would.count, 3);
      assert.equal((await store.cut(f.line, 4, 2, false)).count, 2);
      assert.equal((await store.cut(f.line, -1, 100, false)).count, 1, "the fork's part stays, whatever is asked");
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

  define("the inbox is idempotent by id, keeps its order, and needs no lease", {
    async act(store) {
      ok(await store.apply([begin("a"), begin("b")]));
      assert.equal(await store.post("nobody", { id: "1", text: "x" }), "absent");
      for (const id of ["z", "m", "a"]) assert.equal(await store.post("a", { id, text: `to a: ${id}` }), "posted");
      assert.equal(await store.post("b", { id: "z", text: "to b" }), "posted");
      assert.equal(await store.post("a", { id: "m", text: "to a: m" }), "known");
      assert.equal(await store.post("a", { id: "m", text: "something else" }), "conflict");
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, drained: ["z", "unheard of"] }]));
      assert.equal(await store.post("a", { id: "z", text: "to a: z" }), "known", "also once it was taken in");
      return undefined;
    },
    async check(store) {
      assert.deepEqual(await store.inbox("a", 10), [
        { id: "m", text: "to a: m" },
        { id: "a", text: "to a: a" },
      ]);
      assert.deepEqual(await store.inbox("a", 1), [{ id: "m", text: "to a: m" }]);
      assert.deepEqual(await store.inbox("b", 10), [{ id: "z", text: "to b" }]);
      assert.deepEqual(await store.inbox("nobody", 10), []);
    },
  }),

  define("counts are counted", {
    async act(store) {
      const f = new Fixture("a", { agent: "x" });
      ok(await store.apply([f.begin(), begin("b", { agent: "x" }), begin("c", { agent: "y" }), begin("d")]));
      for (let i = 0; i < 3; i++) ok(await store.apply([f.save({ items: 2, state: 1, mark: i > 0, blob: i === 0 ? "0123456789" : "" })]));
      const text = f.saves.reduce(
        (sum, { items, state, mark }) => sum + [items, state, mark].reduce((n, part) => n + Buffer.byteLength(part ?? ""), 0),
        0,
      );
      return { agents: 2, sessions: 4, checkpoints: 2, messages: 6, sizeBytes: text + 10 };
    },
    async check(store, counts) {
      assert.deepEqual(await store.counts(), counts);
    },
  }),

  define("long texts and many saves", {
    async act(store) {
      const f = new Fixture("a");
      ok(await store.apply([f.begin()]));
      ok(await store.apply([f.save({ items: 1, text: "é𝔘\u0000\n".repeat(100_000) })]));
      for (let i = 0; i < 300; i++) ok(await store.apply([f.save({ items: 3, state: 1, mark: true })]));
      return f.saves;
    },
    async check(store, saves) {
      const found: Save[] = [];
      for (let from = 1; ; ) {
        const page = await store.saves(lineOf(saves), { ...all, from, limit: 100 });
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
      assert.equal(typeof (await store.compact()), "number");
      assert.equal((await store.session("a"))?.id, "a");
    },
  }),

  {
    name: "a closed store says so, and closing twice is no harm",
    async run(make) {
      const store = await (await make()).open();
      const change: Change = begin("a");
      await store.close();
      await store.close();
      for (const call of [
        () => store.apply([change]),
        () => store.session("a"),
        () => store.sessions({ limit: 1 }),
        () => store.saves(change.line?.id as never, all),
        () => store.inbox("a", 1),
        () => store.counts(),
      ]) {
        await assert.rejects(call, (error: unknown) => error instanceof HoldfastError && error.code === "CLOSED");
      }
    },
  },
];

/** Everything a store shows, to compare it before and after. */
async function snapshot(store: Store): Promise<unknown> {
  const lines = await store.lines({ all: true });
  return {
    sessions: await store.sessions({ limit: 1_000 }),
    lines,
    saves: await Promise.all(lines.map(({ id }) => store.saves(id, all))),
    counts: await store.counts(),
  };
}
