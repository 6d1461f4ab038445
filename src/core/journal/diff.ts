/** What differs between two checkpoints, as data and in words. */
import { type Message, type MessageInput, textOf } from "../messages/message.js";
import { clip } from "../messages/truncate.js";
import { equal, type Json, type JsonObject, put } from "../values/json.js";
import type { Checkpoint } from "./checkpoint.js";

export interface Side {
  readonly checkpoint: Checkpoint;
  readonly messages: readonly Message[];
  readonly state: JsonObject;
}

/** The difference between the states at two checkpoints. */
export interface Diff {
  readonly from: Checkpoint;
  readonly to: Checkpoint;
  readonly equal: boolean;
  readonly messages: {
    /** Messages at the beginning, and at the end, that both have. */
    readonly sameAtStart: number;
    readonly sameAtEnd: number;
    /** What stands between them on either side. */
    readonly removed: readonly Message[];
    readonly added: readonly Message[];
  };
  readonly state: {
    readonly added: JsonObject;
    readonly removed: JsonObject;
    readonly changed: { readonly [key: string]: { readonly from: Json; readonly to: Json } };
  };
  readonly status?: { readonly from: string; readonly to: string };
  /** The same in words, a line each. */
  readonly text: string;
}

export function diff(from: Side, to: Side): Diff {
  const messages = diffMessages(from.messages, to.messages);
  const state = diffState(from.state, to.state);
  const status =
    from.checkpoint.status === to.checkpoint.status
      ? undefined
      : { from: from.checkpoint.status, to: to.checkpoint.status };
  const lines = [
    ...messageLines(messages),
    ...stateLines(state),
    ...(status ? [`status: ${status.from} → ${status.to}`] : []),
  ];
  return {
    from: from.checkpoint,
    to: to.checkpoint,
    equal: lines.length === 0,
    messages,
    state,
    ...(status ? { status } : {}),
    text: lines.length === 0 ? "no difference" : lines.join("\n"),
  };
}

function diffMessages(from: readonly Message[], to: readonly Message[]): Diff["messages"] {
  const most = Math.min(from.length, to.length);
  let start = 0;
  while (start < most && same(from[start] as Message, to[start] as Message)) start++;
  let end = 0;
  while (
    end < most - start &&
    same(from[from.length - 1 - end] as Message, to[to.length - 1 - end] as Message)
  )
    end++;
  return {
    sameAtStart: start,
    sameAtEnd: end,
    removed: from.slice(start, from.length - end),
    added: to.slice(start, to.length - end),
  };
}

/**
 * The same record, or two that say the same: a fork that repeated a message does not differ by it.
 */
function same(a: Message, b: Message): boolean {
  if (a === b) return true;
  return equal(content(a), content(b));
}

/** What a caller gave of a message, without what the journal assigned. */
export function content(
  message: MessageInput & { readonly seq?: number; readonly createdAt?: string },
): Json {
  const { seq: _seq, createdAt: _createdAt, id: _id, ...rest } = message;
  return rest as unknown as Json;
}

function diffState(from: JsonObject, to: JsonObject): Diff["state"] {
  const added: Record<string, Json> = {};
  const removed: Record<string, Json> = {};
  const changed: Record<string, { from: Json; to: Json }> = {};
  for (const key of Object.keys(from)) {
    const before = from[key] as Json;
    if (!Object.hasOwn(to, key)) put(removed, key, before);
    else if (!equal(before, to[key])) put(changed, key, { from: before, to: to[key] as Json });
  }
  for (const key of Object.keys(to))
    if (!Object.hasOwn(from, key)) put(added, key, to[key] as Json);
  return { added, removed, changed };
}

function messageLines({ removed, added }: Diff["messages"]): string[] {
  return [
    ...removed.map((message) => `- ${words(message)}`),
    ...added.map((message) => `+ ${words(message)}`),
  ];
}

function words(message: Message): string {
  const parts =
    typeof message.content === "string"
      ? []
      : message.content.filter((part) => part.type !== "text").map((part) => `[${part.type}]`);
  return [`${message.role}:`, shorten(textOf(message)), ...parts]
    .filter((word) => word !== "")
    .join(" ");
}

function stateLines({ added, removed, changed }: Diff["state"]): string[] {
  return [
    ...Object.keys(removed).map((key) => `- state.${key}: ${show(removed[key] as Json)}`),
    ...Object.keys(added).map((key) => `+ state.${key}: ${show(added[key] as Json)}`),
    ...Object.entries(changed).map(
      ([key, { from, to }]) => `~ state.${key}: ${show(from)} → ${show(to)}`,
    ),
  ];
}

const show = (value: Json): string => shorten(JSON.stringify(value));
const shorten = (text: string): string => {
  const line = clip(text, 400).replace(/\s+/g, " ").trim();
  return line.length > 120 ? `${clip(line, 119)}…` : line;
};
