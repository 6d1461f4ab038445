/** List calls that wait or are in doubt, as people see them, and read one that is not over. */
import { checkName, type SessionId } from "../../core/values/ids.js";
import type { SessionRow } from "../../store/port/rows.js";
import { type Pending, pendingOf } from "../calls/pending.js";
import type { StoreContext } from "../journal/store-context.js";
import {
  cursorAt,
  type Damaged,
  invalid,
  limitOf,
  numberOf,
  oneOf,
  options,
  type Page,
} from "../util/validate.js";
import { findCall } from "./find-call.js";
import { orDamaged } from "./or-damaged.js";

export interface EffectFilter {
  readonly status: "waiting" | "in-doubt";
  readonly agent?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface EffectPage extends Page<Pending> {
  /**
   * Sessions of this page whose calls cannot be shown; absent where there are none. `verify` says
   * more.
   */
  readonly damaged?: readonly Damaged[];
}

/** Those of the newest sessions first. */
export async function listEffects(ctx: StoreContext, filter: EffectFilter): Promise<EffectPage> {
  const { status, agent, limit, cursor } = options(filter, "effects.list", [
    "status",
    "agent",
    "limit",
    "cursor",
  ]);
  const wanted = oneOf(status, "status", ["waiting", "in-doubt"]);
  if (wanted === undefined) throw invalid("status", "it must be one of waiting, in-doubt");
  const most = limitOf(limit, "limit");
  const of = agent === undefined ? undefined : checkName(agent, "agent");
  let before = cursor === undefined ? undefined : numberOf(cursor, "s", ctx.store.cursorKey);
  const items: Pending[] = [];
  const damaged: Damaged[] = [];
  const page = () => ({ items, ...(damaged.length > 0 && { damaged }) });
  for (;;) {
    const row = await nextSession(ctx, wanted, of, before);
    if (row === undefined) return page();
    // All calls of one session stand on one page.
    if (items.length + damaged.length >= most)
      return { ...page(), next: cursorAt(row.no + 1, "s", ctx.store.cursorKey) };
    before = row.no;
    const calls = await orDamaged(ctx, row.id, damaged, () => callsOf(ctx, row.id as SessionId));
    items.push(...(calls ?? []).filter((pending) => pending.status === wanted));
  }
}

/** A session in doubt may have calls that wait, too. */
async function nextSession(
  { store }: StoreContext,
  status: EffectFilter["status"],
  agent: string | undefined,
  before: number | undefined,
): Promise<SessionRow | undefined> {
  const query = {
    ...(agent !== undefined && { agent }),
    ...(before !== undefined && { before }),
    limit: 1,
  };
  const [inDoubt] = await store.sessions({ ...query, status: "in-doubt" });
  const [waiting] =
    status === "waiting" ? await store.sessions({ ...query, status: "waiting" }) : [];
  return inDoubt === undefined || (waiting !== undefined && waiting.no > inDoubt.no)
    ? waiting
    : inDoubt;
}

async function callsOf(ctx: StoreContext, session: SessionId): Promise<readonly Pending[]> {
  const present = await ctx.journal.present(session);
  if (present === undefined) return [];
  const inFlight = await ctx.loader.inFlightAt(present);
  const past = ctx.journal.pastOf(present);
  return Promise.all(inFlight.open.map((effect) => pendingOf(ctx, session, past, effect)));
}

export async function getEffect(ctx: StoreContext, id: string): Promise<Pending | undefined> {
  const found = await findCall(ctx, id);
  return found === undefined
    ? undefined
    : (await callsOf(ctx, found.session)).find(({ effectId }) => effectId === id);
}
