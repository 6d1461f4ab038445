/** Messages for a session: posted, found, taken in, and reworded. */
import assert from "node:assert/strict";
import { MAX_IDS } from "../../store/port/inbox.js";
import { type ContractCase, defineFor, ok } from "./case.js";
import { begin, Fixture } from "./fixture.js";

const now = { dueBy: 0, limit: 10 };

const define = defineFor("inbox");

export const inbox: readonly ContractCase[] = [
  define("the inbox is idempotent by id, keeps its order, and needs no lease", {
    async act(store) {
      ok(await store.apply([begin("a"), begin("b")]));
      const post = (session: string, id: string, text: string) =>
        store.inbox.post(session, { id, text, due: 0 });
      assert.equal(await post("nobody", "1", "x"), "absent");
      for (const id of ["z", "m", "a"]) assert.equal(await post("a", id, `to a: ${id}`), "posted");
      assert.equal(await post("b", "z", "to b"), "posted");
      assert.equal(await post("a", "m", "to a: m"), "known");
      assert.equal(await post("a", "m", "something else"), "conflict");
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, drained: ["z", "unheard of"] }]));
      assert.equal(await post("a", "z", "to a: z"), "known", "also once it was taken in");
      return undefined;
    },
    async check(store) {
      const m = { id: "m", text: "to a: m", due: 0 };
      assert.deepEqual(await store.inbox.list("a", { dueBy: 0, limit: 10 }), [
        m,
        { id: "a", text: "to a: a", due: 0 },
      ]);
      assert.deepEqual(await store.inbox.list("a", { dueBy: 0, limit: 1 }), [m]);
      assert.deepEqual(await store.inbox.list("b", { dueBy: 0, limit: 10 }), [
        { id: "z", text: "to b", due: 0 },
      ]);
      assert.deepEqual(await store.inbox.list("nobody", { dueBy: 0, limit: 10 }), []);
    },
  }),

  define("mail is found by its id, whenever it is due, as long as it waits", {
    async act(store) {
      ok(await store.apply([begin("a"), begin("b")]));
      for (const [i, id] of ["Z", "m", "a", "z"].entries())
        assert.equal(await store.inbox.post("a", { id, text: `says ${id}`, due: 7 - i }), "posted");
      assert.equal(await store.inbox.post("b", { id: "m", text: "to b", due: 0 }), "posted");
      ok(await store.apply([{ session: "a", when: { epoch: 1 }, drained: ["a"] }]));
      return undefined;
    },
    async check(store) {
      const found = [
        { id: "Z", text: "says Z", due: 7 },
        { id: "m", text: "says m", due: 6 },
      ];
      assert.deepEqual(
        await store.inbox.list("a", { ids: ["m", "a", "unheard of", "Z"] }),
        found,
        "in the order in which they were posted",
      );
      assert.deepEqual(await store.inbox.list("a", { ids: ["m", "Z", "m"] }), found, "once each");
      assert.deepEqual(await store.inbox.list("b", { ids: ["Z", "m"] }), [
        { id: "m", text: "to b", due: 0 },
      ]);
      assert.deepEqual(await store.inbox.list("a", { ids: [] }), []);
      assert.deepEqual(await store.inbox.list("nobody", { ids: ["m"] }), []);
      const most = Array.from({ length: MAX_IDS - 1 }, (_, i) => `no ${i}`);
      assert.equal((await store.inbox.list("a", { ids: [...most, "m"] })).length, 1);
    },
  }),

  define(
    "mail for later waits until it is due, and then comes in the order in which it was posted",
    {
      async act(store) {
        ok(await store.apply([begin("a")]));
        const dues = { one: 300, two: 0, three: 200, four: 100 };
        for (const [id, due] of Object.entries(dues))
          assert.equal(await store.inbox.post("a", { id, text: id, due }), "posted");
        assert.equal(
          await store.inbox.post("a", { id: "one", text: "one", due: 5 }),
          "known",
          "by id and text",
        );
        return undefined;
      },
      async check(store) {
        const due = async (dueBy: number, limit = 10) =>
          (await store.inbox.list("a", { dueBy, limit })).map(({ id }) => id);
        assert.deepEqual(await due(0), ["two"]);
        assert.deepEqual(await due(199), ["two", "four"]);
        assert.deepEqual(await due(200), ["two", "three", "four"]);
        assert.deepEqual(await due(Number.MAX_SAFE_INTEGER, 2), ["one", "two"]);
        assert.equal(
          (await store.inbox.list("a", { dueBy: 300, limit: 1 }))[0]?.due,
          300,
          "it stays as it was posted first",
        );
      },
    },
  ),

  define(
    "mail that waits can be reworded; mail that was taken in is known by its id, and can be forgotten",
    {
      async act(store) {
        const post = (id: string, text: string) => store.inbox.post("a", { id, text, due: 0 });
        ok(await store.apply([new Fixture("a").begin(), new Fixture("b").begin()]));
        for (const id of ["one", "two", "three"])
          assert.equal(await post(id, `says ${id}`), "posted");
        assert.equal(
          await store.inbox.post("b", { id: "two", text: "says two", due: 0 }),
          "posted",
        );
        ok(await store.apply([{ session: "a", when: { epoch: 1 }, drained: ["one"] }]));
        assert.equal(await post("one", "says one"), "known");
        assert.equal(await post("one", "something else"), "conflict");
        // Refused whole.
        const refused = await store.apply([
          { session: "a", when: { epoch: 7 }, reworded: [{ id: "two", text: "…" }], forgets: true },
        ]);
        assert.equal(refused.ok, false);
        assert.equal(await post("one", "something else"), "conflict");
        const reworded = [
          { id: "one", text: "never" },
          { id: "two", text: "…" },
          { id: "unheard of", text: "never" },
        ];
        ok(await store.apply([{ session: "a", when: { epoch: 1 }, reworded }]));
        assert.equal(await post("one", "says one"), "known", "what was taken in is not reworded");
        ok(await store.apply([{ session: "a", when: { epoch: 1 }, forgets: true }]));
        return undefined;
      },
      async check(store) {
        assert.deepEqual(await store.inbox.list("a", now), [
          { id: "two", text: "…", due: 0 },
          { id: "three", text: "says three", due: 0 },
        ]);
        assert.deepEqual(await store.inbox.list("b", now), [
          { id: "two", text: "says two", due: 0 },
        ]);
        assert.equal(
          await store.inbox.post("a", { id: "one", text: "something else", due: 0 }),
          "known",
          "whatever it says",
        );
        assert.equal(await store.inbox.post("a", { id: "two", text: "…", due: 0 }), "known");
        assert.equal(
          await store.inbox.post("a", { id: "three", text: "something else", due: 0 }),
          "conflict",
        );
      },
    },
  ),
];
