/**
 * Find a call by its effect id, with its session, and with the decision that stands if it was
 * decided about.
 */
import { branchOfEffect, type Effect } from "../../core/effects/effect.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, isBranchId, type SessionId } from "../../core/values/ids.js";
import { type Decision, standing } from "../calls/decisions.js";
import type { StoreContext } from "../journal/store-context.js";
import { headOf } from "../records/rows.js";

interface FoundCall {
  readonly session: SessionId;
  /** Undefined if the session's in-flight work does not hold the call any more. */
  readonly effect: Effect | undefined;
}

export async function findCall(ctx: StoreContext, id: string): Promise<FoundCall | undefined> {
  ctx.usable();
  const branch = branchOfEffect(checkName(id, "effect id"));
  const owner = isBranchId(branch) ? (await ctx.journal.branch(branch))?.session : undefined;
  const present = owner == null ? undefined : await ctx.journal.present(owner as SessionId);
  if (present === undefined) return undefined;
  return {
    session: headOf(present.row).id,
    effect: (await ctx.loader.inFlightAt(present)).get(id),
  };
}

export interface DecidableCall {
  readonly session: SessionId;
  readonly effect: Effect;
  /** The decision that stands, if the call was decided about. */
  readonly stands?: Decision;
}

/** A call that can be decided about, or that was: then with the decision that stands. */
export async function requireCall(
  ctx: StoreContext,
  id: string,
  phases: readonly Effect["phase"][],
  fits: (effect: Effect) => boolean = () => true,
): Promise<DecidableCall> {
  const found = await findCall(ctx, id);
  if (found?.effect === undefined)
    throw new HoldfastError("NOT_FOUND", `There is no call ${quote(id)} that is not over.`, {
      effectId: id,
    });
  const { effect, session } = found;
  if (phases.includes(effect.phase) && fits(effect)) return { session, effect };
  const stands = await standing(ctx, id, effect.asked);
  if (stands !== undefined && (stands.isThisTime || effect.phase === "done"))
    return { session, effect, stands: stands.decision };
  const is = effect.phase === "doubt" ? "in doubt" : (effect.waits?.for ?? effect.phase);
  throw new HoldfastError(
    "BAD_STATUS",
    `The call ${quote(id)} of ${quote(effect.name)} does not wait for this: it is ${is}.`,
    {
      sessionId: session,
      effectId: id,
    },
  );
}
