/** What a run answers. */
import type { Message, Usage } from "../../../core/messages/message.js";
import type { Pending } from "../../../engine/calls/pending.js";

/** How a turn has ended, or what it waits for. */
export type RunResult<O = unknown> = {
  readonly sessionId: string;
  readonly turnId: string;
  /** Of the whole session. */
  readonly usage: Usage;
  /** The agent's last message. */
  readonly message?: Message;
} & (
  | { readonly status: "completed"; readonly output: O; readonly replayed: boolean }
  | { readonly status: "waiting"; readonly pending: readonly Pending[] }
  | { readonly status: "in-doubt"; readonly pending: readonly Pending[] }
  | { readonly status: "halted"; readonly reason: string }
  | { readonly status: "stopped"; readonly reason: "aborted" | "cancelled" | "superseded" }
  | {
      readonly status: "failed";
      readonly error: { readonly name: string; readonly message: string; readonly code?: string };
    }
);
