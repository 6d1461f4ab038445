/**
 * How sessions, checkpoints and agents are shown: what is short, and by the names that the library
 * has for it.
 */
import { type Checkpoint, KINDS } from "../core/journal/checkpoint.js";
import { STATUSES } from "../core/sessions/status.js";
import type { JsonObject } from "../core/values/json.js";
import type { SessionSummary } from "../engine/lifecycle/session-summary.js";
import type { AgentRecord } from "../engine/records/agent-record.js";
import type { Snapshot } from "../engine/records/snapshot-record.js";
import { choice, flag, json, list, object, optional, text, whole } from "./schema.js";

/** Of a page. */
export const limit = optional(whole("How many at most; 20 by default.", 1, 100));
export const cursor = optional(
  text("The `next` of an answer, to go on where it ended.", { maxLength: 400 }),
);
export const next = optional(text("There is more: pass it as `cursor`."));
export const damaged = optional(
  list(
    "What is there and cannot be read.",
    object({ id: text("Its id."), message: text("What is wrong with it.") }),
  ),
);

export const session = object({
  id: text("The conversation's id."),
  agent: optional(text("The agent it belongs to.")),
  status: choice(
    "How it stands. in-progress: it has not ended; not that somebody is at work in it.",
    STATUSES,
  ),
  reason: optional(text("Why it stands so.")),
  title: optional(text("Its title, or its first words.")),
  tags: list("Its tags.", text("A tag.")),
  archived: flag("Whether it was put away."),
  createdAt: text("When it was made."),
  updatedAt: text("When it was last saved."),
  forkPoint: optional(
    object({
      sessionId: text("The conversation it is a fork of."),
      checkpointId: text("Where it begins."),
    }),
  ),
});

export function sessionShown({
  metadata: _metadata,
  titled: _titled,
  ...rest
}: SessionSummary): Omit<SessionSummary, "metadata" | "titled"> {
  return rest;
}

/** A checkpoint of a conversation, or of an agent with all its conversations. */
export const checkpoint = object({
  id: text("The checkpoint's id."),
  session: optional(text("The conversation it is a checkpoint of.")),
  agent: optional(text("The agent it is a checkpoint of.")),
  kind: choice("How it came about.", KINDS),
  label: optional(text("What it was called.")),
  description: optional(text("What was said of it.")),
  createdAt: text("When it was made."),
  step: optional(whole("Of a conversation: which step it stands behind.")),
  status: optional(choice("Of a conversation: how it stood.", STATUSES)),
  messageCount: optional(whole("Of a conversation: how many messages it had.")),
  parentId: optional(text("Of a conversation: the checkpoint before it.")),
  sessions: optional(whole("Of an agent: how many conversations it had.")),
  version: optional(whole("Of an agent: the version of its record.")),
  sizeBytes: whole(
    "Its size in bytes. Of a conversation: its messages and state there. Of an agent: its record, and the place and labels of each conversation.",
  ),
  digest: text(
    "Its checksum. Two checkpoints of an agent with the same digest hold the same record and the same conversations.",
  ),
  metadata: optional(json("Whatever else was said of it, where it is not long.")),
});

/** How long it may be to be shown in lists. */
const MAX_METADATA_CHARS = 1_000;

function metadataShown(metadata: JsonObject): { readonly metadata?: JsonObject } {
  const chars = JSON.stringify(metadata).length;
  return chars <= "{}".length || chars > MAX_METADATA_CHARS ? {} : { metadata };
}

export function checkpointShown(checkpoint: Checkpoint) {
  const {
    id: own,
    sessionId,
    kind,
    label,
    description,
    createdAt,
    step,
    status,
    messageCount,
    parentId,
    sizeBytes,
    digest,
    metadata,
  } = checkpoint;
  return {
    id: own,
    session: sessionId,
    kind,
    ...(label === undefined ? undefined : { label }),
    ...(description === undefined ? undefined : { description }),
    createdAt,
    step,
    status,
    messageCount,
    ...(parentId === undefined ? undefined : { parentId }),
    sizeBytes,
    digest,
    ...metadataShown(metadata),
  };
}

export function snapshotShown({ name, metadata, ...rest }: Snapshot) {
  return {
    ...rest,
    ...(name === undefined ? undefined : { label: name }),
    ...metadataShown(metadata),
  };
}

/** Of what stands in lists. */
const MAX_SHOWN = 20;

export const agentFields = {
  id: text("The agent's id."),
  version: whole("One more with each save.", 1),
  name: text("What it is called."),
  type: optional(text("What it runs on.")),
  capabilities: list("What it can do; the first of them.", text("A capability.")),
  createdAt: text("When it was made."),
  updatedAt: text("When it was last saved."),
};
export const agentBrief = object(agentFields);

export function agentShown({
  id: own,
  version,
  name,
  type,
  capabilities,
  createdAt,
  updatedAt,
}: AgentRecord) {
  const some = capabilities.slice(0, MAX_SHOWN);
  return {
    id: own,
    version,
    name,
    ...(type === undefined ? undefined : { type }),
    capabilities: some,
    createdAt,
    updatedAt,
  };
}

/** The entries of an object, to be shown one by one. */
export const entriesOf = (value: JsonObject) =>
  Object.entries(value).map(([key, entry]) => ({ key, value: entry }));
