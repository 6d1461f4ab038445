/** Messages of AetherShell: attachments are files, tool calls keep their status, and answers stand where providers expect them. */
import type { FilePart, Json, JsonObject, MessageInput, Part, ToolCallPart, ToolResultPart } from "../index.js";
import { plainMap } from "./aethershell-values.js";
import { at, isObject, listOrNone, objectAt, objectsOrNone, present, textAt } from "./fields.js";
import { unreadable } from "./files.js";
import { bytesOf, fileAt, looseBytesOf, namedMessage, roleOf, withOwnIds } from "./messages.js";

export function messagesOf(conversation: JsonObject, onNaN: () => void): readonly MessageInput[] {
  const given = listOrNone(conversation, "messages").map((message, i) => {
    if (!isObject(message) || textAt(message, "role") === undefined) throw unreadable(`messages[${i}] is no message with a role.`);
    return message;
  });
  const answered = new Map(given.map((message) => [answerTo(message), textAt(message, "content") ?? ""]));
  const failed = new Set(given.flatMap(callsOf).flatMap((call) => (at(call, "status") === "Failed" ? [textAt(call, "id")] : [])));
  return withOwnIds(given.flatMap((message) => [messageOf(message, answered, failed, onNaN), ...answersIn(message, answered)]));
}

const callsOf = (message: JsonObject): readonly JsonObject[] => objectsOrNone(message, "tool_calls");

/** The call that a message answers. */
const answerTo = (message: JsonObject): string | undefined =>
  at(message, "role") === "Tool" ? textAt(objectAt(message, "metadata") ?? {}, "tool_call_id") : undefined;

/** What messages answer to calls. */
type Answers = ReadonlyMap<string | undefined, string>;

function messageOf(message: JsonObject, answered: Answers, failed: ReadonlySet<string | undefined>, onNaN: () => void): MessageInput {
  const { role, was } = roleOf(textAt(message, "role") ?? "");
  const content = textAt(message, "content") ?? "";
  const answers = answerTo(message);
  const text: readonly Part[] =
    answers !== undefined
      ? [{ type: "tool-result", callId: answers, outcome: failed.has(answers) ? "error" : "ok", output: content }]
      : content === ""
        ? []
        : [{ type: "text", text: content }];
  const parts = [
    ...text,
    ...objectsOrNone(message, "attachments").map(fileOf),
    ...callsOf(message).map((call) => callOf(call, answered, onNaN)),
  ];
  const isText = parts.length === 0 || (parts.length === 1 && parts[0]?.type === "text");
  return namedMessage(
    { role, content: isText ? content : parts },
    {
      id: textAt(message, "id"),
      parentId: textAt(message, "parent_id"),
      metadata: objectAt(message, "metadata"),
      source: { timestamp: at(message, "timestamp"), tokens: at(message, "tokens"), role: was?.toLowerCase() === role ? undefined : was },
    },
  );
}

function callOf(call: JsonObject, answered: Answers, onNaN: () => void): ToolCallPart {
  const { plain, tagged } = plainMap(call, "arguments", onNaN);
  // A message answers it: what it says itself is kept where that is something else.
  const told = answered.get(textAt(call, "id") ?? "");
  const result = told === undefined || told === at(call, "result") ? undefined : at(call, "result");
  const theirs = present({ status: at(call, "status"), arguments: tagged, result });
  return {
    type: "tool-call",
    callId: textAt(call, "id") ?? "",
    name: textAt(call, "name") ?? "",
    input: plain,
    ...(Object.keys(theirs).length > 0 && { provider: { aethershell: theirs } }),
  };
}

/** Answers that stand in the calls themselves, as a message of their own; not those that a message gives as well. */
function answersIn(message: JsonObject, answered: Answers): readonly MessageInput[] {
  const parts = callsOf(message).flatMap((call): readonly ToolResultPart[] => {
    const callId = textAt(call, "id") ?? "";
    const output: Json | undefined = at(call, "result");
    if (output === undefined || output === null || answered.has(callId)) return [];
    const name = textAt(call, "name");
    return [
      {
        type: "tool-result",
        callId,
        ...(name !== undefined && { name }),
        outcome: at(call, "status") === "Failed" ? "error" : "ok",
        output,
      },
    ];
  });
  const of = textAt(message, "id");
  return parts.length === 0 ? [] : [{ role: "tool", content: parts, ...(of !== undefined && { metadata: { source: { answersIn: of } } }) }];
}

function fileOf(attachment: JsonObject): FilePart {
  const type = textAt(attachment, "attachment_type");
  const content = textAt(attachment, "content");
  const url = textAt(attachment, "url");
  const name = textAt(attachment, "name");
  const said = textAt(attachment, "mime_type") || undefined;
  const theirs = present({ id: at(attachment, "id"), type, size: at(attachment, "size"), url: content === undefined ? undefined : url });
  const mediaType = said ?? "application/octet-stream";
  const isText = type === "Code" || mediaType.startsWith("text/");
  const isMedia = type === "Image" || type === "Audio" || type === "Video";
  const bytes = content === undefined || isText ? undefined : isMedia ? looseBytesOf(content) : bytesOf(content);
  const data: FilePart["data"] =
    bytes !== undefined
      ? { bytes }
      : content !== undefined
        ? { text: content }
        : url !== undefined
          ? fileAt(url, said).data
          : { ref: { aethershell: textAt(attachment, "id") ?? "" } };
  return { type: "file", mediaType, data, ...(name !== undefined && { name }), provider: { aethershell: theirs } };
}
