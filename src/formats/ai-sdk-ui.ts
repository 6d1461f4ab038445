/** UI messages of the AI SDK: a call and what came of it are one part. */
import { isObject } from "../core/messages/message.js";
import { checkName } from "../core/values/ids.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { type Codec, type Written, whole } from "./codec.js";
import { arranged, type Piece, type Result, type Verbatim } from "./normalize-order.js";
import {
  type PlainFile,
  type PlainMessage,
  type PlainPart,
  type PlainResult,
  partsOfOutput,
} from "./plain.js";
import {
  dataOfUrl,
  dataUrl,
  fieldsBack,
  given,
  isMediaType,
  isText,
  kept,
  opaque,
  others,
} from "./provider-fields.js";

const ME = "ai-sdk-ui";
const PART = `${ME}/part`;
type Call = Extract<PlainPart, { readonly type: "tool-call" }>;

export const aiSdkUi: Codec = {
  write: (messages) =>
    arranged(messages, ME).flatMap(({ pieces, results }) =>
      pieces.flatMap((piece) => writePiece(piece, results, messages)),
    ),
  read: (items) => items.map((item) => readItem(item) ?? whole(ME, item)),
};

// ---- ours to theirs

function writePiece(
  piece: Piece | Verbatim,
  results: readonly (Result | Piece)[],
  messages: readonly PlainMessage[],
): readonly Written[] {
  if ("verbatim" in piece) return [{ item: piece.verbatim, of: [piece.of] }];
  const { of, role, content } = piece;
  if (role === "tool") return [];
  const parts: readonly PlainPart[] =
    typeof content === "string" ? [{ type: "text", text: content }] : content;
  const from = new Set([of]);
  // A provider answers its own calls, in the same message. Calls of ours may have the same ids, and
  // what answers them is another thing.
  const byProvider = new Map<string, PlainResult>();
  for (const part of parts) if (part.type === "tool-result") byProvider.set(part.callId, part);
  const byTools = new Map<string, Result>();
  for (const result of results) if ("result" in result) byTools.set(result.result.callId, result);
  const said = parts.flatMap((part): readonly JsonObject[] => {
    if (part.type !== "tool-call") return writePart(part);
    if (role !== "assistant") return [];
    if (part.by === "provider") return [writeCall(part, byProvider.get(part.callId))];
    const answer = byTools.get(part.callId);
    if (answer !== undefined) from.add(answer.of);
    return [writeCall(part, answer?.result)];
  });
  if (said.length === 0 && parts.length > 0) return [];
  const { id, metadata } = messages[of] as PlainMessage;
  // A message without an id is none here.
  const item = {
    id: id ?? `message-${of}`,
    role,
    ...(metadata !== undefined && { metadata }),
    parts: said,
    ...fieldsBack(given(ME, piece)),
  };
  return [{ item, of: [...from] }];
}

function writePart(part: PlainPart): readonly JsonObject[] {
  const own = given(ME, part);
  if (part.type === "text") return [{ type: "text", text: part.text, ...own }];
  if (part.type === "reasoning") return [{ type: "reasoning", text: part.text, ...own }];
  if (part.type === "opaque")
    return part.format === PART && isObject(part.value) ? [part.value as JsonObject] : [];
  return part.type === "file" ? writeFile(part, own) : [];
}

function writeFile({ mediaType, data, name }: PlainFile, own: JsonObject): readonly JsonObject[] {
  const url =
    "url" in data
      ? data.url
      : "bytes" in data && isMediaType(mediaType)
        ? dataUrl(mediaType, data.bytes)
        : undefined;
  return url === undefined
    ? []
    : [{ type: "file", mediaType, url, ...(name !== undefined && { filename: name }), ...own }];
}

function writeCall(call: Call, answer: PlainResult | undefined): JsonObject {
  const { callId: toolCallId, name, input, by } = call;
  const own = given(ME, call);
  const named = own.type === "dynamic-tool" ? { toolName: name } : { type: `tool-${name}` };
  return {
    ...named,
    toolCallId,
    input,
    ...(by === "provider" && { providerExecuted: true }),
    ...writeState(answer),
    ...own,
  };
}

