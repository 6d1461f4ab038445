/** Messages of Anthropic, with the system text apart. */
import { isObject } from "../core/messages/message.js";
import type { Json, JsonObject } from "../core/values/json.js";
import { readBlock } from "./anthropic-read.js";
import { callIdOf, writeBlocks } from "./anthropic-write.js";
import { type Codec, type Written, whole } from "./codec.js";
import {
  type Arranged,
  arranged,
  type Piece,
  type Result,
  type Verbatim,
} from "./normalize-order.js";
import { type PlainMessage, type PlainPart, partsOfOutput } from "./plain.js";
import {
  fieldsBack,
  given,
  isText,
  kept,
  opaque,
  others,
  outputText,
  SPELLED,
} from "./provider-fields.js";

const ME = "anthropic";

export const anthropic: Codec = {
  systemApart: true,
  write(messages) {
    const system = systemOf(messages);
    return [...system, ...joined(arranged(messages, ME).flatMap(writeGroup))];
  },
  read(items) {
    const names = new Map<string, string>();
    let before: PlainMessage | undefined;
    return items.map((item) => {
      before = readItem(item, names, before) ?? whole(ME, item, "user");
      return before;
    });
  },
};

// ---- ours to theirs

/** All system text is one, before the messages; where it stood is kept in the remainder. */
function systemOf(messages: readonly PlainMessage[]): readonly Written[] {
  const of = messages.flatMap(({ role }, i) => (role === "system" ? [i] : []));
  const [first] = of;
  const alone = of.length === 1 && first !== undefined ? messages[first]?.content : undefined;
  if (typeof alone === "string" && alone !== "") return [{ item: { system: alone }, of }];
  const blocks = of
    .map((i) => ({ i, blocks: writeBlocks(messages[i] as PlainMessage, "system") }))
    .filter(({ blocks: some }) => some.length > 0);
  const item = { system: blocks.flatMap(({ blocks: some }) => some) };
  return blocks.length === 0 ? [] : [{ item, of: blocks.map(({ i }) => i) }];
}

interface Turn extends Written {
  /**
   * Whether the next message of the user's that is from the same one of ours, or answers calls too,
   * may be put to it.
   */
  readonly joins: "results" | "user" | undefined;
}

function writeGroup({ pieces, results }: Arranged): readonly Turn[] {
  return [...replies(pieces), ...results.flatMap(writeResult)];
}

/** Replies in a row that ask for calls are one: nothing may come between a call and its answer. */
function replies(pieces: readonly (Piece | Verbatim)[]): readonly Turn[] {
  const turns = pieces.flatMap(writePiece);
  if (turns.length < 2) return turns;
  const content = turns.flatMap(({ item }) => blocksIn(item));
  return [
    { item: { role: "assistant", content }, of: turns.flatMap(({ of }) => of), joins: undefined },
  ];
}

const blocksIn = ({ content }: JsonObject): readonly Json[] =>
  isText(content) ? [{ type: "text", text: content }] : (content as Json[]);

function writePiece(piece: Piece | Verbatim): readonly Turn[] {
  const of = [piece.of];
  if ("verbatim" in piece) return [{ item: piece.verbatim, of, joins: undefined }];
  const { role, content } = piece;
  if (role === "system" || role === "tool") return [];
  const own = fieldsBack(given(ME, piece));
  const joins = role === "user" && Object.keys(own).length === 0 ? "user" : undefined;
  if (typeof content === "string")
    return content.trim() === "" ? [] : [{ item: { role, content, ...own }, of, joins }];
  const blocks = writeBlocks(piece, role);
  return blocks.length === 0 ? [] : [{ item: { role, content: blocks, ...own }, of, joins }];
}

function writeResult(piece: Result | Piece): readonly Turn[] {
  if (!("result" in piece)) return [];
  const { of, result } = piece;
  const own = given(ME, result);
  const parts = partsOfOutput(result.output);
  const text = outputText(result.output);
  const isAbsent = own[SPELLED] === "absent" && text === "";
  const content = text ?? writeBlocks({ role: "tool", content: parts ?? [] }, "tool");
  const block = {
    type: "tool_result",
    tool_use_id: callIdOf(result.callId),
    ...(!isAbsent && { content }),
    ...(result.outcome !== "ok" && { is_error: true }),
    ...fieldsBack(own),
  };
  const back = fieldsBack(given(ME, piece));
  return [{ item: { role: "user", content: [block], ...back }, of: [of], joins: "results" }];
}

/**
 * Answers to calls are one message, and what the same message of ours says besides stands behind
 * them.
 */
function joined(turns: readonly Turn[]): readonly Written[] {
  const out: Turn[] = [];
  for (const turn of turns) {
    const last = out.at(-1);
    const isSame = last !== undefined && turn.of[0] === last.of.at(-1);
    if (
      last?.joins === "results" &&
      (turn.joins === "results" || (turn.joins === "user" && isSame))
    ) {
      const item = { ...last.item, content: [...blocksIn(last.item), ...blocksIn(turn.item)] };
      out[out.length - 1] = {
        item,
        of: [...new Set([...last.of, ...turn.of])],
        joins: turn.joins === "results" ? "results" : undefined,
      };
    } else out.push(turn);
  }
  return out;
}

// ---- theirs to ours

function readItem(
  item: JsonObject,
  names: Map<string, string>,
  before: PlainMessage | undefined,
): PlainMessage | undefined {
  const { role, content, system } = item;
  if (system !== undefined) {
    const said = isText(system) ? system : readBlocks(system, names);
    return said === undefined ? undefined : { role: "system", content: said };
  }
  if (role !== "user" && role !== "assistant") return undefined;
  const said = isText(content) ? content : readBlocks(content, names);
  if (said === undefined) return undefined;
  const more = kept(ME, others(item, "role", "content"));
  // What only answers calls is a tool's. Two of these in a row are written as one, so that the
  // second stays what it is.
  const answers =
    typeof said !== "string" && said.length > 0 && said.every(({ type }) => type === "tool-result");
  return {
    role: role === "user" && answers && before?.role !== "tool" ? "tool" : role,
    content: said,
    ...more,
  };
}

function readBlocks(
  content: Json | undefined,
  names: Map<string, string>,
): readonly PlainPart[] | undefined {
  if (!Array.isArray(content)) return undefined;
  return (content as readonly Json[]).map((block) => {
    const part = isObject(block) ? readBlock(block as JsonObject, names) : undefined;
    if (part?.type === "tool-call") names.set(part.callId, part.name);
    return part ?? opaque(`${ME}/part`, block);
  });
}
