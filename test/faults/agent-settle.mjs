/** What a person does about a call of which nobody knows what became: says what became of it. */
import { Holdfast } from "../../dist/runtime/holdfast.js";
import { thisMachine } from "../../dist/store/machine.js";

export const settle = (store, effect, as) =>
  new Holdfast(store, thisMachine(), { now: Date.now }, 30_000).effects.settle(effect, { ...as, by: "a person" });
