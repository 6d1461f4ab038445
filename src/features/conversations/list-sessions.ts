/** List sessions, and the forks of one. One that is damaged does not hide the others. */
import { type SessionStatus, STATUSES } from "../../core/sessions/status.js";
import { checkName } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { orDamaged } from "../../engine/lifecycle/or-damaged.js";
import { requireSession } from "../../engine/lifecycle/require-session.js";
import {
  getSession,
  type SessionSummary,
  summaryOfRow,
} from "../../engine/lifecycle/session-summary.js";
import {
  cursorAt,
  type Damaged,
  flag,
  limitOf,
  numberOf,
  oneOf,
  options,
  type Page,
} from "../../engine/util/validate.js";

/** Which sessions a list shows. */
export interface SessionFilter {
  readonly agent?: string;
  readonly status?: SessionStatus;
  readonly tag?: string;
  readonly archived?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface SessionPage extends Page<SessionSummary> {
  /**
   * Sessions of this page that cannot be shown; absent where there are none. `verify` says more.
   */
  readonly damaged?: readonly Damaged[];
}

/** Newest first. */
export async function listSessions(
  ctx: StoreContext,
  filter: SessionFilter | undefined,
): Promise<SessionPage> {
  const { agent, status, tag, archived, limit, cursor } = options(filter, "sessions.list", [
    "agent",
    "status",
    "tag",
    "archived",
    "limit",
    "cursor",
  ]);
  const most = limitOf(limit, "limit");
  const isArchived = flag(archived, "archived");
  const isStatus = oneOf(status, "status", STATUSES);
  const rows = await ctx.store.sessions({
    ...(agent === undefined ? undefined : { agent: checkName(agent, "agent") }),
    ...(isStatus === undefined ? undefined : { status: isStatus }),
    ...(tag === undefined ? undefined : { tag: checkName(tag, "tag") }),
    ...(isArchived === undefined ? undefined : { archived: isArchived }),
    ...(cursor === undefined ? undefined : { before: numberOf(cursor, "s", ctx.store.cursorKey) }),
    limit: most + 1,
  });
  const shown = rows.slice(0, most);
  const ends =
    shown.length === 0 ? undefined : ctx.journal.endsOf(shown.map(({ head }) => head.branch));
  // Told of each session that needs them.
  ends?.catch(() => {});
  const items: SessionSummary[] = [];
  const damaged: Damaged[] = [];
  for (const row of shown) {
    const item = await orDamaged(ctx, row.id, damaged, async () =>
      summaryOfRow(ctx, row, await ends),
    );
    if (item !== undefined) items.push(item);
  }
  const last = rows.length > most ? shown.at(-1) : undefined;
  return {
    items,
    ...(damaged.length === 0 ? undefined : { damaged }),
    ...(last === undefined ? undefined : { next: cursorAt(last.no, "s", ctx.store.cursorKey) }),
  };
}

/** Sessions that begin at a place of this one, newest first. */
export async function forksOf(
  ctx: StoreContext,
  id: string,
  o: { readonly limit?: number } | undefined,
): Promise<Omit<SessionPage, "next">> {
  const { limit } = options(o, "sessions.forks", ["limit"]);
  const most = limitOf(limit, "limit");
  const { id: session } = await requireSession(ctx, id);
  const begun = (await ctx.store.branches({ kind: "session", session })).map((branch) =>
    ctx.store.branches({ kind: "forks", of: branch.id }),
  );
  const branches = (await Promise.all(begun)).flat().sort((a, b) => b.no - a.no);
  const forks = new Set(branches.flatMap((branch) => branch.session ?? []));
  forks.delete(session);
  const damaged: Damaged[] = [];
  const get = (fork: string): Promise<SessionSummary | undefined> =>
    orDamaged(ctx, fork, damaged, () => getSession(ctx, fork));
  const found = await Promise.all([...forks].slice(0, most).map(get));
  return {
    items: found.filter((fork) => fork !== undefined),
    ...(damaged.length > 0 && { damaged }),
  };
}
