/** What a run tells while it goes: to whoever streams it. */
import type { Json } from "../../core/json.js";
import type { Message } from "../../core/message.js";
import type { Delta } from "./definition.js";

export type ToolState = "started" | "done" | "replayed" | "error" | "denied" | "waiting" | "in-doubt";

export type AgentEvent =
  | { readonly type: "delta"; readonly step: number; readonly delta: Delta }
  /** The reply that deltas have shown so far is asked for again: what was shown of this step does not count. */
  | { readonly type: "discard"; readonly step: number }
  | { readonly type: "message"; readonly message: Message; readonly cursor: string }
  | { readonly type: "tool"; readonly callId: string; readonly name: string; readonly state: ToolState; readonly cursor: string }
  | { readonly type: "data"; readonly callId: string; readonly data: Json }
  | { readonly type: "status"; readonly status: string; readonly cursor: string };

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
