/** What an agent answers, where its answer has a schema. */
import { type Message, textOf } from "../../core/messages/message.js";
import { encode, type Json } from "../../core/values/json.js";
import { lossIn, parseJson } from "../../core/values/lossless-json.js";
import { words } from "../../engine/calls/execute-call.js";
import type { Definition } from "./define/compile-agent.js";
import { validate } from "./define/schema.js";

/**
 * The answer in an agent's last words, as it is stored; or what is wrong with it, in words for the
 * model.
 */
export async function answerIn(
  message: Message,
  output: NonNullable<Definition["output"]>,
): Promise<{ readonly value: Json } | { readonly flaw: string }> {
  let value: Json;
  try {
    const parsed = parseJson(unfenced(textOf(message)));
    const loss = lossIn(parsed);
    if (loss !== undefined) return { flaw: loss };
    value = encode(parsed.value, "output").value;
  } catch (error) {
    return { flaw: `it is not JSON (${words(error)})` };
  }
  const parsed = await validate(output, value);
  return "flaw" in parsed ? parsed : { value };
}

/**
 * As the schema gives it out. What was stored fitted when it was: if the schema has changed since,
 * it is given as it is.
 */
export async function outputOf({ output }: Definition, value: unknown): Promise<unknown> {
  if (output === undefined) return value;
  const parsed = await validate(output, value);
  return "value" in parsed ? parsed.value : value;
}

/** JSON as models like to give it: in a fence. Linear for any text. */
function unfenced(text: string): string {
  const trimmed = text.trim();
  if (trimmed.length < 6 || !trimmed.startsWith("```") || !trimmed.endsWith("```")) return text;
  const inside = trimmed.slice(3, -3);
  const head = /^(?:json)?[^\S\n]*\n/.exec(inside);
  return head === null ? text : inside.slice(head[0].length);
}
