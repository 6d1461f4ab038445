/**
 * Letters to a session, and nothing else: as `hold.effects` and `hold.sessions.signal` post them,
 * but for taking them in. Where one process writes a store, that is the one under test; and whoever
 * posts may be killed before it has taken in what it posted.
 */
import { randomUUID } from "node:crypto";
import { inboxText } from "../../../dist/engine/records/rows.js";

export const post = (store, session, doc, id = randomUUID()) =>
  store.inbox.post(session, { id, text: inboxText(doc), due: 0 });

/** What a person does about a call of which nobody knows what became: says what became of it. */
export const settle = (store, session, effectId, asked, as) =>
  post(store, session, { kind: "settle", effectId, asked, by: "a person", as });
