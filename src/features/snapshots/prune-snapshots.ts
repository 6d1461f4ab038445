/**
 * Removing the snapshots of an agent that no rule keeps. What they pinned is then freed by `prune`
 * and `gc`.
 */
import {
  type Dated,
  expired,
  type RetentionPolicy,
  type RetentionRules,
} from "../../core/retention/policy.js";
import { HoldfastError } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { checkRules, RULES } from "../../engine/records/check-policy.js";
import { documents } from "../../engine/records/documents.js";
import { policyFor, policyOf, RETENTION, storedPolicy } from "../../engine/records/policy-store.js";
import { snapshotOf } from "../../engine/records/snapshot-record.js";
import { isSessionError, type ToldOfSnapshots } from "../../engine/util/is-session-error.js";
import { flag, options, signalOf } from "../../engine/util/validate.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { type DocRow, SNAPSHOT } from "../../store/port/documents.js";
import type { Store } from "../../store/port.js";

export interface PruneSnapshotsOptions extends RetentionRules {
  /** Only answers what would go. */
  readonly dryRun?: boolean;
  /** Stops between two snapshots. What has gone by then is gone. */
  readonly signal?: AbortSignal;
}

export interface PruneSnapshotsReport {
  readonly removed: number;
  /** With `dryRun`: which they would be, newest first; the first thousand. */
  readonly ids?: readonly string[];
}

/** A snapshot, as far as rules look at it. */
interface Aged extends Dated {
  readonly id: string;
}

interface SnapshotRun {
  readonly dryRun: boolean;
  readonly signal?: AbortSignal | undefined;
}

const MOST_IDS = 1_000;

/**
 * Prunes by the rules that are given, else by those of the agent's policy or the store's; without
 * any nothing goes.
 */
export async function pruneSnapshots(
  ctx: StoreContext,
  id: string,
  given: PruneSnapshotsOptions | undefined,
): Promise<PruneSnapshotsReport> {
  const agent = checkName(id, "agent id");
  const { dryRun, signal, ...rest } = options(given, "agents.pruneSnapshots", [
    ...RULES,
    "dryRun",
    "signal",
  ]);
  const said = checkRules(rest, "agents.pruneSnapshots");
  const run = { dryRun: flag(dryRun, "dryRun") ?? false, signal: signalOf(signal) };
  const rules =
    Object.keys(said).length > 0 ? said : ((await policyFor(ctx.store, agent))?.snapshots ?? {});
  return pruneBy(ctx, await snapshotsOf(ctx.store, agent), rules, run);
}

async function pruneBy(
  ctx: StoreContext,
  newestFirst: readonly Aged[],
  rules: RetentionRules,
  run: SnapshotRun,
): Promise<PruneSnapshotsReport> {
  const gone: string[] = [];
  for (const { id } of expired(newestFirst, rules, ctx.wallMs())) {
    await yieldToEventLoop();
    run.signal?.throwIfAborted();
    const removal = { kind: SNAPSHOT, id, when: {}, remove: true } as const;
    if (run.dryRun || (await ctx.store.apply([], [removal])).ok) gone.push(id);
  }
  return {
    removed: gone.length,
    ...(run.dryRun && { ids: Object.freeze(gone.slice(0, MOST_IDS)) }),
  };
}

/** Newest first. One that is damaged stays, and is passed over. */
async function snapshotsOf(store: Store, agent: string): Promise<readonly Aged[]> {
  const all: Aged[] = [];
  for await (const row of documents(store, { kind: SNAPSHOT, of: agent }))
    if (row.of === agent) all.push(...agedOf(row));
  return all;
}

function agedOf(row: DocRow): readonly Aged[] {
  try {
    const { id, createdAt, kind, name } = snapshotOf(row);
    const labelled = name !== undefined && kind !== "recovery";
    return [
      {
        id,
        at: Date.parse(createdAt),
        kind,
        labelled,
      },
    ];
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return [];
    throw error;
  }
}

/**
 * Prunes the snapshots of an agent, or of all agents, by the policy that holds for each. Without
 * rules for snapshots none is read.
 */
export async function applyToSnapshots(
  ctx: StoreContext,
  agent: string | undefined,
  run: SnapshotRun,
  told: ToldOfSnapshots,
): Promise<void> {
  const { store } = ctx;
  const prune = async (
    of: string,
    rules: RetentionRules,
    newestFirst: () => Promise<readonly Aged[]>,
  ): Promise<void> => {
    const pruned = await unlessFailed(of, told, async () =>
      pruneBy(ctx, await newestFirst(), rules, run),
    );
    if (pruned !== undefined) told.pruned(of, pruned.removed);
  };
  const own = await ownPolicies(store, agent, told);
  for (const [of, policy] of own)
    if (policy?.snapshots !== undefined)
      await prune(of, policy.snapshots, () => snapshotsOf(store, of));
  const rules = (await unlessFailed(undefined, told, () => storedPolicy(store)))?.snapshots;
  if (rules === undefined) return;
  for (const [of, newestFirst] of await byAgent(store, agent, own))
    await prune(of, rules, async () => newestFirst);
}

/** Of agents that have one; undefined where it is damaged. */
async function ownPolicies(
  store: Store,
  agent: string | undefined,
  told: ToldOfSnapshots,
): Promise<ReadonlyMap<string, RetentionPolicy | undefined>> {
  const own = new Map<string, RetentionPolicy | undefined>();
  const read = async (row: DocRow) =>
    own.set(row.id, await unlessFailed(row.id, told, async () => policyOf(row)));
  if (agent === undefined)
    for await (const row of documents(store, { kind: RETENTION })) await read(row);
  else {
    const row = await documentsOf(store).get(RETENTION, agent);
    if (row !== undefined) await read(row);
  }
  return own;
}

async function unlessFailed<R>(
  agent: string | undefined,
  told: ToldOfSnapshots,
  act: () => Promise<R>,
): Promise<R | undefined> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof HoldfastError) || !isSessionError(error)) throw error;
    told.failed(agent, error);
    return undefined;
  }
}

/** The snapshots of agents that have no policy of their own: of each its own, newest first. */
async function byAgent(
  store: Store,
  agent: string | undefined,
  own: ReadonlyMap<string, unknown>,
): Promise<ReadonlyMap<string, readonly Aged[]>> {
  const found = new Map<string, Aged[]>();
  for await (const row of documents(store, {
    kind: SNAPSHOT,
    ...(agent !== undefined && { of: agent }),
  })) {
    if (row.of === null || own.has(row.of)) continue;
    const known = found.get(row.of) ?? [];
    known.push(...agedOf(row));
    found.set(row.of, known);
  }
  return found;
}
