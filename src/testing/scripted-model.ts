/** A model that says what it is told to: for tests and demos without a key. */
import type { ModelReply, ModelRequest } from "../core/messages/model.js";
import { listOf } from "../core/values/check-options.js";

/** A reply of a script: a text, a reply, or a function that makes one. */
export type ScriptedReply =
  | string
  | ModelReply
  | ((request: ModelRequest) => ModelReply | string | Promise<ModelReply | string>);

/** A model that gives the replies of a script. */
export interface ScriptedModel {
  (request: ModelRequest): Promise<ModelReply>;
  /** What it was asked, in order. */
  readonly requests: readonly ModelRequest[];
}

/**
 * Make a model that gives replies in their order: for tests and demos without a key.
 * The transcript says which one is next, as it does for a real model: after a crash a run is given
 * the reply that it would have been given.
 *
 * @example
 * const clerk = hold.agent({ name: "clerk", model: scriptedModel(["Hello.", "Goodbye."]) });
 * await clerk.run("chat-1", "hi");
 */
export function scriptedModel(script: readonly ScriptedReply[]): ScriptedModel {
  const replies = listOf(script, "replies", "a list of replies") as readonly ScriptedReply[];
  const requests: ModelRequest[] = [];
  const model = async (request: ModelRequest): Promise<ModelReply> => {
    requests.push(request);
    const said = request.messages.filter(({ role }) => role === "assistant").length;
    const next = replies[said];
    if (next === undefined)
      throw new Error(`The script has ${replies.length} replies, and one more was asked for.`);
    const reply = typeof next === "function" ? await next(request) : next;
    return typeof reply === "string" ? { content: reply } : reply;
  };
  return Object.assign(model, { requests });
}
