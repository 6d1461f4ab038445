/** Items of OpenAI's Responses: messages, calls, their outputs and reasoning, each on its own. */
import { isObject, type Role } from "../core/messages/message.js";
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
  given,
  inputOf,
  inputText,
  isMediaType,
  isText,
  kept,
  opaque,
  others,
  outputOf,
  outputText,
} from "./provider-fields.js";

const ME = "openai-responses";
const PART = `${ME}/part`;
/** Under which files of this provider are named. */
const FILES = "openai";

export const openaiResponses: Codec = {
  write: (messages) =>
    arranged(messages, ME).flatMap(({ pieces, results }) => [
      ...pieces.flatMap(writePiece),
      ...results.flatMap(writeResult),
    ]),
  read(items) {
    const names = new Map<string, string>();
    return items.map(
      (item) => readItem(item, names) ?? whole(ME, item, isOutput(item) ? "tool" : "assistant"),
    );
  },
};

const isOutput = ({ type }: JsonObject): boolean => isText(type) && type.endsWith("_output");

// ---- ours to theirs

function writePiece(piece: Piece | Verbatim): readonly Written[] {
  const of = [piece.of];
  if ("verbatim" in piece) return [{ item: piece.verbatim, of }];
  const { role, content } = piece;
  if (role === "tool") return [];
  const own = given(ME, piece);
  if (typeof content === "string") return [{ item: { role, content, ...own }, of }];
  const written: Written[] = [];
  let said: JsonObject[] = [];
  const flush = () => {
    if (said.length > 0) written.push({ item: { role, content: said, ...own }, of });
    said = [];
  };
  for (const part of content) {
    const item = role === "assistant" ? writeItem(part) : undefined;
    if (item === undefined) said.push(...writePart(part, role));
    else {
      flush();
      written.push({ item, of });
    }
  }
  flush();
  return written;
}

/** A part that is an item of its own. */
function writeItem(part: PlainPart): JsonObject | undefined {
  const own = given(ME, part);
  if (part.type === "tool-call" && part.by !== "provider") {
    const { callId: call_id, name } = part;
    if (own.type === "custom_tool_call" && isText(part.input))
      return { call_id, name, input: part.input, ...own };
    return { type: "function_call", call_id, name, arguments: inputText(part), ...own };
  }
  // Without an id, or what it was encrypted to, it is refused.
  if (part.type !== "reasoning" || !(isText(own.id) || isText(own.encrypted_content)))
    return undefined;
  return {
    type: "reasoning",
    summary: part.text === "" ? [] : [{ type: "summary_text", text: part.text }],
    ...own,
  };
}

function writeResult(piece: Result | Piece): readonly Written[] {
  if (!("result" in piece)) return [];
  const { of, result } = piece;
  const parts = partsOfOutput(result.output)?.flatMap((part) => writePart(part, "tool"));
  const output = outputText(result.output) ?? parts ?? "";
  return [
    {
      item: { type: "function_call_output", call_id: result.callId, output, ...given(ME, result) },
      of: [of],
    },
  ];
}

function writePart(part: PlainPart, role: Role): readonly JsonObject[] {
  const own = given(ME, part);
  if (part.type === "text") return [{ type: textType(role), text: part.text, ...own }];
  if (part.type === "opaque")
    return part.format === PART && isObject(part.value) ? [part.value as JsonObject] : [];
  if (part.type === "file" && (role === "user" || role === "tool")) return writeFile(part, own);
  return [];
}

const textType = (role: Role): string => (role === "assistant" ? "output_text" : "input_text");

function writeFile({ mediaType, data, name }: PlainFile, own: JsonObject): readonly JsonObject[] {
  const isImage = mediaType.startsWith("image/");
  const image = (fields: JsonObject) => [{ type: "input_image", ...fields, ...own }];
  const file = (fields: JsonObject) => [
    { type: "input_file", ...fields, ...(name !== undefined && { filename: name }), ...own },
  ];
  if ("text" in data) return [{ type: "input_text", text: data.text, ...own }];
  if ("ref" in data) {
    const id = data.ref[FILES];
    return isText(id) ? (isImage ? image({ file_id: id }) : file({ file_id: id })) : [];
  }
  if ("url" in data) return isImage ? image({ image_url: data.url }) : file({ file_url: data.url });
  if (!("bytes" in data) || !isMediaType(mediaType)) return [];
  const url = dataUrl(mediaType, data.bytes);
  return isImage ? image({ image_url: url }) : file({ file_data: url });
}

// ---- theirs to ours

function readItem(item: JsonObject, names: Map<string, string>): PlainMessage | undefined {
  switch (item.type ?? "message") {
    case "message":
      return readMessage(item);
    case "function_call":
    case "custom_tool_call": {
      const part = readCall(item);
      if (part?.type === "tool-call") names.set(part.callId, part.name);
      return part && { role: "assistant", content: [part] };
    }
    case "function_call_output":
    case "custom_tool_call_output":
      return readResult(item, names);
    case "reasoning": {
      const part = readReasoning(item);
      return part && { role: "assistant", content: [part] };
    }
    default:
      return undefined;
  }
}

