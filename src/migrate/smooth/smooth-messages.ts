/** Messages of smooth-operator. */
import type { Json, MessageInput, Part } from "../../index.js";
import { Fields, isObject } from "../reading/fields.js";
import { unreadable } from "../reading/files.js";
import { fileAt, namedMessage, roleOf, withOwnIds } from "../reading/messages.js";
import type { FileReport } from "../reading/report.js";

const WHERE = "conversation.messages";

export const messagesOf = (messages: readonly Json[], told: FileReport): readonly MessageInput[] =>
  withOwnIds(messages.map((message, i) => messageOf(message, `${WHERE}[${i}]`, told)));

function messageOf(given: Json, where: string, told: FileReport): MessageInput {
  const fields = isObject(given) ? new Fields(given, told, `${WHERE}[]`) : undefined;
  const theirs = fields?.text("role");
  if (fields === undefined || theirs === undefined)
    throw unreadable(`${where} is no message with a role.`);
  const { role, was } = roleOf(theirs);
  const content = fields.text("content") ?? "";
  const callId = fields.text("tool_call_id");
  const name = fields.text("tool_name");
  const parts: Part[] = [];
  const reasoning = fields.text("reasoning_content");
  if (reasoning !== undefined) parts.push({ type: "reasoning", text: reasoning });
  if (callId !== undefined)
    parts.push({
      type: "tool-result",
      callId,
      ...(name !== undefined && { name }),
      outcome: "ok",
      output: content,
    });
  else if (content !== "") parts.push({ type: "text", text: content });
  for (const image of fields.objects("images")) parts.push(imageOf(image, where));
  for (const call of fields.objects("tool_calls")) parts.push(callOf(call, where));
  const [only] = parts;
  const isText = parts.length === 0 || (parts.length === 1 && only?.type === "text");
  return namedMessage(
    { role, content: isText ? content : parts },
    {
      id: fields.text("id"),
      source: fields.source(
        {
          timestamp: fields.any("timestamp"),
          role: was,
          toolName: callId === undefined ? name : undefined,
        },
        Number.POSITIVE_INFINITY,
      ),
    },
  );
}

function callOf(call: Fields, where: string): Part {
  const callId = call.text("id");
  const name = call.text("name");
  if (callId === undefined || name === undefined)
    throw unreadable(`${where} has a tool call without an id or a name.`);
  return { type: "tool-call", callId, name, input: call.any("arguments") ?? null };
}

function imageOf(image: Fields, where: string): Part {
  const url = image.text("url");
  if (url === undefined) throw unreadable(`${where} has an image without an address.`);
  const detail = image.text("detail");
  const part = fileAt(url, url.startsWith("data:") ? undefined : "image/*");
  return detail === undefined ? part : { ...part, provider: { smooth: { detail } } };
}
