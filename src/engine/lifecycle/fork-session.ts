/** Make a session that goes on from a checkpoint of another. */
import type { Checkpoint } from "../../core/journal/checkpoint.js";
import type { Lease } from "../../core/sessions/lease.js";
import { isUnderWay, onNewBranch } from "../../core/sessions/status.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type Place, placeId, sessionId } from "../../core/values/ids.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { EffectPolicy } from "../calls/repeats.js";
import type { Receipt } from "../journal/receipts.js";
import type { StoreContext } from "../journal/store-context.js";
import { type HeadDoc, headOf, type LabelDoc, labelOf, newBranch } from "../records/rows.js";
import { notFound } from "../util/not-found.js";
import { inThisGeneration } from "./acquire-lease.js";
import { begin } from "./create-session.js";

/** Makes a fork, held by nobody. */
export async function fork(
  ctx: StoreContext,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  receipt?: Receipt<string>,
): Promise<{ readonly head: HeadDoc; readonly label: LabelDoc }> {
  return makeFork(ctx, at, id, effects, { receipt });
}

export async function makeFork(
  ctx: StoreContext,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  {
    leaseMs,
    known,
    receipt,
  }: { leaseMs?: number; known?: Checkpoint | undefined; receipt?: Receipt<string> | undefined },
): Promise<{
  readonly head: HeadDoc;
  readonly label: LabelDoc;
  readonly lease: Lease;
  readonly latest: Checkpoint;
}> {
  const made = sessionId(id);
  const { checkpoint, row } = await forkable(ctx, at, known);
  const from = headOf(row);
  const branch = ctx.newBranchId();
  const head: HeadDoc = {
    id: made,
    branch,
    status: onNewBranch(checkpoint.status),
    ...(checkpoint.reason === undefined || isUnderWay(checkpoint.status)
      ? undefined
      : { reason: checkpoint.reason }),
    ...(from.agent === undefined ? undefined : { agent: from.agent }),
    ...(from.title === undefined ? undefined : { title: from.title }),
    createdAt: ctx.wallMs(),
    forkPoint: { sessionId: checkpoint.sessionId, checkpointId: checkpoint.id },
    ...(await inThisGeneration(ctx)),
  };
  const { title, tags, metadata } = labelOf(row);
  const label: LabelDoc = {
    id: made,
    version: 1,
    ...(title === undefined ? undefined : { title }),
    tags,
    archived: false,
    metadata,
  };
  const policy = effects === "ask" ? undefined : { effects };
  const fork = newBranch({ id: branch, forkPoint: at, prev: checkpoint.digest, ...policy });
  const { applied, lease } = await begin(ctx, head, label, fork, leaseMs, receipt?.docs(made));
  receipt?.check(applied, 1);
  if (applied.ok) return { head, label, lease, latest: checkpoint };
  if (applied.why === "exists")
    throw new HoldfastError(
      "CONFLICT",
      `There is a session ${quote(made)} already. Choose another id for the fork.`,
      { sessionId: made },
    );
  throw notFound(placeId(at.branch, at.seq));
}

/**
 * What a fork begins at, and the row of its session. What a holder knows of its own end counts
 * while the session is on that branch.
 */
async function forkable(
  ctx: StoreContext,
  at: Place,
  known: Checkpoint | undefined,
): Promise<{ readonly checkpoint: Checkpoint; readonly row: SessionRow }> {
  const row = known && (await ctx.store.session(known.sessionId)).row;
  if (known?.id === placeId(at.branch, at.seq) && row?.head.branch === at.branch)
    return { checkpoint: known, row };
  const checkpoint = (await ctx.journal.checkpointAt(at))?.checkpoint;
  const owner = checkpoint && (await ctx.store.session(checkpoint.sessionId)).row;
  if (checkpoint === undefined || owner === undefined) throw notFound(placeId(at.branch, at.seq));
  return { checkpoint, row: owner };
}