const ROLES: Readonly<Record<string, Role>> = {
  user: "user",
  assistant: "assistant",
  system: "system",
  developer: "system",
};

function readMessage(item: JsonObject): PlainMessage | undefined {
  const { role, content } = item;
  const ours = isText(role) && Object.hasOwn(ROLES, role) ? ROLES[role] : undefined;
  if (ours === undefined) return undefined;
  const said = isText(content) ? content : readParts(content, ours);
  if (said === undefined) return undefined;
  const more = others(item, "content", ...(role === ours ? ["role"] : []));
  return { role: ours, content: said, ...kept(ME, more) };
}

function readCall(item: JsonObject): PlainPart | undefined {
  const { call_id: callId, name, arguments: text, input, type } = item;
  if (!isText(callId) || !isText(name)) return undefined;
  const part = { type: "tool-call", callId, name } as const;
  if (type === "custom_tool_call")
    return isText(input)
      ? { ...part, input, ...kept(ME, others(item, "call_id", "name", "input")) }
      : undefined;
  return isText(text)
    ? {
        ...part,
        ...inputOf(text),
        ...kept(ME, others(item, "type", "call_id", "name", "arguments")),
      }
    : undefined;
}

function readResult(
  item: JsonObject,
  names: ReadonlyMap<string, string>,
): PlainMessage | undefined {
  const { call_id: callId, output, type } = item;
  const said = isText(output) ? outputOf(output) : readParts(output, "tool");
  if (!isText(callId) || said === undefined) return undefined;
  const name = names.get(callId);
  const part: PlainResult = {
    type: "tool-result",
    callId,
    ...(name !== undefined && { name }),
    outcome: "ok",
    output: said,
    ...kept(
      ME,
      others(item, "call_id", "output", ...(type === "function_call_output" ? ["type"] : [])),
    ),
  };
  return { role: "tool", content: [part] };
}

function readReasoning(item: JsonObject): PlainPart | undefined {
  const { summary } = item;
  if (!Array.isArray(summary)) return undefined;
  const texts = (summary as readonly Json[]).map((entry) =>
    isObject(entry) && isText(entry.text) ? entry.text : undefined,
  );
  const [first] = summary as readonly Json[];
  // One plain text is the part's own; what else there is stays as it was, and is what is written
  // again.
  const isPlain =
    summary.length === 0 ||
    (summary.length === 1 && isText(texts[0]) && texts[0] !== "" && isSummaryText(first as Json));
  const text = texts.filter((each) => each !== undefined).join("\n\n");
  return {
    type: "reasoning",
    text,
    ...kept(ME, others(item, "type", ...(isPlain ? ["summary"] : []))),
  };
}

const isSummaryText = (entry: Json): boolean =>
  isObject(entry) && entry.type === "summary_text" && Object.keys(entry).length === 2;

function readParts(content: Json | undefined, role: Role): readonly PlainPart[] | undefined {
  if (!Array.isArray(content)) return undefined;
  return (content as readonly Json[]).map(
    (part) =>
      (isObject(part) ? readPart(part as JsonObject, role) : undefined) ??
      opaque(PART, part, refusalIn(part)),
  );
}

const refusalIn = (part: Json): string | undefined =>
  isObject(part) && part.type === "refusal" && isText(part.refusal) ? part.refusal : undefined;

function readPart(part: JsonObject, role: Role): PlainPart | undefined {
  const {
    type,
    text,
    image_url: image,
    file_id: id,
    file_url: url,
    file_data: data,
    filename,
  } = part;
  if ((type === "input_text" || type === "output_text") && isText(text))
    return {
      type: "text",
      text,
      ...kept(ME, others(part, "text", ...(type === textType(role) ? ["type"] : []))),
    };
  const file = (
    is: Pick<PlainFile, "mediaType" | "data" | "name">,
    ...known: readonly string[]
  ): PlainPart => ({
    type: "file",
    ...is,
    ...kept(ME, others(part, "type", ...known)),
  });
  if (type === "input_image" && isText(image))
    return file(dataOfUrl(image, "image/*"), "image_url");
  if (type === "input_image" && isText(id))
    return file({ mediaType: "image/*", data: { ref: { [FILES]: id } } }, "file_id");
  if (type !== "input_file") return undefined;
  const name = isText(filename) ? { name: filename } : undefined;
  const known = name === undefined ? [] : ["filename"];
  const mediaType = "application/octet-stream";
  if (isText(id))
    return file({ mediaType, data: { ref: { [FILES]: id } }, ...name }, "file_id", ...known);
  if (isText(url)) return file({ mediaType, data: { url }, ...name }, "file_url", ...known);
  const found = isText(data) ? dataOfUrl(data, "") : undefined;
  return found !== undefined && "bytes" in found.data
    ? file({ ...found, ...name }, "file_data", ...known)
    : undefined;
}
