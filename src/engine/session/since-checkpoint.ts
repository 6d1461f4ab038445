/**
 * Count what a session has done since its last checkpoint. The session's own records are counted,
 * so a process that opens the session after a crash gets the same numbers.
 */
import { openCalls } from "../../core/messages/append-position.js";
import type { Message } from "../../core/messages/message.js";
import type { Since, StrategyEvent } from "../../core/retention/strategy.js";
import type { StoreContext } from "../journal/store-context.js";
import type { WorkingCopy } from "./working-copy.js";

export class SinceCheckpoint implements Since {
  readonly step: number;
  readonly #ctx: StoreContext;
  readonly #work: WorkingCopy;
  readonly #from: number;

  constructor(ctx: StoreContext, work: WorkingCopy, step: number) {
    this.step = step;
    this.#ctx = ctx;
    this.#work = work;
    this.#from = work.latest?.seq ?? 0;
  }

  /** Whether anything came. */
  get isAny(): boolean {
    return !this.#work.isSaved || this.#work.fold.seq > this.#from;
  }

  get messages(): number {
    return [...this.#fresh()].length;
  }

  get steps(): number {
    return [...this.#fresh()].filter(({ role }) => role === "assistant").length;
  }

  /** By the clock that checkpoints are dated by. A fork counts from its own beginning. */
  get ms(): number {
    const { latest, head } = this.#work;
    const at =
      latest === undefined
        ? head.createdAt
        : Math.max(Date.parse(latest.createdAt), head.createdAt);
    return this.#ctx.wallMs() - at;
  }

  /** What happened last, as a run would tell it. */
  get events(): readonly StrategyEvent[] {
    const [last] = this.#fresh();
    const isEnded = this.#work.fold.inFlight.endedAfter(this.#from);
    if (last === undefined) return isEnded ? ["tool"] : [];
    if (last.role === "assistant") return isEnded ? ["model", "tool"] : ["model"];
    // A checkpoint between the answers of one reply would be a place that no model can go on from.
    if (openCalls(this.#newestFirst()).size > 0) return [];
    return last.role === "tool" || isEnded ? ["tool", "step"] : ["step"];
  }

  /** Messages at the end of the transcript that came since, newest first. */
  *#fresh(): Generator<Message> {
    for (const message of this.#newestFirst()) {
      if (message.seq <= this.#from) return;
      yield message;
    }
  }

  *#newestFirst(): Generator<Message> {
    const { fold } = this.#work;
    for (let i = fold.messageCount - 1; i >= 0; i--) yield fold.messageAt(i) as Message;
  }
}
