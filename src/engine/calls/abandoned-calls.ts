/**
 * What was done in pasts that a session has left: by rewinding or adopting another branch, or,
 * where it is a fork, by the sessions it comes from, however far back. A call on the new branch
 * that equals one of those is not made without asking.
 */

import { acts, applyEvent, type Effect, likeness } from "../../core/effects/effect.js";
import { bodyIn } from "../../core/effects/in-flight.js";
import { type BranchId, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import type { BranchRow } from "../../store/port/rows.js";
import type { Past, Segment } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";

/**
 * A stretch of a branch, read as far as it goes, and the calls that were made on it or were open
 * where it begins.
 */
interface Stretch {
  readonly branch: BranchId;
  readonly to: number;
  /** The session that owns the branch, or null. */
  readonly session: string | null;
  next: number;
  /** It was read to its end at least once. */
  isRead: boolean;
  readonly calls: Map<string, Effect>;
}

const ROWS = 500;

export class AbandonedCalls {
  readonly #ctx: StoreContext;
  readonly #stretches: readonly Stretch[];

  private constructor(ctx: StoreContext, stretches: readonly Stretch[]) {
    this.#ctx = ctx;
    this.#stretches = stretches;
  }

  /** All that this session, and those it comes from, did on other branches than its own past. */
  static async of(
    ctx: StoreContext,
    session: SessionId,
    forkPoint: string | undefined,
    from: Past,
  ): Promise<AbandonedCalls> {
    const past = await from.all();
    const stretches: Stretch[] = [];
    for (const segment of past)
      if (segment.to !== MAX_SEQ) stretches.push(await after(ctx, segment, segment.to));
    const owners = [session, forkPoint, ...past.map((segment) => segment.session)].flatMap(
      (owner) => owner ?? [],
    );
    for (const owner of new Set<string>(owners)) {
      for (const { id, forkPoint: begins } of await ctx.store.branches({
        kind: "session",
        session: owner,
      }))
        if (!past.some(({ branch }) => branch === id)) stretches.push(whole(id, begins, owner));
    }
    return new AbandonedCalls(ctx, stretches);
  }

  /** What was done on branches behind the places up to which they are kept; on others, all. */
  static async beyond(
    ctx: StoreContext,
    branches: readonly BranchRow[],
    kept: ReadonlyMap<BranchId, number>,
  ): Promise<AbandonedCalls> {
    const stretches: Stretch[] = [];
    for (const { id, forkPoint, session } of branches) {
      const last = kept.get(id);
      stretches.push(
        last === undefined
          ? whole(id, forkPoint, session)
          : await after(ctx, { branch: id, session }, last),
      );
    }
    return new AbandonedCalls(ctx, stretches);
  }

  /** What was done on a past behind a place: what going back there leaves behind. */
  static async behind(ctx: StoreContext, past: Past, seq: number): Promise<readonly Effect[]> {
    const stretches: Stretch[] = [];
    for (const segment of (await past.downTo(seq + 1)).toReversed()) {
      const { branch, from, to, session } = segment;
      if (to <= seq) continue;
      const calls = new Map<string, Effect>();
      const whole = { branch, to, session, next: from, isRead: false, calls };
      stretches.push(from <= seq ? { ...(await after(ctx, segment, seq)), to } : whole);
    }
    return new AbandonedCalls(ctx, stretches).all();
  }

  /** Calls that act and were begun, oldest first; read up to now at every call. */
  async all(): Promise<readonly Effect[]> {
    for (const stretch of this.#stretches) await this.#read(stretch);
    return this.#stretches.flatMap(({ calls }) =>
      [...calls.values()].filter(({ first }) => first !== undefined),
    );
  }

  /**
   * One that is the same as a call, preferably one that nothing was answered from yet; and one that
   * cannot be compared with it.
   */
  async find(
    call: Pick<Effect, "name" | "inputDigest" | "named">,
    isUsed: (id: string) => boolean,
  ): Promise<{ readonly same: Effect | undefined; readonly unknown: Effect | undefined }> {
    const made = await this.all();
    const like = made.filter((one) => likeness(call, one) === "same");
    return {
      same: like.find(({ id }) => !isUsed(id)) ?? like[0],
      unknown: made.find((one) => likeness(call, one) === "unknown"),
    };
  }

  async #read(stretch: Stretch): Promise<void> {
    const { branch, next: from, to, calls } = stretch;
    if (from > to) return;
    // Whether the branch has lost its end is asked once: from then on, what was read is known.
    const session = stretch.isRead ? null : stretch.session;
    const walk = { state: true, rows: ROWS };
    for await (const page of this.#ctx.journal.saves.walk([{ branch, from, to, session }], walk)) {
      for (const { save, state } of page) {
        stretch.next = save.seq + 1;
        // Of what was pruned, no checkpoint is left before it to go back to.
        for (const record of state) {
          const { effect: event } = record;
          if (event === undefined) continue;
          const about = {
            at: save.at - (record.ago ?? 0),
            holder: undefined,
            body: bodyIn(record),
          };
          const effect = applyEvent(calls.get(event.id), event, about);
          if (effect !== undefined && acts(effect)) calls.set(effect.id, effect);
        }
      }
    }
    stretch.isRead = true;
  }
}

const whole = (branch: BranchId, forkPoint: Place | null, session: string | null): Stretch => ({
  branch,
  to: MAX_SEQ,
  session,
  next: (forkPoint?.seq ?? 0) + 1,
  isRead: false,
  calls: new Map(),
});

/** What follows a place on its branch: also what becomes of the calls that are open there. */
async function after(
  { journal, loader }: StoreContext,
  { branch, session }: Pick<Segment, "branch" | "session">,
  seq: number,
): Promise<Stretch> {
  const found = await journal.saveAt({ branch, seq });
  const inFlight = found && (await loader.inFlight(found));
  const open = (inFlight?.open ?? []).filter(acts);
  const calls = new Map(open.map((effect) => [effect.id, effect]));
  return { branch, to: MAX_SEQ, session, next: seq + 1, isRead: false, calls };
}
