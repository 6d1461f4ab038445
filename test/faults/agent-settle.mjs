/** What a person does about a call of which nobody knows what became: says what became of it, by mail to its session. */
import { randomUUID } from "node:crypto";
import { mailText } from "../../dist/runtime/rows.js";

export const settle = (store, session, effect, as) =>
  store.post(session, { id: randomUUID(), text: mailText({ kind: "settle", effect, by: "a person", as }), due: 0 });
