/** A checkpoint of smooth-operator, wherever it was stored. */
import type { JsonObject } from "../index.js";
import { at, countAt, objectAt, present } from "./fields.js";
import { unreadable } from "./files.js";
import type { Content, Step } from "./model.js";
import { messagesOf } from "./smooth-messages.js";
import type { Moment } from "./times.js";

export interface Light {
  readonly agent: string;
  readonly conversation: string;
  readonly time: Moment | undefined;
  readonly iteration: bigint;
  /** What decides where even the iteration is the same. */
  readonly last: string | bigint;
  readonly record: Step;
}

/** All of a checkpoint, in the shape of its file. */
export function contentOf(value: JsonObject): Content {
  const conversation = objectAt(value, "conversation");
  if (conversation === undefined) throw unreadable("It has no conversation.");
  const iteration = countAt(value, "iteration");
  const metadata = objectAt(value, "metadata");
  return {
    messages: messagesOf(conversation),
    mark: { kind: "automatic", ...(iteration !== undefined && { step: iteration }) },
    ...(metadata && { metadata }),
    source: present({
      createdAt: at(value, "created_at"),
      iteration: iteration === undefined ? at(value, "iteration") : undefined,
      conversation: at(conversation, "id"),
      maxContextTokens: at(conversation, "max_context_tokens"),
    }),
  };
}
