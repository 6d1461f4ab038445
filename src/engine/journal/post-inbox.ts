/** Posting to a session's inbox. The same id is the same inbox message. */
import { randomUUID } from "node:crypto";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Store } from "../../store/port.js";
import { type InboxDoc, inboxText } from "../records/rows.js";
import { noSession } from "../util/not-found.js";

export interface PostOptions {
  /** The same id is the same inbox message. */
  readonly id?: string;
  /** Not to be taken in before. */
  readonly due?: number;
}

/** Posts, and answers whether the same was posted before, or something else under its id. */
export async function tryPost(
  store: Store,
  session: SessionId,
  doc: InboxDoc,
  o: PostOptions = {},
): Promise<"posted" | "known" | "conflict"> {
  const posted = await requireCapability(store, "inbox", "A message to a session").post(session, {
    id: o.id ?? randomUUID(),
    text: inboxText(doc),
    due: o.due ?? 0,
  });
  if (posted === "absent") throw noSession(session);
  return posted;
}

export const otherMessage = (session: SessionId, id = ""): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Something else was sent to session ${quote(session)} under the key ${quote(id)}.`,
    { sessionId: session },
  );
