/** What a run tells while it goes. */
import type { Json } from "../values/json.js";
import type { Message, ToolResultPart } from "./message.js";
import type { Delta } from "./model.js";

/**
 * started: intended, or begun again. ready: approved, or what it waited for has come. replayed:
 * answered from a call in another past.
 */
export type ToolState =
  | "started"
  | "waiting"
  | "ready"
  | "in-doubt"
  | "done"
  | "replayed"
  | "error"
  | "denied";

/** What is told of a call: the same to those who stream a run and to those who follow a session. */
export interface ToolEvent {
  readonly type: "tool";
  /** Absent where the call was refused before it had an effect. */
  readonly effectId?: string;
  /** As the reply names it. Absent of a call by hand. */
  readonly callId?: string;
  readonly name?: string;
  readonly state: ToolState;
  /** With the first event of a call; and with its approval, where somebody gave another input. */
  readonly input?: Json;
  /** With the event that ends it: what came of it. */
  readonly outcome?: ToolResultPart["outcome"];
  readonly output?: Json;
}

/** Something that `agent.stream` shows while a run goes on. */
export type AgentEvent =
  | { readonly type: "delta"; readonly step: number; readonly delta: Delta }
  /**
   * The reply that deltas have shown so far is asked for again: what was shown of this step does
   * not count.
   */
  | { readonly type: "discard"; readonly step: number }
  | { readonly type: "message"; readonly message: Message; readonly cursor: string }
  | (ToolEvent & { readonly callId: string; readonly name: string; readonly cursor: string })
  | {
      readonly type: "data";
      readonly effectId: string;
      readonly callId: string;
      readonly data: Json;
    }
  | { readonly type: "status"; readonly status: string; readonly cursor: string };