/** Of parts that were shown, what they were is told as it is. */
function writeState(answer: PlainResult | undefined): JsonObject {
  if (answer === undefined) return { state: "input-available" };
  const output = answer.output as Json;
  if (answer.outcome === "ok")
    return {
      state: "output-available",
      output: partsOfOutput(output) === undefined ? output : shownIn(output),
    };
  const text = isText(output) ? output : JSON.stringify(output);
  if (answer.outcome === "error") return { state: "output-error", errorText: text };
  return { state: "output-denied", approval: { id: answer.callId, approved: false, reason: text } };
}

const shownIn = (output: Json): Json =>
  (output as readonly JsonObject[])
    .flatMap((part) => (part.type === "text" ? [part.text as string] : []))
    .join("");

// ---- theirs to ours

function readItem(item: JsonObject): PlainMessage | undefined {
  const { id, role, metadata, parts } = item;
  if (
    !isText(id) ||
    !isName(id) ||
    (role !== "system" && role !== "user" && role !== "assistant") ||
    !Array.isArray(parts)
  )
    return undefined;
  const hasMetadata = isObject(metadata);
  const more = kept(ME, others(item, "id", "role", "parts", ...(hasMetadata ? ["metadata"] : [])));
  const content = (parts as readonly Json[]).flatMap(
    (part) => (isObject(part) ? readPart(part as JsonObject) : undefined) ?? [opaque(PART, part)],
  );
  return { id, role, content, ...(hasMetadata && { metadata: metadata as JsonObject }), ...more };
}

function isName(id: string): boolean {
  try {
    return checkName(id, "id") === id;
  } catch {
    return false;
  }
}

function readPart(part: JsonObject): readonly PlainPart[] | undefined {
  const { type, text, mediaType, url, filename } = part;
  if (type === "text" || type === "reasoning")
    return isText(text) ? [{ type, text, ...kept(ME, others(part, "type", "text")) }] : undefined;
  if (type === "file") {
    if (!isText(mediaType) || !isText(url)) return undefined;
    const read = dataOfUrl(url, mediaType);
    const name = isText(filename) ? { name: filename } : undefined;
    const more = kept(ME, others(part, "type", "mediaType", "url", ...(name ? ["filename"] : [])));
    return [
      {
        type: "file",
        ...(read.mediaType === mediaType ? read : { mediaType, data: { url } }),
        ...name,
        ...more,
      },
    ];
  }
  return isText(type) && (type === "dynamic-tool" || type.startsWith("tool-"))
    ? readCall(part, type)
    : undefined;
}

function readCall(part: JsonObject, type: string): readonly PlainPart[] | undefined {
  const {
    toolCallId: callId,
    toolName,
    input,
    state,
    output,
    errorText,
    approval,
    providerExecuted,
  } = part;
  const isDynamic = type === "dynamic-tool";
  const name = isDynamic ? toolName : type.slice("tool-".length);
  if (!isText(callId) || !isText(name) || input === undefined) return undefined;
  const by = providerExecuted === true ? ({ by: "provider" } as const) : undefined;
  const known = [
    "toolCallId",
    "input",
    ...(isDynamic ? ["toolName"] : ["type"]),
    ...(by ? ["providerExecuted"] : []),
  ];
  const call = (...more: readonly string[]): PlainPart => ({
    type: "tool-call",
    callId,
    name,
    input,
    ...by,
    ...kept(ME, others(part, ...known, ...more)),
  });
  const answer = (outcome: PlainResult["outcome"], said: Json): PlainPart => ({
    type: "tool-result",
    callId,
    name,
    outcome,
    output: said,
    ...by,
  });
  if (state === "output-available" && output !== undefined)
    return [call("state", "output"), answer("ok", output)];
  if (state === "output-error" && isText(errorText))
    return [call("state", "errorText"), answer("error", errorText)];
  const reason = isObject(approval) && isText(approval.reason) ? approval.reason : "";
  if (state === "output-denied") return [call("state"), answer("denied", reason)];
  return state === "input-available" ? [call("state")] : [call()];
}
