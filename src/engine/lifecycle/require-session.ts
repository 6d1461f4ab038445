/** The row of a session, or NOT_FOUND. */
import { sessionId } from "../../core/values/ids.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { Ground } from "../journal/ground.js";
import { noSession } from "../util/not-found.js";

export async function requireSession(ground: Ground, id: unknown): Promise<SessionRow> {
  const known = sessionId(id);
  const row = (await ground.store.session(known)).row;
  if (row === undefined) throw noSession(known);
  return row;
}
