/** Delete an agent with all that is its own, and nothing else. */
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, type SessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { Acted } from "../../engine/calls/deleted-calls.js";
import { cutBranches } from "../../engine/journal/cut-branches.js";
import { descendants } from "../../engine/journal/descendants.js";
import { onceRemoved, type Receipt } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { childrenOf } from "../../engine/lifecycle/deliver-inbox.js";
import { noAgent } from "../../engine/records/agent-record.js";
import { RETENTION } from "../../engine/records/policy-store.js";
import { sessionRows } from "../../engine/records/session-rows.js";
import { snapshotsOf } from "../../engine/records/snapshot-record.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import { type KeyOptions, options } from "../../engine/util/validate.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT, SNAPSHOT } from "../../store/port/documents.js";
import type { BranchRow } from "../../store/port/rows.js";
import { withAgentSessions } from "./with-agent-sessions.js";

export interface DeleteAgentReport {
  readonly sessions: number;
  readonly snapshots: number;
  /** Sessions of other agents for which something shared is kept. */
  readonly keptFor: readonly string[];
}

const TRIES = 10;

export async function deleteAgent(
  ctx: StoreContext,
  id: string,
  o: KeyOptions | undefined,
): Promise<DeleteAgentReport> {
  const { key } = options(o, "agents.delete", ["key"]);
  const agent = checkName(id, "agent id");
  return onceRemoved<JsonObject, DeleteAgentReport>(
    ctx,
    { key, name: "agents.delete", to: agent, args: {} },
    (receipt) => deleteWhole(ctx, agent, receipt),
    (answer) => answer as unknown as DeleteAgentReport,
  );
}

/** In one step; what that leaves without an owner is freed after it. */
async function deleteWhole(
  ctx: StoreContext,
  agent: string,
  receipt: Receipt<JsonObject>,
): Promise<DeleteAgentReport> {
  const { store } = ctx;
  for (let tries = 0; tries < TRIES; tries++) {
    // By their rows: what is damaged goes like the rest.
    const record = await documentsOf(store).get(AGENT, agent);
    const snapshots = await snapshotsOf(store, agent);
    const policy = await documentsOf(store).get(RETENTION, agent);
    const { children, branches } = await belongings(ctx, agent);
    const family = await descendants(ctx, branches);
    const owners = new Set(branches.map(({ session }) => session));
    const acted = await Acted.of(
      ctx,
      branches,
      withoutOwners(family, owners),
      new Set(snapshots.map(({ no }) => no)),
    );
    const left = await acted.docs();
    const gone = new Set<string>();
    let before = 0;
    const applied = await withAgentSessions(
      ctx,
      { agent, hold: true, also: children, how: "frees" },
      (sessions) => {
        gone.clear();
        for (const { row } of sessions) gone.add(row.id);
        for (const child of children) gone.add(child);
        if (record === undefined && snapshots.length === 0 && gone.size === 0) throw noAgent(agent);
        const docs = [
          ...snapshots,
          ...(policy === undefined ? [] : [policy]),
          ...(record === undefined ? [] : [record]),
        ];
        const answer = {
          sessions: gone.size,
          snapshots: snapshots.length,
          keptFor: keptFor(family, gone),
        };
        const removals = docs.map(({ kind, id }) => ({
          kind,
          id,
          when: {},
          remove: true as const,
        }));
        before = gone.size + removals.length + left.length;
        return {
          changes: [...gone].map((session) => ({ session, when: {}, remove: true as const })),
          docs: [...removals, ...left, ...receipt.docs(answer)],
        };
      },
    );
    receipt.check(applied, before);
    // A child, or a snapshot, went in between.
    if (!applied.ok) continue;
    await acted.keepMore();
    await removeSnapshots(ctx, agent);
    ctx.knownAgents.delete(agent);
    for (const session of gone) ctx.watchers.changed(session as SessionId);
    return {
      sessions: gone.size,
      snapshots: snapshots.length,
      keptFor: await free(ctx, branches, gone),
    };
  }
  throw new HoldfastError(
    "BUSY",
    `Agent ${quote(agent)} was changed again and again while it was deleted. Try again.`,
    {},
  );
}

/**
 * Those that were taken while it was being deleted: they would bring it back. Without sessions and
 * a record no more can be.
 */
async function removeSnapshots({ store }: StoreContext, agent: string): Promise<void> {
  for (const { id } of await snapshotsOf(store, agent))
    await store.apply([], [{ kind: SNAPSHOT, id, when: {}, remove: true }]);
}

/**
 * Sessions that calls of an agent's sessions run, be it under other agents, and the branches of all
 * of them.
 */
async function belongings(
  ctx: StoreContext,
  agent: string,
): Promise<{ readonly children: readonly string[]; readonly branches: readonly BranchRow[] }> {
  const { store } = ctx;
  const children = new Set<string>();
  const branches: BranchRow[] = [];
  for await (const { id } of sessionRows(store, { agent })) {
    branches.push(...(await store.branches({ kind: "session", session: id })));
    await addChildren(ctx, id as SessionId, children);
  }
  for (const child of children)
    branches.push(...(await store.branches({ kind: "session", session: child })));
  return { children: [...children], branches };
}

async function addChildren(ctx: StoreContext, id: SessionId, found: Set<string>): Promise<void> {
  for (const child of await childrenOf(ctx, id)) {
    if (found.has(child)) continue;
    found.add(child);
    await addChildren(ctx, child, found);
  }
}

/**
 * Frees what nobody needs of branches whose sessions are gone. Answers for whom some of it was
 * kept.
 */
async function free(
  ctx: StoreContext,
  branches: readonly BranchRow[],
  gone: ReadonlySet<string>,
): Promise<readonly string[]> {
  const now = await descendants(ctx, branches);
  const family = withoutOwners(now, gone);
  // The agent is deleted. What something damaged may need is freed by `gc`, once that is mended or
  // gone.
  await unlessDamaged(() => cutBranches(ctx, branches, family, { dryRun: false }));
  return keptFor(now, gone);
}

const withoutOwners = (
  family: readonly BranchRow[],
  gone: ReadonlySet<string | null>,
): readonly BranchRow[] =>
  family.map((branch) =>
    branch.session === null || gone.has(branch.session)
      ? { ...branch, owned: false, session: null }
      : branch,
  );

/** Those of other agents that share something with what is gone. */
const keptFor = (family: readonly BranchRow[], gone: ReadonlySet<string>): readonly string[] =>
  [
    ...new Set(
      family.flatMap(({ session }) => (session === null || gone.has(session) ? [] : session)),
    ),
  ].sort();
