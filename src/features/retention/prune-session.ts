/** Pruning a session by a policy: what goes, and that it goes. */
import { expired, type RetentionRules } from "../../core/retention/policy.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  type BranchId,
  type CheckpointId,
  MAX_SEQ,
  placeId,
  type SessionId,
} from "../../core/values/ids.js";
import { RecordOwners } from "../../engine/journal/record-owners.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { requireSession } from "../../engine/lifecycle/require-session.js";
import { checkRules, RULES } from "../../engine/records/check-policy.js";
import { policyFor } from "../../engine/records/policy-store.js";
import { headOf } from "../../engine/records/rows.js";
import { noSession } from "../../engine/util/not-found.js";
import { callback, flag, oneOf, options, signalOf } from "../../engine/util/validate.js";
import { requireCapability } from "../../store/capabilities.js";
import { removeMarks } from "./remove-checkpoints.js";
import { type BranchScan, type MarkAt, scanBranch } from "./scan-branch.js";

export interface PruneOptions extends RetentionRules {
  /** `all`: also on branches that the session has left by rewinding, each by itself. */
  readonly branches?: "current" | "all";
  /** Only answers what would go. */
  readonly dryRun?: boolean;
  readonly onProgress?: (progress: PruneProgress) => void;
  /** Stops between two steps. What has gone by then is gone. */
  readonly signal?: AbortSignal;
}

interface PruneProgress {
  readonly removed: number;
  readonly of: number;
}

export interface PruneReport {
  readonly removed: number;
  /** With `dryRun`: which they would be, newest first; the first thousand. */
  readonly ids?: readonly CheckpointId[];
}

/** How often it is looked again what is to go, where others change the same branches. */
export const PLANS = 10;
const MOST_IDS = 1_000;

/** What goes from a branch. */
interface Goes {
  readonly survey: BranchScan;
  readonly seqs: ReadonlySet<number>;
}

export interface PruneRun {
  readonly branches: "current" | "all";
  readonly dryRun: boolean;
  readonly onProgress?: ((progress: PruneProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly idle?: boolean;
}

export async function prune(
  ctx: StoreContext,
  id: string,
  given: PruneOptions | undefined,
): Promise<PruneReport> {
  const { branches, dryRun, onProgress, signal, ...rest } = options(given, "checkpoints.prune", [
    ...RULES,
    "branches",
    "dryRun",
    "onProgress",
    "signal",
  ]);
  requireCapability(ctx.store, "reclaim", "hold.checkpoints.prune");
  const said = checkRules(rest, "checkpoints.prune");
  const policy = Object.keys(said).length > 0 ? said : await ofItsAgent(ctx, id);
  return pruneBy(ctx, id, policy, {
    branches: oneOf(branches, "branches", ["current", "all"]) ?? "current",
    dryRun: flag(dryRun, "dryRun") ?? false,
    onProgress: callback(onProgress, "onProgress"),
    signal: signalOf(signal),
  });
}

/**
 * Where none is given: the policy that holds for the session; one that removes nothing where there
 * is none.
 */
async function ofItsAgent(ctx: StoreContext, id: string): Promise<RetentionRules> {
  const { agent } = headOf(await requireSession(ctx, id));
  return (await policyFor(ctx.store, agent)) ?? {};
}

export async function pruneBy(
  ctx: StoreContext,
  id: string,
  policy: RetentionRules,
  run: PruneRun,
): Promise<PruneReport> {
  const row = await requireSession(ctx, id);
  try {
    return await pruneSession(ctx, row.id as SessionId, policy, run);
  } catch (error) {
    // What is missing may have gone with the session, while it was looked at.
    if (
      error instanceof HoldfastError &&
      error.code === "CORRUPT" &&
      (await ctx.store.session(row.id)).row?.no !== row.no
    )
      throw noSession(row.id as SessionId);
    throw error;
  }
}

async function pruneSession(
  ctx: StoreContext,
  id: SessionId,
  policy: RetentionRules,
  run: PruneRun,
): Promise<PruneReport> {
  const { signal, idle, onProgress, dryRun } = run;
  let removed = 0;
  for (let plan = 0; plan < PLANS; plan++) {
    const goes = await whatGoes(ctx, id, policy, run);
    const left = goes.reduce((sum, { seqs }) => sum + seqs.size, 0);
    if (dryRun) return { removed: left, ids: idsOf(goes) };
    const of = removed + left;
    const onRemoved = (count: number) => {
      removed += count;
      onProgress?.({ removed, of });
    };
    let done = true;
    for (const { survey, seqs } of goes)
      done = (await removeMarks(ctx, survey, seqs, { signal, idle, onRemoved })).done && done;
    if (done) return { removed };
    // A fork was begun in between, or somebody else prunes: some went, some may be needed now.
  }
  throw new HoldfastError(
    "BUSY",
    `Session ${quote(id)} was changed again and again while it was pruned. Try again.`,
    { sessionId: id },
  );
}

/**
 * Only what belongs to the session is looked at: its own branches, and what it inherits of branches
 * that no session owns.
 */
async function whatGoes(
  ctx: StoreContext,
  id: SessionId,
  policy: RetentionRules,
  run: PruneRun,
): Promise<readonly Goes[]> {
  const { branch } = headOf(await requireSession(ctx, id));
  const past = (await ctx.journal.past(branch).all()).filter(
    ({ session }) => session === id || session === null,
  );
  const recordOwners = new RecordOwners(ctx.store);
  const surveys = new Map<BranchId, BranchScan>();
  const others =
    run.branches === "all" ? await ctx.store.branches({ kind: "session", session: id }) : [];
  for (const own of [...past.map((segment) => segment.branch), ...others.map((other) => other.id)])
    if (!surveys.has(own)) surveys.set(own, await scanBranch(ctx, own, run.signal));

  const behind = (survey: BranchScan, after: number, to: number) =>
    survey.marks
      .filter(({ seq }) => seq > after && seq <= to)
      .map((mark) => ({ ...mark, branch: survey.branch }));
  const along: (MarkAt & { readonly branch: BranchId })[] = [];
  for (const { branch: on, to, session } of past)
    for (const mark of behind(surveys.get(on) as BranchScan, 0, to).toReversed())
      if (session === id || (await recordOwners.of(on, mark.seq)) === id) along.push(mark);
  const stretches = [along];
  // What a branch of the past goes on with behind the place where it was left, and branches that
  // were left as a whole.
  if (run.branches === "all")
    for (const survey of [...surveys.values()].filter(({ own }) => own.session === id))
      stretches.push(
        behind(
          survey,
          past.find(({ branch: own }) => own === survey.branch)?.to ?? 0,
          MAX_SEQ,
        ).toReversed(),
      );

  const gone = new Map<BranchId, Set<number>>();
  const now = ctx.wallMs();
  for (const stretch of stretches)
    for (const { branch: on, seq } of expired<MarkAt & { readonly branch: BranchId }>(
      stretch,
      policy,
      now,
    ))
      if (!surveys.get(on)?.forkPoints.has(seq)) gone.set(on, (gone.get(on) ?? new Set()).add(seq));
  return [...gone].map(([on, seqs]) => ({ survey: surveys.get(on) as BranchScan, seqs }));
}

function idsOf(goes: readonly Goes[]): readonly CheckpointId[] {
  const ids = goes.flatMap(({ survey, seqs }) =>
    [...seqs].map((seq) => placeId(survey.branch, seq)),
  );
  return Object.freeze(ids.slice(0, MOST_IDS));
}
