/** What a run tells while it goes. */
import type { Json } from "../values/json.js";
import type { Message } from "./message.js";
import type { Delta } from "./model.js";

export type ToolState =
  | "started"
  | "done"
  | "replayed"
  | "error"
  | "denied"
  | "waiting"
  | "in-doubt";

export type AgentEvent =
  | { readonly type: "delta"; readonly step: number; readonly delta: Delta }
  /**
   * The reply that deltas have shown so far is asked for again: what was shown of this step does
   * not count.
   */
  | { readonly type: "discard"; readonly step: number }
  | { readonly type: "message"; readonly message: Message; readonly cursor: string }
  | {
      readonly type: "tool";
      readonly callId: string;
      readonly name: string;
      readonly state: ToolState;
      readonly cursor: string;
    }
  | { readonly type: "data"; readonly callId: string; readonly data: Json }
  | { readonly type: "status"; readonly status: string; readonly cursor: string };
