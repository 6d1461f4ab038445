/** What a store tells of its work, to whoever listens. Nothing in it can stop a run. */
import type { Mode } from "../../core/effects/effect.js";
import type { Checkpoint } from "../../core/journal/checkpoint.js";
import type { ToolState } from "../../core/messages/agent-event.js";
import type { Message, MessageInput } from "../../core/messages/message.js";
import type { ToolDescription } from "../../core/messages/model.js";
import type { Json } from "../../core/values/json.js";

interface About {
  readonly sessionId: string;
  readonly agent: string;
}

/** Something that takes time. */
export type Operation =
  | (About & { readonly type: "run"; readonly version?: string })
  | (About & {
      readonly type: "model";
      readonly step: number;
      readonly system: string;
      readonly messages: readonly Message[];
      readonly tools: readonly ToolDescription[];
    })
  | (About & {
      readonly type: "tool";
      readonly callId: string;
      readonly name: string;
      readonly effectId: string;
      readonly mode: Mode;
      readonly attempt: number;
      readonly input: Json;
    });

/** What came of it. */
export type Result =
  | { readonly reply: MessageInput }
  | { readonly output: unknown }
  | { readonly status: string; readonly turnId: string };

/** Something that telemetry is told: a call, a checkpoint, or a resume. */
export type TelemetryEvent =
  | (About & { readonly type: "step"; readonly step: number; readonly reply: Message })
  | (About & {
      readonly type: "call";
      /** Absent where the call was refused before it had an effect. */
      readonly effectId?: string;
      readonly callId: string;
      /** As the model wrote it. */
      readonly name: string;
      /** Whether the agent has that tool: a model may ask for any. */
      readonly known: boolean;
      readonly state: ToolState;
    })
  | (About & { readonly type: "resume"; readonly turnId: string; readonly step: number })
  | {
      readonly type: "checkpoint";
      readonly sessionId: string;
      readonly agent: string | undefined;
      readonly checkpoint: Checkpoint;
    };

/** A listener for runs, model calls and tool calls; `otel()` of `holdfast/otel` is one. */
export interface Telemetry {
  /**
   * Called around everything that takes time. Calls `go` once, and gives what it gives; `go` is
   * given a function to say what came of it.
   */
  around?<T>(operation: Operation, go: (tell: (result: Result) => void) => Promise<T>): Promise<T>;
  event?(event: TelemetryEvent): void;
}

/** Runs something inside whatever listens. A listener that fails is left out. */
export function observed<T>(
  telemetry: Telemetry | undefined,
  operation: () => Operation,
  go: (tell: (result: Result) => void) => Promise<T>,
): Promise<T> {
  // Where nobody listens, nothing is put around it.
  return telemetry?.around === undefined
    ? go(unheard)
    : around(telemetry as Required<Telemetry>, operation, go);
}

const unheard = (): void => {};

async function around<T>(
  telemetry: Pick<Required<Telemetry>, "around">,
  operation: () => Operation,
  go: (tell: (result: Result) => void) => Promise<T>,
): Promise<T> {
  let going: Promise<T> | undefined;
  try {
    await telemetry.around(operation(), (tell) => {
      going ??= go((result) => {
        try {
          tell(result);
        } catch {
          // Its own affair.
        }
      });
      return going;
    });
  } catch {
    // What the work itself threw is thrown below; what the listener threw is its own affair.
  }
  // Whatever the listener made of it: what the work gave is what counts.
  return going ?? go(unheard);
}

export function tellEvent(telemetry: Telemetry | undefined, event: () => TelemetryEvent): void {
  if (telemetry?.event === undefined) return;
  try {
    telemetry.event(event());
  } catch {
    // Its own affair.
  }
}
