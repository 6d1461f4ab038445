/**
 * What is needed to take a text out of a store: other saves with bodies of their own, other words
 * in mail, and nothing left beside them.
 */
import assert from "node:assert/strict";
import { rewrite } from "../../core/journal/rewrite-save.js";
import type { Save } from "../../core/journal/save.js";
import { digest } from "../../core/values/digest.js";
import { all, anything, type ContractCase, define, ok } from "./case.js";
import { digestOf, Fixture, freed } from "./fixture.js";

const salt = () => "fedcba9876543210";
const now = { dueBy: 0, limit: 10 };

export const rewording: readonly ContractCase[] = [
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
        assert.equal(await store.replace(f.line, replacements, anything), true);
        assert.deepEqual(await store.sweep(100, false), freed(["old"]));
        // What is there is not what was read before: the note tells.
        assert.equal(await store.replace(f.line, replacements, anything), false);
        const again = better.map((save) =>
          rewrite(save, { state: ['{"set":"k0","value":null}'], salt }),
        );
        const second = again.map((save, i) => ({
          save,
          refs: [digestOf("new")],
          was: [better[i] as Save],
        }));
        assert.equal(await store.replace(f.line, second, anything), true);
        return { line: f.line, saves: [...again, f.saves[2] as Save] };
      },
      async check(store, { line, saves }) {
        assert.deepEqual(await store.saves(line, all), saves);
        assert.equal(Buffer.from((await store.blob(digestOf("new"))) ?? []).toString(), "new");
        assert.equal(await store.blob(digestOf("old")), undefined);
        assert.notEqual(await store.blob(digestOf("shared")), undefined);
        assert.deepEqual(await store.sweep(100, true), { count: 0, bytes: 0 });
      },
    },
  ),

  define(
    "mail that waits can be reworded; mail that was taken in is known by its id, and can be forgotten",
    {
      async act(store) {
        const post = (id: string, text: string) => store.post("a", { id, text, due: 0 });
        ok(await store.apply([new Fixture("a").begin(), new Fixture("b").begin()]));
        for (const id of ["one", "two", "three"])
          assert.equal(await post(id, `says ${id}`), "posted");
        assert.equal(await store.post("b", { id: "two", text: "says two", due: 0 }), "posted");
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
        assert.deepEqual(await store.inbox("a", now), [
          { id: "two", text: "…", due: 0 },
          { id: "three", text: "says three", due: 0 },
        ]);
        assert.deepEqual(await store.inbox("b", now), [{ id: "two", text: "says two", due: 0 }]);
        assert.equal(
          await store.post("a", { id: "one", text: "something else", due: 0 }),
          "known",
          "whatever it says",
        );
        assert.equal(await store.post("a", { id: "two", text: "…", due: 0 }), "known");
        assert.equal(
          await store.post("a", { id: "three", text: "something else", due: 0 }),
          "conflict",
        );
      },
    },
  ),

  define("scrub leaves everything as it is", {
    async act(store) {
      const f = new Fixture("a", { tags: ["x"] });
      ok(await store.apply([f.begin()]));
      for (const blob of ["one", "two"])
        ok(await store.apply([f.save({ items: 2, mark: true, blob })]));
      await store.post("a", { id: "m", text: "letter", due: 0 });
      const [first] = f.saves as [Save];
      assert.equal(
        await store.replace(
          f.line,
          [{ save: { ...first, items: null }, refs: [], was: [first] }],
          anything,
        ),
        true,
      );
      const { left } = await store.scrub(() => true);
      assert.ok(Array.isArray(left));
      ok(await store.apply([f.save({ items: 1 })]));
      return { line: f.line, saves: [{ ...first, items: null }, ...f.saves.slice(1)] };
    },
    async check(store, { line, saves }) {
      assert.deepEqual(await store.saves(line, all), saves);
      assert.deepEqual(await store.inbox("a", now), [{ id: "m", text: "letter", due: 0 }]);
      assert.deepEqual(
        (await store.sessions({ tag: "x", limit: 5 })).map(({ id }) => id),
        ["a"],
      );
      assert.notEqual(await store.blob(digestOf("two")), undefined);
    },
  }),
];
