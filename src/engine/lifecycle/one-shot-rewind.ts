/**
 * Steering a session for a moment, from outside a run: a checkpoint is placed, or it goes back to
 * one. Whoever asks holds the session for just that; where somebody else does, it is refused
 * (LEASE_HELD) after `waitMs`.
 */
import {
  type Checkpoint,
  type CheckpointOptions,
  checkOptions,
  MARK_OPTIONS,
} from "../../core/journal/checkpoint.js";
import { type BranchId, checkpointPlace, sessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { once } from "../journal/receipts.js";
import type { StoreContext } from "../journal/store-context.js";
import { notFound } from "../util/not-found.js";
import { options } from "../util/validate.js";
import { requireSession } from "./require-session.js";
import {
  checkPolicy,
  passedSince,
  type RewindOptions,
  type RewindReport,
  rewind,
  switchBranch,
} from "./rewind.js";
import { type OutsideOptions, waitOf, withSession } from "./with-session.js";

export type { OutsideOptions } from "./with-session.js";

export async function checkpointFromOutside(
  ctx: StoreContext,
  id: string,
  given: (CheckpointOptions & OutsideOptions) | undefined,
): Promise<Checkpoint> {
  const session = sessionId(id);
  const { key, waitMs, signal, ...mark } = options(given, "checkpoints.create", [
    ...MARK_OPTIONS,
    "key",
    "waitMs",
    "signal",
  ]);
  const checked = checkOptions(mark);
  const wait = waitOf(waitMs, signal);
  return once<string, Checkpoint>(
    ctx,
    { key, name: "checkpoints.create", to: session, args: checked },
    (receipt) =>
      withSession(ctx, session, wait, (held) =>
        held.checkpoint(checked, (made) => receipt.docs(made.id)),
      ),
    async (made) => {
      const place = checkpointPlace(made);
      const found = place && (await ctx.journal.checkpointAt(place))?.checkpoint;
      if (found === undefined) throw notFound(made);
      return found;
    },
  );
}

interface Kept extends JsonObject {
  /** The branch that was left. */
  readonly branch: string;
}

export async function rewindFromOutside(
  ctx: StoreContext,
  id: string,
  at: string,
  given: (RewindOptions & OutsideOptions) | undefined,
): Promise<RewindReport> {
  const session = sessionId(id);
  const { key, waitMs, signal, effects } = options(given, "sessions.rewind", [
    "key",
    "waitMs",
    "signal",
    "effects",
  ]);
  const wait = waitOf(waitMs, signal);
  const policy = checkPolicy(effects);
  return once<Kept, RewindReport>(
    ctx,
    { key, name: "rewind", to: session, args: { at, effects: policy } },
    (receipt) =>
      withSession(ctx, session, wait, (held) =>
        rewind(held, at, policy, receipt.docs({ branch: held.branch })),
      ),
    async ({ branch }) => {
      const { journal } = ctx;
      await requireSession(ctx, session);
      const place = checkpointPlace(at);
      const left = await journal.branch(branch as BranchId);
      // It may be gone since, and with it whoever would tell what was done there.
      if (place === undefined || left === undefined) return { passed: [] };
      const last = await journal.latest(await journal.tail(branch as BranchId), left.doc, session);
      const passed = await passedSince(
        ctx,
        session,
        journal.past(branch as BranchId),
        journal.past(place.branch, place.seq),
      );
      return { ...(last !== undefined && { before: last.id }), passed };
    },
  );
}

/**
 * Nothing is lost by it, and done twice it is done once: the second time the session is there
 * already.
 */
export async function switchFromOutside(
  ctx: StoreContext,
  id: string,
  at: string,
  given: Omit<OutsideOptions, "key"> | undefined,
): Promise<void> {
  const { waitMs, signal } = options(given, "sessions.switchBranch", ["waitMs", "signal"]);
  await withSession(ctx, sessionId(id), waitOf(waitMs, signal), (held) => switchBranch(held, at));
}
