/** What a model answered, as a message: parts are kept as they are. */
import type { StateFold } from "../../core/journal/session-state.js";
import { callInputOf, whyUnstorable } from "../../core/messages/call-input.js";
import type {
  Message,
  MessageInput,
  Part,
  Reply,
  ToolCallPart,
} from "../../core/messages/message.js";
import { callsIn } from "../../engine/calls/bodies.js";
import { type GivenCall, replyOf } from "./reply-shape.js";

/**
 * The message of a reply. An input that cannot be used is kept beside the call, and the model is
 * told; all else must be storable.
 */
export function messageOf(given: unknown): MessageInput {
  const { content, toolCalls, finish, rawFinish, usage, provider, model, responseId } =
    replyOf(given);
  const parts =
    typeof content === "string"
      ? content === ""
        ? []
        : [{ type: "text", text: content } as const]
      : content.map(storable);
  const known = new Set(parts.flatMap((part) => (part.type === "tool-call" ? [part.callId] : [])));
  const calls = toolCalls.flatMap((call) => (known.has(call.callId) ? [] : [callPart(call)]));
  const asksForMore = calls.length > 0 || callsIn({ role: "assistant", content: parts }).length > 0;
  const reply: Reply = {
    ...(model !== undefined && { model }),
    ...(responseId !== undefined && { responseId }),
    finish: finish ?? (asksForMore ? "tool-calls" : "stop"),
    ...(rawFinish !== undefined && { rawFinish }),
    ...(usage !== undefined && { usage }),
  };
  return {
    role: "assistant",
    content: calls.length === 0 && typeof content === "string" ? content : [...parts, ...calls],
    ...(provider !== undefined && { provider }),
    reply,
  };
}

const callPart = ({ callId, name, input }: GivenCall): ToolCallPart => ({
  type: "tool-call",
  callId,
  name,
  ...callInputOf(input),
});

/**
 * A call among the parts: its input was parsed before it came here, and may be text all the same.
 */
function storable(part: Part): Part {
  if (
    part.type !== "tool-call" ||
    part.input === undefined ||
    whyUnstorable(part.input) === undefined
  )
    return part;
  return { ...part, ...callInputOf(part.input) };
}

/** The transcript from its end. */
export function* backwards(fold: StateFold): Generator<Message> {
  for (let i = fold.messageCount - 1; i >= 0; i--) yield fold.messageAt(i) as Message;
}

export interface Unanswered {
  readonly reply: Message;
  /**
   * All calls of the agent's own reply, by their index. Of messages from outside, which may be
   * several, those without an answer.
   */
  readonly calls: readonly ToolCallPart[];
}

/** The newest reply whose calls have not all been answered; undefined where there is none. */
export function unanswered(fold: StateFold): Unanswered | undefined {
  const answered = new Set<string>();
  const isOpen = ({ callId }: ToolCallPart) => !answered.has(callId);
  let reply: Message | undefined;
  const others: ToolCallPart[] = [];
  for (const message of backwards(fold)) {
    if (message.role !== "assistant") {
      if (reply !== undefined) break;
      if (typeof message.content !== "string")
        for (const part of message.content)
          if (part.type === "tool-result") answered.add(part.callId);
      continue;
    }
    const calls = callsIn(message);
    const isOwn = message.seq === fold.inFlight.ownReply;
    if (isOwn && reply === undefined)
      return calls.some(isOpen) ? { reply: message, calls } : undefined;
    if (isOwn || calls.length === 0) break;
    reply ??= message;
    others.unshift(...calls.filter(isOpen));
  }
  return reply === undefined || others.length === 0 ? undefined : { reply, calls: others };
}
