/** Read an agent's record with its sessions that are under way, and list records. */
import { isUnderWay, type SessionStatus, statusTable } from "../../core/sessions/status.js";
import { checkName } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import {
  type AgentRecord,
  agentOf,
  findAgent,
  recordOf,
} from "../../engine/records/agent-record.js";
import { listDocuments } from "../../engine/records/list-documents.js";
import { type Damaged, options, type Page } from "../../engine/util/validate.js";
import { AGENT } from "../../store/port/documents.js";

/** An agent, and those of its sessions that are under way: the newest first, 1,000 at most. */
export interface AgentWithSessions extends AgentRecord {
  readonly activeSessions: readonly string[];
}

export interface AgentPage extends Page<AgentRecord> {
  /** Agents of this page whose record cannot be read; absent where there are none. */
  readonly damaged?: readonly Damaged[];
}

const MAX_ACTIVE = 1_000;
const UNDER_WAY = (Object.keys(statusTable) as SessionStatus[]).filter(isUnderWay);

export async function getAgent(
  ctx: StoreContext,
  id: string,
): Promise<AgentWithSessions | undefined> {
  const doc = await findAgent(ctx.store, checkName(id, "agent id"));
  return (
    doc && Object.freeze({ ...recordOf(doc), activeSessions: await activeSessions(ctx, doc.id) })
  );
}

async function activeSessions({ store }: StoreContext, agent: string): Promise<readonly string[]> {
  const rows = await Promise.all(
    UNDER_WAY.map((status) => store.sessions({ agent, status, limit: MAX_ACTIVE })),
  );
  return rows
    .flat()
    .sort((a, b) => b.no - a.no)
    .slice(0, MAX_ACTIVE)
    .map((row) => row.id);
}

/** Newest first. */
export async function listAgents(
  { store }: StoreContext,
  o: { readonly limit?: number; readonly cursor?: string } | undefined,
): Promise<AgentPage> {
  const { limit, cursor } = options(o, "agents.list", ["limit", "cursor"]);
  return listDocuments(store, { kind: AGENT, limit, cursor }, (row) => recordOf(agentOf(row)));
}
