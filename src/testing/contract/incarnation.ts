/** Which life of a store this is: what it says of that stays said. */
import assert from "node:assert/strict";
import { type ContractCase, define, ok } from "./case.js";
import { begin } from "./fixture.js";

export const incarnation: readonly ContractCase[] = [
  define(
    "a store that was never put back has no incarnation; each that begins has a name of its own, and keeps it",
    {
      async act(store) {
        assert.equal(await store.incarnation(), "");
        const first = await store.beginIncarnation();
        assert.equal(await store.incarnation(), first);
        const second = await store.beginIncarnation();
        assert.notEqual(first, "");
        assert.notEqual(second, first);
        ok(await store.apply([begin("a")]));
        return second;
      },
      async check(store, name) {
        assert.equal(await store.incarnation(), name);
        assert.notEqual(await store.session("a"), undefined);
      },
    },
  ),
];
