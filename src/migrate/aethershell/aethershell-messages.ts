/**
 * Messages of AetherShell: attachments are files, tool calls keep their status, and answers stand
 * where providers expect them.
 */
import type {
  FilePart,
  Json,
  JsonObject,
  MessageInput,
  Part,
  ToolCallPart,
  ToolResultPart,
} from "../../index.js";
import { at, Fields, isObject, listAt, objectAt, present, textAt } from "../reading/fields.js";
import { unreadable } from "../reading/files.js";
import {
  bytesOf,
  fileAt,
  looseBytesOf,
  namedMessage,
  roleOf,
  withOwnIds,
} from "../reading/messages.js";
import type { FileReport } from "../reading/report.js";
import { plainMap } from "./aethershell-values.js";

/** `where` is the place of the list in its file. */
export function messagesOf(
  messages: readonly Json[],
  where: string,
  told: FileReport,
): readonly MessageInput[] {
  const given = messages.map((message, i) => {
    if (!isObject(message) || textAt(message, "role") === undefined)
      throw unreadable(`messages[${i}] is no message with a role.`);
    return message;
  });
  const answered = new Map(
    given.map((message) => [answerTo(message), textAt(message, "content") ?? ""]),
  );
  const failed = new Set(
    given
      .flatMap(callsOf)
      .flatMap((call) => (at(call, "status") === "Failed" ? [textAt(call, "id")] : [])),
  );
  return withOwnIds(
    given.flatMap((message) => [
      messageOf(
        new Fields(message, told, `${where}[]`),
        answerTo(message),
        { answered, failed },
        told,
      ),
      ...answersIn(message, answered),
    ]),
  );
}

const callsOf = (message: JsonObject): readonly JsonObject[] =>
  (listAt(message, "tool_calls") ?? []).filter(isObject);

/** The call that a message answers. */
const answerTo = (message: JsonObject): string | undefined =>
  at(message, "role") === "Tool"
    ? textAt(objectAt(message, "metadata") ?? {}, "tool_call_id")
    : undefined;

/** What messages answer to calls. */
type Answers = ReadonlyMap<string | undefined, string>;

interface Calls {
  readonly answered: Answers;
  readonly failed: ReadonlySet<string | undefined>;
}

function messageOf(
  fields: Fields,
  answers: string | undefined,
  { answered, failed }: Calls,
  told: FileReport,
): MessageInput {
  const { role, was } = roleOf(fields.text("role") ?? "");
  const content = fields.text("content") ?? "";
  const text: readonly Part[] =
    answers !== undefined
      ? [
          {
            type: "tool-result",
            callId: answers,
            outcome: failed.has(answers) ? "error" : "ok",
            output: content,
          },
        ]
      : content === ""
        ? []
        : [{ type: "text", text: content }];
  const parts = [
    ...text,
    ...fields.objects("attachments").map(fileOf),
    ...fields.objects("tool_calls").map((call) => callOf(call, answered, told)),
  ];
  const isText = parts.length === 0 || (parts.length === 1 && parts[0]?.type === "text");
  return namedMessage(
    { role, content: isText ? content : parts },
    {
      id: fields.text("id"),
      parentId: fields.text("parent_id"),
      metadata: fields.object("metadata"),
      source: fields.source(
        {
          timestamp: fields.any("timestamp"),
          tokens: fields.any("tokens"),
          role: was?.toLowerCase() === role ? undefined : was,
        },
        Number.POSITIVE_INFINITY,
      ),
    },
  );
}

function callOf(call: Fields, answered: Answers, told: FileReport): ToolCallPart {
  const { plain, tagged } = plainMap(call.object("arguments"), told);
  const callId = call.text("id") ?? "";
  // A message answers it: what it says itself is kept where that is something else.
  const answer = answered.get(callId);
  const own = call.any("result");
  const result = answer === undefined || answer === own ? undefined : own;
  const theirs = present({ status: call.any("status"), arguments: tagged, result });
  return {
    type: "tool-call",
    callId,
    name: call.text("name") ?? "",
    input: plain,
    ...(Object.keys(theirs).length > 0 && { provider: { aethershell: theirs } }),
  };
}

/**
 * Answers that stand in the calls themselves, as a message of their own; not those that a message
 * gives as well.
 */
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
  return parts.length === 0
    ? []
    : [
        {
          role: "tool",
          content: parts,
          ...(of !== undefined && { metadata: { source: { answersIn: of } } }),
        },
      ];
}

function fileOf(attachment: Fields): FilePart {
  const id = attachment.any("id");
  const type = attachment.text("attachment_type");
  const content = attachment.text("content");
  const url = attachment.text("url");
  const name = attachment.text("name");
  const said = attachment.text("mime_type") || undefined;
  const theirs = present({
    id,
    type,
    size: attachment.any("size"),
    url: content === undefined ? undefined : url,
  });
  const mediaType = said ?? "application/octet-stream";
  const isText = type === "Code" || mediaType.startsWith("text/");
  const isMedia = type === "Image" || type === "Audio" || type === "Video";
  const bytes =
    content === undefined || isText
      ? undefined
      : isMedia
        ? looseBytesOf(content)
        : bytesOf(content);
  const data: FilePart["data"] =
    bytes !== undefined
      ? { bytes }
      : content !== undefined
        ? { text: content }
        : url !== undefined
          ? fileAt(url, said).data
          : { ref: { aethershell: typeof id === "string" ? id : "" } };
  return {
    type: "file",
    mediaType,
    data,
    ...(name !== undefined && { name }),
    provider: { aethershell: theirs },
  };
}
