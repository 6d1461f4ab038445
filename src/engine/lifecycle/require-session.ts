/** The row of a session, or NOT_FOUND. */
import { sessionId } from "../../core/values/ids.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { StoreContext } from "../journal/store-context.js";
import { noSession } from "../util/not-found.js";

export async function requireSession(ctx: StoreContext, id: unknown): Promise<SessionRow> {
  const known = sessionId(id);
  const row = (await ctx.store.session(known)).row;
  if (row === undefined) throw noSession(known);
  return row;
}
