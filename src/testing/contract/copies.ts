/** Which life of a store this is: what it says of that stays said. */
import assert from "node:assert/strict";
import { type ContractCase, defineFor, ok } from "./case.js";
import { begin } from "./fixture.js";

const define = defineFor("copies");

export const copies: readonly ContractCase[] = [
  define(
    "a store that was never put back has no generation; each that begins has a name of its own, and keeps it",
    {
      async act(store) {
        assert.equal(await store.copies.generation(), "");
        const first = await store.copies.begin();
        assert.equal(await store.copies.generation(), first);
        const second = await store.copies.begin();
        assert.notEqual(first, "");
        assert.notEqual(second, first);
        ok(await store.apply([begin("a")]));
        return second;
      },
      async check(store, name) {
        assert.equal(await store.copies.generation(), name);
        assert.notEqual((await store.session("a")).row, undefined);
      },
    },
  ),
];
