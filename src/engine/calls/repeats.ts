/**
 * Whether a call was made before in a past that the session has left, and what is to become of it
 * then.
 */
import type { Effect, WaitsFor } from "../../core/effects/effect.js";
import type { BranchId } from "../../core/values/ids.js";
import type { HeldSession } from "../session/held-session.js";
import { AbandonedCalls } from "./abandoned-calls.js";
import { answerOf } from "./bodies.js";
import { type ActedDoc, actedIn } from "./deleted-calls.js";

/** ask: wait for somebody's word. replay: answer from the record. live: make it again. */
export type EffectPolicy = "ask" | "replay" | "live";
export const POLICIES: readonly EffectPolicy[] = ["ask", "replay", "live"];

export interface Repeat {
  /** What the call waits for, unless it is answered from the record. */
  readonly waits: WaitsFor;
  /** The call that it is answered from: asked for, and there is an answer. */
  readonly replays: Effect | undefined;
}

/**
 * What was read of the branch that the session is on, as far as it was needed: what could not be
 * read is asked for again.
 */
interface Known {
  readonly branch: BranchId;
  policy?: EffectPolicy;
  left?: AbandonedCalls;
  deleted?: readonly ActedDoc[];
}

export class Repeats {
  readonly #held: HeldSession;
  #known: Known | undefined;

  constructor(held: HeldSession) {
    this.#held = held;
  }

  async find(call: Pick<Effect, "name" | "inputDigest" | "named">): Promise<Repeat | undefined> {
    const { id, branch, ctx, work } = this.#held;
    if (this.#known?.branch !== branch) this.#known = { branch };
    const known = this.#known;
    const policy = (known.policy ??= (await ctx.journal.branch(branch))?.doc.effects ?? "ask");
    if (policy === "live") return undefined;
    const left = (known.left ??= await AbandonedCalls.of(
      ctx,
      id,
      work.head.forkPoint?.sessionId,
      work.past,
    ));
    const { replayed } = work.fold.inFlight;
    const { same, unknown } = await left.find(call, (made) => replayed.includes(made));
    if (same !== undefined) {
      const isFresh = policy === "replay" && same.phase === "done" && !replayed.includes(same.id);
      const replays = isFresh && (await answerOf(ctx, same)) !== undefined ? same : undefined;
      return { waits: { for: "repeat", of: same.id }, replays };
    }
    // Holdfast cannot compare those with this call. Their answers are no answer to it.
    const of = unknown?.id ?? callIn((known.deleted ??= await actedIn(ctx, work.past)), call.name);
    return of === undefined
      ? undefined
      : { waits: { for: "repeat", of, uncertain: true }, replays: undefined };
  }
}

/** The id of a call of the tool that was deleted. */
function callIn(deleted: readonly ActedDoc[], tool: string): string | undefined {
  const calls = deleted.flatMap(({ tools, unreadable, id }) => {
    const found = tools.find(({ name }) => name === tool)?.effectId;
    return found ?? (unreadable ? [`${id}-?`] : []);
  });
  return calls[0];
}
