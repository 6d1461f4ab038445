/**
 * Cursors of lists of sessions, for tools of one agent. The library's hold the number of a session
 * in the store, which tells how many there are of all agents. These hold the id of the agent's
 * session at which the next page begins. If it is deleted meanwhile, the list is begun anew.
 */
import { quote } from "../core/values/errors.js";
import { invalid } from "../engine/util/validate.js";
import type { Call, Hold } from "./definition.js";

/** A page whose cursor tells nothing of others. */
export async function withOwnCursor<P extends { readonly next?: string }>(
  hold: Hold,
  { agent }: Call,
  page: P,
): Promise<P> {
  const { next, ...rest } = page;
  if (agent === undefined || next === undefined) return page;
  const first = await hold.newestSession(agent, Number(next.slice(1)));
  return (
    first === undefined ? rest : { ...rest, next: `i${Buffer.from(first).toString("base64url")}` }
  ) as P;
}

/** The library's cursor for one of these. */
export async function libraryCursor(
  hold: Hold,
  { agent }: Call,
  cursor: string | undefined,
): Promise<{ readonly cursor?: string }> {
  if (cursor === undefined) return {};
  if (agent === undefined) return { cursor };
  const [, id] = /^i([A-Za-z0-9_-]+)$/.exec(cursor) ?? [];
  const number =
    id === undefined
      ? undefined
      : await hold.sessionNumber(agent, Buffer.from(id, "base64url").toString());
  if (number === undefined)
    throw invalid(
      "cursor",
      `${quote(cursor)} did not come from this list, or what it names is gone: begin anew`,
    );
  return { cursor: `s${number + 1}` };
}
