/** Agents and conversations of AetherShell, field by field. */
import type { CheckpointKind, JsonObject } from "../index.js";
import { messagesOf } from "./aethershell-messages.js";
import { plainMap } from "./aethershell-values.js";
import { at, listAt, objectAt, present, textAt } from "./fields.js";
import type { Content, ForeignRecord } from "./model.js";
import { isName, nameOf } from "./names.js";
import { type Moment, momentOf } from "./times.js";

const CHECKPOINT_KINDS: Readonly<Record<string, CheckpointKind>> = {
  Automatic: "automatic",
  Manual: "manual",
  PreOperation: "pre-operation",
  Recovery: "recovery",
};

export const checkpointKind = (theirs: string | undefined): CheckpointKind =>
  theirs !== undefined && Object.hasOwn(CHECKPOINT_KINDS, theirs) ? (CHECKPOINT_KINDS[theirs] as CheckpointKind) : "manual";

/** What stands beside the messages of a conversation. */
export interface Heading {
  readonly agent: string | undefined;
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: JsonObject;
  readonly source: JsonObject;
  readonly time: Moment | undefined;
}

const MAX_TAGS = 100;

export function headingOf(conversation: JsonObject): Heading {
  const tags = (listAt(conversation, "tags") ?? []).filter((tag) => typeof tag === "string" && tag !== "") as readonly string[];
  const taken = [...new Set(tags.map(nameOf))].slice(0, MAX_TAGS);
  return {
    agent: textAt(conversation, "agent_id"),
    title: textAt(conversation, "title"),
    tags: taken,
    archived: at(conversation, "archived") === true,
    metadata: objectAt(conversation, "metadata") ?? {},
    source: present({
      createdAt: at(conversation, "created_at"),
      lastMessageAt: at(conversation, "last_message_at"),
      tags: taken.length === tags.length && tags.every(isName) ? undefined : tags,
    }),
    time: momentOf(at(conversation, "created_at")),
  };
}

export function conversationOf(conversation: JsonObject, note: (what: string) => void): Content {
  return {
    messages: messagesOf(conversation, () => note(NOT_A_NUMBER)),
    source: present({ lastMessageAt: at(conversation, "last_message_at") }),
  };
}

const NOT_A_NUMBER = "A number that is none (NaN or infinite) was written as null: it is read as null.";
/** Metadata of an agent may be 1 MiB; more than half of it is not for this. */
const MAX_TAGGED_BYTES = 512 * 1024;
/** Capabilities, and conversations: of more of those, only how many there are is kept. */
const MAX_LISTED = 1_000;

/** The plain view of an agent's values; where it says less than the tagged one, that is kept beside. */
export function recordOf(agent: JsonObject, note: (what: string) => void): Awaited<ReturnType<ForeignRecord["load"]>> {
  const onNaN = () => note(NOT_A_NUMBER);
  const config = plainMap(agent, "config", onNaN);
  const state = plainMap(agent, "custom_state", onNaN);
  const kept = present({ config: config.tagged, state: state.tagged });
  const isKept = Object.keys(kept).length > 0 && Buffer.byteLength(JSON.stringify(kept)) <= MAX_TAGGED_BYTES;
  if (!isKept && Object.keys(kept).length > 0) note("Its tagged values are too large to be kept beside their plain view.");
  const capabilities = (listAt(agent, "capabilities") ?? []).filter((name) => typeof name === "string" && name !== "") as readonly string[];
  if (capabilities.length > MAX_LISTED) note(`Only the first ${MAX_LISTED} of its capabilities are kept.`);
  const active = listAt(agent, "active_conversations") ?? [];
  const type = textAt(agent, "agent_type");
  const name = textAt(agent, "name");
  return {
    ...(name ? { name: nameOf(name) } : undefined),
    type: type ? nameOf(type) : null,
    system: textAt(agent, "system_prompt") ?? null,
    capabilities: capabilities.slice(0, MAX_LISTED).map(nameOf),
    config: config.plain,
    state: state.plain,
    ...(objectAt(agent, "metadata") && { metadata: objectAt(agent, "metadata") as JsonObject }),
    source: present({
      createdAt: at(agent, "created_at"),
      modifiedAt: at(agent, "modified_at"),
      version: at(agent, "version"),
      activeConversations: active.length <= MAX_LISTED ? active : active.length,
      tagged: isKept ? kept : undefined,
    }),
  };
}
