/**
 * A transcript in the order that providers take: what tools answered stands behind the calls that
 * asked for it, in messages of its own, and nothing comes in between. Providers refuse a call that
 * was never answered with more behind it, and an answer without a call: these are left out here,
 * and kept in the remainder.
 */
import { isObject, type Provider, type Role } from "../core/messages/message.js";
import type { JsonObject } from "../core/values/json.js";
import type { PlainMessage, PlainPart, PlainResult } from "./plain.js";

/** A message, or what is left of it in one place. */
export interface Piece {
  /** The message it is from. */
  readonly of: number;
  readonly role: Role;
  readonly name?: string;
  readonly provider?: Provider;
  readonly content: string | readonly PlainPart[];
}

/** A message of the format that is given back as it was. */
export interface Verbatim {
  readonly of: number;
  readonly verbatim: JsonObject;
}

/** One reply or several in a row, with all that answers their calls; or anything else, alone. */
interface Group {
  readonly pieces: (Piece | Verbatim)[];
  readonly results: (Result | Piece)[];
  /** Calls that have no answer yet. */
  readonly open: Map<string, CallPart>;
  /**
   * Calls that were asked for again under the same id, before anything was answered: only the last
   * of them can be.
   */
  readonly again: Set<PlainPart>;
}

type CallPart = Extract<PlainPart, { readonly type: "tool-call" }>;

/** What a tool answered, as a message of its own. */
export interface Result {
  readonly of: number;
  readonly result: PlainResult;
  /** The name of the tool, as the call says it. */
  readonly tool: string;
  /** That of its message. */
  readonly provider?: Provider;
}

export interface Arranged {
  readonly pieces: readonly (Piece | Verbatim)[];
  /** What answers the calls among them, and whatever else such messages say. */
  readonly results: readonly (Result | Piece)[];
}

/** The name under which a whole message of a format is kept that ours cannot say. */
export const wholeIn = (format: string): string => `${format}/message`;

export function arranged(messages: readonly PlainMessage[], format: string): readonly Arranged[] {
  const groups: Group[] = [];
  const callers = new Map<string, Group>();
  for (const [of, message] of messages.entries()) {
    const whole = verbatimOf(message, format);
    if (whole !== undefined) {
      groups.push({ ...emptyGroup(), pieces: [{ of, verbatim: whole }] });
      continue;
    }
    const { role, content, name, provider } = message;
    const results = typeof content === "string" ? [] : content.filter(isOwnResult);
    const rest =
      results.length === 0
        ? content
        : (content as readonly PlainPart[]).filter((part) => !isOwnResult(part));
    const piece: Piece = {
      of,
      role,
      content: rest,
      ...(name !== undefined && { name }),
      ...(provider !== undefined && { provider }),
    };
    if (results.length === 0 || rest.length > 0) addPiece(groups, callers, piece);
    for (const result of results) {
      const group = callers.get(result.callId);
      const call = group?.open.get(result.callId);
      if (group === undefined || call === undefined) continue;
      group.open.delete(result.callId);
      group.results.push({
        of,
        result,
        tool: result.name ?? call.name,
        ...(provider !== undefined && { provider }),
      });
    }
  }
  // At the end of all calls may still be answered.
  return groups.map((group, i) =>
    without(
      group,
      new Set([...group.again, ...(i === groups.length - 1 ? [] : group.open.values())]),
    ),
  );
}

const emptyGroup = (): Group => ({ pieces: [], results: [], open: new Map(), again: new Set() });

function addPiece(groups: Group[], callers: Map<string, Group>, piece: Piece): void {
  const last = groups.at(-1);
  if (
    piece.role === "tool" &&
    last !== undefined &&
    (last.open.size > 0 || last.results.length > 0)
  ) {
    last.results.push(piece);
    return;
  }
  // A reply that comes in several messages, with calls among them: their answers follow the last of
  // these.
  const goesOn =
    piece.role === "assistant" &&
    last !== undefined &&
    last.open.size > 0 &&
    last.results.length === 0;
  const group = goesOn ? last : emptyGroup();
  if (!goesOn) groups.push(group);
  group.pieces.push(piece);
  if (piece.role !== "assistant" || typeof piece.content === "string") return;
  for (const part of piece.content) {
    if (part.type !== "tool-call" || part.by === "provider") continue;
    const before = group.open.get(part.callId);
    if (before !== undefined) group.again.add(before);
    group.open.set(part.callId, part);
    callers.set(part.callId, group);
  }
}

/** Without calls that nobody has answered before more was said. */
function without(group: Group, left: ReadonlySet<PlainPart>): Arranged {
  if (left.size === 0) return group;
  const pieces = group.pieces.flatMap((piece): (Piece | Verbatim)[] => {
    if ("verbatim" in piece || typeof piece.content === "string") return [piece];
    const content = piece.content.filter((part) => !left.has(part));
    return content.length === 0 && piece.content.length > 0 ? [] : [{ ...piece, content }];
  });
  return { pieces, results: group.results };
}

const isOwnResult = (part: PlainPart): part is PlainResult =>
  part.type === "tool-result" && part.by !== "provider";

/** A message that is nothing but one of the format's own, which came from there. */
function verbatimOf({ content }: PlainMessage, format: string): JsonObject | undefined {
  const [part, ...more] = typeof content === "string" ? [] : content;
  if (part?.type !== "opaque" || part.format !== wholeIn(format) || more.length > 0)
    return undefined;
  return isObject(part.value) ? (part.value as JsonObject) : undefined;
}
