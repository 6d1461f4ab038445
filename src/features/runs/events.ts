/** What a run tells while it goes: to those who stream it, and to the store's telemetry. */
import type { Outcome } from "../../core/effects/effect.js";
import type { AgentEvent, ToolState } from "../../core/messages/agent-event.js";
import type { Message, ToolCallPart } from "../../core/messages/message.js";
import { placeId } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { tellEvent } from "../../engine/journal/telemetry.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import type { Definition } from "./define/compile-agent.js";

export type Sink = (event: AgentEvent) => void;
export type Tell = (make: () => AgentEvent) => void;

/** What becomes of a call. */
type CallTold = { readonly effectId?: string | undefined; readonly state: ToolState } & (
  | { readonly input?: Json; readonly outcome?: never }
  | { readonly outcome: Outcome; readonly output: Json; readonly input?: never }
);

/** Tells what has been saved, and what becomes of calls. */
export class RunEvents {
  readonly #held: HeldSession;
  readonly #definition: Definition;
  readonly #tell: Tell;
  /**
   * How many messages the followers know of: those that were there, and what has been saved since.
   */
  #told: number;

  constructor(held: HeldSession, definition: Definition, tell: Tell) {
    this.#held = held;
    this.#definition = definition;
    this.#tell = tell;
    this.#told = held.work.fold.messageCount;
  }

  /**
   * Tells messages once they are saved: what a crash takes back was never said. Only results that
   * do no harm may still be on their way.
   */
  messages(): void {
    const { fold } = this.#held.work;
    for (; this.#told < fold.messageCount; this.#told++) {
      const message = fold.messageAt(this.#told) as Message;
      this.#tell(() => ({ type: "message", message, cursor: this.#cursor(message.seq) }));
      if (message.role !== "assistant") continue;
      const about = { sessionId: this.#held.id, agent: this.#definition.name, step: fold.replies };
      tellEvent(this.#held.ctx.telemetry, () => ({ type: "step", ...about, reply: message }));
    }
  }

  status(): void {
    this.#tell(() => ({
      type: "status",
      status: this.#held.work.fold.status,
      cursor: this.#cursor(),
    }));
  }

  call({ callId, name }: ToolCallPart, told: CallTold): void {
    const { effectId, state } = told;
    const call = { ...(effectId !== undefined && { effectId }), callId, name, state };
    this.#tell(() => ({
      type: "tool",
      ...call,
      ...(told.input !== undefined && { input: told.input }),
      ...(told.outcome !== undefined && { outcome: told.outcome, output: told.output }),
      cursor: this.#cursor(),
    }));
    const { tools, name: agent } = this.#definition;
    const about = { sessionId: this.#held.id, agent, known: tools.has(name) };
    tellEvent(this.#held.ctx.telemetry, () => ({ type: "call", ...about, ...call }));
  }

  /**
   * Where a follower may go on from, who knows all up to a record: never from behind what is
   * stored.
   */
  #cursor(upTo: number = this.#held.storedUpTo): string {
    const { branch, work, storedUpTo } = this.#held;
    const seq = Math.min(upTo, storedUpTo);
    return placeId(work.past.knownBranchAt(seq) ?? branch, Math.max(1, seq));
  }
}

/** From this many unread events on, deltas are put together. */
const MANY = 1_000;

/**
 * Events on their way to one reader. Never in the way of the run: what is not read waits, and small
 * pieces become larger ones.
 */
export class EventQueue implements AsyncIterable<AgentEvent> {
  readonly #events: AgentEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(event: AgentEvent): void {
    const last = this.#events.at(-1);
    if (
      this.#events.length >= MANY &&
      event.type === "delta" &&
      last?.type === "delta" &&
      isSameStream(last, event)
    )
      this.#events[this.#events.length - 1] = {
        ...last,
        delta: { ...last.delta, delta: last.delta.delta + event.delta.delta },
      };
    else this.#events.push(event);
    this.#wake?.();
  }

  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<AgentEvent> {
    for (;;) {
      const event = this.#events.shift();
      if (event !== undefined) yield event;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}

const isSameStream = (
  a: Extract<AgentEvent, { type: "delta" }>,
  b: Extract<AgentEvent, { type: "delta" }>,
): boolean => a.step === b.step && a.delta.id === b.delta.id && a.delta.type === b.delta.type;
