/** What a model is asked, and what it answers. */
import type { Json, JsonObject } from "../values/json.js";
import type { Finish, Message, Part, Provider, Usage } from "./message.js";

/** A tool, as the model is told of it. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

/** A piece of a reply that a model streams. */
export type Delta = {
  readonly type: "text" | "reasoning" | "tool-input";
  readonly id: string;
  readonly delta: string;
};

/** The request that your model adapter gets. */
export interface ModelRequest {
  readonly system: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDescription[];
  /** The same when the same is asked again after a crash. */
  readonly key: string;
  readonly signal: AbortSignal;
  /**
   * The number of the first message (`seq`) under the present system text and tools. What a
   * provider signed before that was signed under others: some refuse to be shown it again.
   */
  readonly prefixSince: number;
  /** Show a piece of the reply to those who follow the run's stream. */
  emit(this: void, delta: Delta): void;
}

/** The reply of a model, as your adapter gives it. */
export interface ModelReply {
  readonly content: string | readonly Part[];
  readonly toolCalls?: readonly {
    readonly callId: string;
    readonly name: string;
    /** A value, or its JSON as text. */
    readonly input: Json | string;
  }[];
  readonly finish?: Finish;
  readonly rawFinish?: string;
  readonly usage?: Usage;
  readonly provider?: Provider;
  readonly model?: string;
  readonly responseId?: string;
}
