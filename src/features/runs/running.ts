/** What all parts of one run share. */
import type { Bounds } from "../../core/messages/limits.js";
import { placeId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import type { Ground } from "../../engine/journal/ground.js";
import type { Holding } from "../../engine/session/holding.js";
import type { Definition } from "./define/define.js";
import type { Input, SessionView } from "./define/definition.js";
import type { RunResult } from "./define/result.js";
import type { Tell } from "./events.js";

/** `key`: the name of the turn, where the child has only one. */
type ChildRunner = (agent: unknown, id: string, input: Input, key: string | undefined) => Promise<RunResult>;

export interface Running {
  readonly held: Holding;
  readonly ground: Ground;
  readonly definition: Definition;
  readonly session: SessionView<unknown>;
  readonly context: unknown;
  /** Aborts when nothing more is to be begun. */
  readonly stop: AbortSignal;
  /** Tells whoever follows the run; what nobody follows is not even made. */
  readonly tell: Tell;
  readonly bounds: Bounds;
  readonly runChild: ChildRunner;
}

export function viewOf(held: Holding): SessionView<unknown> {
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

/** Where a follower may go on from, who knows all up to a record: never from behind what is stored. */
export function cursorOf({ held: { line, work, storedUpTo } }: Running, upTo: number = storedUpTo): string {
  const seq = Math.min(upTo, storedUpTo);
  return placeId(work.past.knownLineAt(seq) ?? line, Math.max(1, seq));
}
