/** A model that says what it is told to: for tests and demos without a key. */
import type { ModelReply, ModelRequest } from "../core/messages/model.js";
import { listOf } from "../core/values/given.js";

export type ScriptedReply =
  | string
  | ModelReply
  | ((request: ModelRequest) => ModelReply | string | Promise<ModelReply | string>);

export interface ScriptedModel {
  (request: ModelRequest): Promise<ModelReply>;
  /** What it was asked, in order. */
  readonly requests: readonly ModelRequest[];
}

/**
 * Gives the replies in their order. Which one is next follows from the transcript, as it does for a
 * real model: a run that goes on after a crash is given the reply that it would have been given.
 */
export function scriptedModel(given: readonly ScriptedReply[]): ScriptedModel {
  const replies = listOf(given, "replies", "a list of replies") as readonly ScriptedReply[];
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
