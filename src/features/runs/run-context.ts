/** What all parts of one run share. */
import type { Bounds } from "../../core/messages/limits.js";
import type { JsonObject } from "../../core/values/json.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import type { Input, SessionView } from "./define/agent-types.js";
import type { Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import type { RunEvents, Tell } from "./events.js";

/** `key`: the name of the turn, where the child has only one. */
export type ChildRunner = (
  agent: unknown,
  id: string,
  input: Input,
  key: string | undefined,
) => Promise<RunResult>;

export interface RunContext {
  readonly held: HeldSession;
  readonly ctx: StoreContext;
  readonly definition: Definition;
  readonly session: SessionView<unknown>;
  readonly context: unknown;
  /** Aborts when nothing more is to be begun. */
  readonly stop: AbortSignal;
  /** Tells those who follow the run. Without a follower, an event is not even made. */
  readonly tell: Tell;
  readonly events: RunEvents;
  readonly bounds: Bounds;
  readonly runChild: ChildRunner;
}

export function viewOf(held: HeldSession): SessionView<unknown> {
  return {
    id: held.id,
    get messages() {
      return held.work.fold.messages;
    },
    get state() {
      return held.work.fold.state as JsonObject;
    },
    metadata: held.label.metadata,
    tags: held.label.tags,
  };
}
