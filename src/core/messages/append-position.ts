/**
 * Where messages from outside may be put: never between a call and its answer, which providers
 * refuse, and never so that an agent at work takes somebody else's calls for its own.
 */
import { type MessageInput, type Part, partsOf } from "./message.js";

type Readable = Parameters<typeof partsOf>[0];

/**
 * Calls of the last reply that have no answer yet. A reply may be several messages in a row, where
 * each asks for something.
 */
export function openCalls(newestFirst: Iterable<Readable>): ReadonlySet<string> {
  const answered = new Set<string>();
  const open = new Set<string>();
  let isReply = false;
  for (const message of newestFirst) {
    const parts = partsOf(message);
    if (message.role !== "assistant") {
      if (isReply) break;
      for (const part of parts) if (isAnswer(part)) answered.add(part.callId);
      continue;
    }
    const calls = parts.flatMap((part) =>
      part.type === "tool-call" && part.by !== "provider" ? [part.callId] : [],
    );
    if (calls.length === 0) break;
    isReply = true;
    for (const callId of calls) if (!answered.has(callId)) open.add(callId);
  }
  return open;
}

const isAnswer = (part: Part): part is Extract<Part, { type: "tool-result" }> =>
  part.type === "tool-result" && part.by !== "provider";

/**
 * Whether messages may follow while these calls are open: as long as they do nothing but answer
 * them.
 */
export function mayFollow(open: ReadonlySet<string>, messages: readonly Readable[]): boolean {
  const left = new Set(open);
  for (const message of messages) {
    if (left.size === 0) return true;
    const parts = partsOf(message);
    if (parts.length === 0 || message.role === "assistant") return false;
    for (const part of parts) if (!isAnswer(part) || !left.delete(part.callId)) return false;
  }
  return true;
}

/** Whether messages end with calls that nobody has answered. */
export const leavesOpen = (messages: readonly MessageInput[]): boolean =>
  openCalls(messages.toReversed()).size > 0;
