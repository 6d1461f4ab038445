/**
 * Going to another branch of a session: back to one of its checkpoints on a new one, or over to one
 * that it has left.
 */
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  type CheckpointId,
  checkpointPlace,
  MAX_SEQ,
  type Place,
  type SessionId,
} from "../../core/values/ids.js";
import type { DocChange } from "../../store/port/documents.js";
import { AbandonedCalls } from "../calls/abandoned-calls.js";
import { type PassedCall, passedOf, unsettled } from "../calls/pending.js";
import { type EffectPolicy, POLICIES } from "../calls/repeats.js";
import type { CheckpointRead } from "../journal/journal.js";
import { type Past, sharedUpTo } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import { newBranch } from "../records/rows.js";
import type { HeldSession } from "../session/held-session.js";
import type { Standing } from "../session/working-copy.js";
import { notFound } from "../util/not-found.js";
import { oneOf } from "../util/validate.js";

export interface RewindOptions {
  /** What becomes of a call that was made since: it waits for somebody's word (`ask`), or not. */
  readonly effects?: EffectPolicy;
}

/** What a rewind left behind. */
export interface RewindReport {
  /** The newest checkpoint of what was left, to go back to; absent where there is none. */
  readonly before?: CheckpointId;
  /** What had been done by then. */
  readonly passed: readonly PassedCall[];
}

export const checkPolicy = (effects: unknown): EffectPolicy =>
  oneOf(effects, "effects", POLICIES) ?? "ask";

/** `alongside`: what else is changed in the same step. */
export async function rewind(
  held: HeldSession,
  at: string,
  policy: EffectPolicy,
  alongside: readonly DocChange[] = [],
): Promise<RewindReport> {
  refuseOpenCalls(held);
  const { ctx } = held;
  const { past: before, latest: last } = held.work;
  let passed: readonly PassedCall[] = [];
  await move(held, at, async (place, found) => {
    const isOwn = found.session === held.id || (await ctx.journal.isOf(held.id, place, before));
    if (!isOwn) throw foreign(at, held.id, "fork from it instead");
    const { fold, end, past } = inMemory(held, place) ?? (await loaded(ctx, found));
    const branch = ctx.newBranchId();
    const { checkpoint: latest } = found;
    const here = { branch, from: place.seq + 1, to: MAX_SEQ, session: held.id };
    passed = await passedSince(ctx, held.id, before, found.past);
    const begun = newBranch({
      id: branch,
      forkPoint: place,
      prev: end,
      ...(policy === "ask" ? undefined : { effects: policy }),
    });
    fold.leaveBranch();
    const to = { fold, end, past: past.followedBy(here), latest };
    if (!(await held.moveTo(branch, to, begun, alongside))) throw notFound(at);
  });
  return { ...(last !== undefined && { before: last.id }), passed };
}

type There = Pick<Standing, "fold" | "end" | "past">;

/** The state at a place, where the session stands there. */
function inMemory(
  { branch, work: { fold, end, past } }: HeldSession,
  place: Place,
): There | undefined {
  return place.branch === branch && place.seq === fold.seq
    ? { fold: fold.copy(), end, past }
    : undefined;
}

const loaded = async ({ loader }: StoreContext, found: CheckpointRead): Promise<There> => ({
  ...(await loader.at(found, { sized: true }, found.past)),
  past: found.past,
});

/** What was done on one past and is not on the other. */
export async function passedSince(
  ctx: StoreContext,
  session: SessionId,
  before: Past,
  now: Past,
): Promise<readonly PassedCall[]> {
  const left = await AbandonedCalls.behind(ctx, before, await sharedUpTo(before, now));
  return Promise.all(left.map((effect) => passedOf(ctx, session, before, effect)));
}

export async function switchBranch(held: HeldSession, at: string): Promise<void> {
  refuseOpenCalls(held);
  const { journal, loader } = held.ctx;
  await move(held, at, async ({ branch }) => {
    const found = await journal.branch(branch);
    if (found?.session !== held.id)
      throw foreign(at, held.id, "you can only switch to a branch of the session itself");
    const tail = await journal.tail(branch);
    const past = journal.past(branch);
    const { fold, end } = await loader.tail({ branch: found.doc, tail }, { sized: true }, past);
    const latest = await journal.latest(tail, found.doc, held.id, past);
    await held.moveTo(branch, { fold, end, past, latest }, undefined);
  });
}

const move = (
  held: HeldSession,
  at: string,
  go: (place: Place, found: CheckpointRead) => Promise<void>,
): Promise<void> =>
  held.move(async () => {
    const place = checkpointPlace(at);
    const found = place && (await held.ctx.journal.checkpointAt(place));
    if (place === undefined || found === undefined) throw notFound(at);
    await go(place, found);
  });

/** A branch that is left must not take calls with it of which nobody knows what becomes. */
function refuseOpenCalls(held: HeldSession): void {
  held.usable();
  const [open] = unsettled(held.work.fold.inFlight.open);
  if (open === undefined) return;
  throw new HoldfastError(
    "BAD_STATUS",
    `The call of ${quote(open.name)} (${open.id}) is not over: the session cannot leave this branch before it is. Let it finish, or settle it.`,
    { sessionId: held.id, effectId: open.id },
  );
}

function foreign(at: string, session: string, advice: string): HoldfastError {
  return new HoldfastError(
    "CONFLICT",
    `Checkpoint ${quote(at)} is not in the past of session ${quote(session)}: ${advice}.`,
    {
      sessionId: session,
      checkpointId: at,
    },
  );
}
