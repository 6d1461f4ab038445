/** Deciding about an agent's sessions at one moment, with errors that go to whoever asked. */
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { sessionRows } from "../../engine/records/session-rows.js";
import { MAX_SESSIONS } from "../../engine/records/snapshot-record.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Applied } from "../../store/port/changes.js";
import type { Decision } from "../../store/port/documents.js";
import type { Present } from "../../store/port/rows.js";

interface Capture {
  readonly agent: string;
  readonly hold: boolean;
  readonly also?: readonly string[];
  readonly how?: "frees";
}

/**
 * Looks at the agent's sessions and applies what is decided. `decide` may throw: then nothing is
 * changed, and the error is thrown here. It may be called again.
 */
export async function withAgentSessions(
  { store }: StoreContext,
  { agent, hold, also, how }: Capture,
  decide: (sessions: readonly Present[]) => Decision | undefined,
): Promise<Applied> {
  let thrown: unknown;
  const query = {
    agent,
    hold,
    limit: MAX_SESSIONS + 1,
    ...(also && { also }),
    ...(how && { how }),
  };
  const applied = await requireCapability(store, "documents", "A snapshot").capture(
    query,
    (sessions) => {
      thrown = undefined;
      try {
        if (sessions.length > MAX_SESSIONS) throw tooMany(agent);
        return decide(sessions);
      } catch (error) {
        thrown = error;
        return undefined;
      }
    },
  );
  if (thrown !== undefined) throw thrown;
  return applied;
}

/**
 * Looks at the agent's sessions one after the other, for a caller that changes nothing: a store
 * that cannot be written answers, too.
 */
export async function lookAt({ store }: StoreContext, agent: string): Promise<readonly Present[]> {
  const found: Present[] = [];
  for await (const { id } of sessionRows(store, { agent })) {
    const { row, branch, end } = await store.session(id, "end");
    if (row !== undefined) found.push({ row, branch, end });
    if (found.length > MAX_SESSIONS) throw tooMany(agent);
  }
  return found;
}

const tooMany = (agent: string): HoldfastError =>
  new HoldfastError(
    "TOO_LARGE",
    `Agent ${quote(agent)} has more than ${MAX_SESSIONS} sessions: too many for one step. Delete some, or do without.`,
    { found: agent, limit: MAX_SESSIONS },
  );
