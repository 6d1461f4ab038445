/** Whether a call was made before in a past that the session has left, and what is to become of it then. */
import type { Effect } from "../../core/effect.js";
import type { LineId } from "../../core/ids.js";
import type { Holding } from "../holding.js";
import { answerOf } from "./bodies.js";
import { LeftBehind } from "./left-behind.js";

/** ask: wait for somebody's word. replay: answer from the record. live: make it again. */
export type EffectPolicy = "ask" | "replay" | "live";
export const POLICIES: readonly EffectPolicy[] = ["ask", "replay", "live"];

export interface Repeat {
  readonly of: Effect;
  /** Whether it is to be answered from the record: asked for, and there is an answer. */
  readonly replays: boolean;
}

export class Repeats {
  readonly #held: Holding;
  /** What was read of the line that the session is on, as far as it was needed: what could not be read is asked for again. */
  #known: { readonly line: LineId; policy?: EffectPolicy; left?: LeftBehind } | undefined;

  constructor(held: Holding) {
    this.#held = held;
  }

  async find(call: Pick<Effect, "name" | "same" | "named">): Promise<Repeat | undefined> {
    const { id, line, ground, work } = this.#held;
    if (this.#known?.line !== line) this.#known = { line };
    const known = this.#known;
    const policy = (known.policy ??= (await ground.journal.line(line))?.doc.effects ?? "ask");
    if (policy === "live") return undefined;
    const left = (known.left ??= await LeftBehind.of(ground, id, work.head.origin?.sessionId, work.segments));
    const of = await left.find(call, (made) => work.fold.course.replayed.includes(made));
    if (of === undefined) return undefined;
    const isFresh = policy === "replay" && of.phase === "done" && !work.fold.course.replayed.includes(of.id);
    return { of, replays: isFresh && (await answerOf(ground, of)) !== undefined };
  }
}
