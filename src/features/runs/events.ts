/** What a run tells while it goes: to whoever streams it. */
import type { AgentEvent } from "../../core/messages/agent-event.js";

export type Sink = (event: AgentEvent) => void;
export type Tell = (make: () => AgentEvent) => void;

/** Deltas that nobody has read yet are put together from this many on. */
const MANY = 1_000;

/** Events on their way to one reader. Never in the way of the run: what is not read waits, and small pieces become larger ones. */
export class EventQueue implements AsyncIterable<AgentEvent> {
  readonly #events: AgentEvent[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  push(event: AgentEvent): void {
    const last = this.#events.at(-1);
    if (this.#events.length >= MANY && event.type === "delta" && last?.type === "delta" && isSameStream(last, event))
      this.#events[this.#events.length - 1] = { ...last, delta: { ...last.delta, delta: last.delta.delta + event.delta.delta } };
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

const isSameStream = (a: Extract<AgentEvent, { type: "delta" }>, b: Extract<AgentEvent, { type: "delta" }>): boolean =>
  a.step === b.step && a.delta.id === b.delta.id && a.delta.type === b.delta.type;
