/** Change the title, tags, archived flag or metadata of a session. */
import { checkText } from "../../core/journal/checkpoint.js";
import { checkName, type SessionId, sessionId } from "../../core/values/ids.js";
import { once, type Receipt } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { refuseOtherAgent } from "../../engine/lifecycle/acquire-lease.js";
import { makeSession } from "../../engine/lifecycle/create-session.js";
import { relabelBy } from "../../engine/lifecycle/relabel.js";
import { requireSession } from "../../engine/lifecycle/require-session.js";
import { type SessionSummary, summaryOfRow } from "../../engine/lifecycle/session-summary.js";
import {
  headOf,
  labelOf,
  labelRow,
  type Relabel,
  type SessionUpdate,
} from "../../engine/records/rows.js";
import { noSession } from "../../engine/util/not-found.js";
import { flag, invalid, type KeyOptions, options } from "../../engine/util/validate.js";
import type { Change } from "../../store/port/changes.js";
import type { SessionRow } from "../../store/port/rows.js";

export interface UpdateOptions extends KeyOptions {
  /** Makes the session where there is none, as one of `agent`. */
  readonly create?: boolean;
  readonly agent?: string;
  /** What else is done under the key, in whatever words: with others it is another call. */
  readonly about?: string;
}

const MAX_ABOUT = 1024 * 1024;

const UNLABELLED = { tags: [], archived: false, metadata: {} };

function relabelled(row: SessionRow, relabel: Relabel): Change {
  const before = labelOf(row);
  return {
    session: row.id,
    when: { version: before.version },
    label: labelRow({ ...relabel(before), version: before.version + 1 }),
  };
}

export async function updateSession(
  ctx: StoreContext,
  id: string,
  update: SessionUpdate,
  given: UpdateOptions | undefined,
): Promise<SessionSummary> {
  const known = sessionId(id);
  const { key, create, agent, about } = options(given, "sessions.update", [
    "key",
    "create",
    "agent",
    "about",
  ]);
  const isMade = flag(create, "create") ?? false;
  if (about !== undefined) checkText(about, "about", MAX_ABOUT);
  if (agent !== undefined && !isMade)
    throw invalid("agent", "it is given to a session that is made; pass create: true with it");
  const made = isMade
    ? { agent: agent === undefined ? undefined : checkName(agent, "agent") }
    : undefined;
  const relabel = relabelBy(ctx, update, "sessions.update");
  return once<null, SessionSummary>(
    ctx,
    { key, name: "sessions.update", to: known, args: { update, about, ...made } },
    (receipt) => relabelOrMake(ctx, known, relabel, { made, receipt }),
    async () => summaryOfRow(ctx, await requireSession(ctx, known)),
  );
}

async function relabelOrMake(
  ctx: StoreContext,
  id: SessionId,
  relabel: Relabel,
  { made, receipt }: { made: { agent: string | undefined } | undefined; receipt: Receipt<null> },
): Promise<SessionSummary> {
  for (;;) {
    const row = (await ctx.store.session(id)).row;
    if (row === undefined && made === undefined) throw noSession(id);
    if (row !== undefined && made !== undefined)
      refuseOtherAgent(headOf(row), { id, agent: made.agent });
    const docs = receipt.docs(null);
    const applied =
      row === undefined
        ? await makeSession(ctx, id, {
            agent: made?.agent,
            label: relabel(UNLABELLED),
            alongside: docs,
          })
        : await ctx.store.apply([relabelled(row, relabel)], docs);
    if (applied.ok) return summaryOfRow(ctx, await requireSession(ctx, id));
    receipt.check(applied, 1);
    // Somebody else has made or changed it in between: read it again, and change that.
  }
}
