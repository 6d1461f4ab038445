/** Messages of smooth-operator. */
import type { Json, JsonObject, MessageInput, Part } from "../index.js";
import { at, isObject, listOrNone, textAt } from "./fields.js";
import { unreadable } from "./files.js";
import { fileAt, namedMessage, roleOf, withOwnIds } from "./messages.js";

export const messagesOf = (conversation: JsonObject): readonly MessageInput[] =>
  withOwnIds(listOrNone(conversation, "messages").map((message, i) => messageOf(message, `conversation.messages[${i}]`)));

function messageOf(given: Json, where: string): MessageInput {
  const theirs = isObject(given) ? textAt(given, "role") : undefined;
  if (!isObject(given) || theirs === undefined) throw unreadable(`${where} is no message with a role.`);
  const { role, was } = roleOf(theirs);
  const content = textAt(given, "content") ?? "";
  const callId = textAt(given, "tool_call_id");
  const name = textAt(given, "tool_name");
  const parts: Part[] = [];
  const reasoning = textAt(given, "reasoning_content");
  if (reasoning !== undefined) parts.push({ type: "reasoning", text: reasoning });
  if (callId !== undefined)
    parts.push({ type: "tool-result", callId, ...(name !== undefined && { name }), outcome: "ok", output: content });
  else if (content !== "") parts.push({ type: "text", text: content });
  for (const image of listOrNone(given, "images")) parts.push(imageOf(image, where));
  for (const call of listOrNone(given, "tool_calls")) parts.push(callOf(call, where));
  const [only] = parts;
  const isText = parts.length === 0 || (parts.length === 1 && only?.type === "text");
  return namedMessage(
    { role, content: isText ? content : parts },
    {
      id: textAt(given, "id"),
      source: { timestamp: at(given, "timestamp"), role: was, toolName: callId === undefined ? name : undefined },
    },
  );
}

function callOf(call: Json, where: string): Part {
  const callId = isObject(call) ? textAt(call, "id") : undefined;
  const name = isObject(call) ? textAt(call, "name") : undefined;
  if (!isObject(call) || callId === undefined || name === undefined) throw unreadable(`${where} has a tool call without an id or a name.`);
  return { type: "tool-call", callId, name, input: at(call, "arguments") ?? null };
}

function imageOf(image: Json, where: string): Part {
  const url = isObject(image) ? textAt(image, "url") : undefined;
  if (!isObject(image) || url === undefined) throw unreadable(`${where} has an image without an address.`);
  const detail = textAt(image, "detail");
  const part = fileAt(url, url.startsWith("data:") ? undefined : "image/*");
  return detail === undefined ? part : { ...part, provider: { smooth: { detail } } };
}
