/**
 * What a person does about a call of which nobody knows what became: says what became of it, by mail to its session. As
 * `hold.effects.settle` does, but for taking the letter in: where one process writes a store, that is the one under test.
 */
import { randomUUID } from "node:crypto";
import { mailText } from "../../dist/runtime/rows.js";

export const settle = (store, session, effect, attempt, as) =>
  store.post(session, { id: randomUUID(), text: mailText({ kind: "settle", effect, attempt, by: "a person", as }), due: 0 });
