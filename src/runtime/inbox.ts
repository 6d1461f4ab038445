/** Mail to a session from those who do not hold it. Idempotent by id; the holder takes it in between its steps. */
import { randomUUID } from "node:crypto";
import { HoldfastError, quote } from "../core/errors.js";
import type { SessionId } from "../core/ids.js";
import type { Store } from "../store/port.js";
import { type MailDoc, mailOf, mailText } from "./rows.js";

const AT_ONCE = 100;

export async function readMail(store: Store, session: SessionId): Promise<readonly { readonly id: string; readonly doc: MailDoc }[]> {
  return (await store.inbox(session, AT_ONCE)).map(({ id, text }) => ({ id, doc: mailOf(text, session) }));
}

export async function postMail(store: Store, session: SessionId, doc: MailDoc): Promise<void> {
  const posted = await store.post(session, { id: randomUUID(), text: mailText(doc) });
  if (posted === "absent") throw noSession(session);
}

export function noSession(id: string): HoldfastError {
  return new HoldfastError("NOT_FOUND", `There is no session ${quote(id)}.`, { sessionId: id });
}
