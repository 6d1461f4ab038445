/** A checkpoint of smooth-operator, wherever it was stored. */
import type { JsonObject } from "../../index.js";
import { Fields, roomBeside } from "../reading/fields.js";
import { unreadable } from "../reading/files.js";
import type { Content, Step } from "../reading/model.js";
import type { FileReport } from "../reading/report.js";
import type { Moment } from "../reading/times.js";
import { messagesOf } from "./smooth-messages.js";

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
export function contentOf(value: JsonObject, told: FileReport): Content {
  const fields = new Fields(value, told);
  const conversation = fields.fields("conversation");
  if (conversation === undefined) throw unreadable("It has no conversation.");
  // The step and the session have these.
  fields.text("id");
  fields.text("agent_id");
  const iteration = fields.count("iteration");
  const metadata = fields.object("metadata");
  return {
    messages: messagesOf(conversation.items("messages"), told),
    mark: { kind: "automatic", ...(iteration !== undefined && { step: iteration }) },
    ...(metadata && { metadata }),
    source: fields.source(
      {
        createdAt: fields.any("created_at"),
        iteration: iteration === undefined ? fields.any("iteration") : undefined,
        conversation: conversation.any("id"),
        maxContextTokens: conversation.any("max_context_tokens"),
      },
      roomBeside(metadata),
    ),
  };
}
