/** Agents and conversations of AetherShell, field by field. */
import { quote } from "../../core/values/errors.js";
import type { Json, JsonObject } from "../../index.js";
import { canKeep, Fields, roomBeside } from "../reading/fields.js";
import type { Content, ForeignRecord, Words } from "../reading/model.js";
import { isName, nameOf } from "../reading/names.js";
import type { FileReport } from "../reading/report.js";
import { type Moment, momentOf } from "../reading/times.js";
import { messagesOf } from "./aethershell-messages.js";
import { plainMap } from "./aethershell-values.js";

const MAX_TITLE = 1_000;
const MAX_TAGS = 100;

/** What stands beside the messages of a conversation. */
export interface Heading {
  readonly agent: string | undefined;
  readonly words: Words;
  readonly createdAt: Json | undefined;
  readonly time: Moment | undefined;
}

/** `where` is the place of the conversation in its file. */
export function headingOf(conversation: JsonObject, where: string, told: FileReport): Heading {
  const { fields, words, kept, agent, createdAt } = partsOf(conversation, where, told);
  fields.any("messages");
  return {
    agent,
    words: { ...words, source: fields.source(kept, roomBeside(words.metadata)) },
    createdAt,
    time: momentOf(createdAt),
  };
}

/**
 * A conversation at one moment. Its checkpoint keeps what was said of it then: the session says
 * what is said of it now. `beside` says more of that moment, where nothing else keeps it.
 */
export function conversationOf(
  conversation: JsonObject,
  where: string,
  told: FileReport,
  beside?: Fields,
): Content {
  const { fields, words, kept, agent } = partsOf(conversation, where, told);
  if (beside !== undefined) fields.adopt("checkpoint", beside);
  const { title, tags, archived, metadata } = words;
  const isKept = canKeep(metadata);
  if (!isKept)
    told.note(
      `The metadata of conversation ${quote(fields.text("id") ?? "")} cannot be kept by a checkpoint: it is too large, or has text that is none.`,
    );
  return {
    messages: messagesOf(
      fields.items("messages"),
      where === "" ? "messages" : `${where}.messages`,
      told,
    ),
    ...(isKept && { metadata }),
    source: fields.source(
      {
        ...kept,
        agent,
        title,
        tags: kept.tags ?? (tags.length > 0 ? tags : undefined),
        archived: archived || undefined,
      },
      roomBeside(isKept ? metadata : undefined),
    ),
  };
}

function partsOf(conversation: JsonObject, where: string, told: FileReport) {
  const fields = new Fields(conversation, told, where);
  // The session has it.
  fields.text("id");
  const given = fields.list("tags") ?? [];
  const named = given.filter((tag) => typeof tag === "string" && tag !== "") as readonly string[];
  const tags = [...new Set(named.map(nameOf))].slice(0, MAX_TAGS);
  const isWhole = tags.length === given.length && named.every(isName);
  const title = fields.clipped("title", MAX_TITLE) || undefined;
  const words = {
    ...(title !== undefined && { title }),
    tags,
    archived: fields.flag("archived") ?? false,
    metadata: fields.object("metadata") ?? {},
  };
  const createdAt = fields.any("created_at");
  const kept = {
    createdAt,
    lastMessageAt: fields.any("last_message_at"),
    tags: isWhole ? undefined : given,
  };
  return { fields, words, kept, createdAt, agent: fields.text("agent_id") };
}

/** Metadata of an agent may be 1 MiB; more than half of it is not for this. */
const MAX_TAGGED_BYTES = 512 * 1024;
/** Capabilities, and conversations: of more of those, only how many there are is kept. */
const MAX_LISTED = 1_000;

/**
 * The plain view of an agent's values; where it says less than the tagged one, that is kept beside.
 * `id` is ours.
 */
export function recordOf(
  agent: JsonObject,
  id: string,
  where: string,
  told: FileReport,
): Awaited<ReturnType<ForeignRecord["load"]>> {
  const fields = new Fields(agent, told, where);
  const theirs = fields.text("agent_id");
  const config = plainMap(fields.object("config"), told);
  const state = plainMap(fields.object("custom_state"), told);
  const kept = {
    ...(config.tagged && { config: config.tagged }),
    ...(state.tagged && { state: state.tagged }),
  };
  const isKept =
    Object.keys(kept).length > 0 && Buffer.byteLength(JSON.stringify(kept)) <= MAX_TAGGED_BYTES;
  if (!isKept && Object.keys(kept).length > 0)
    told.note("Its tagged values are too large to be kept beside their plain view.");
  const given = fields.list("capabilities") ?? [];
  const capabilities = given.filter(
    (name) => typeof name === "string" && name !== "",
  ) as readonly string[];
  if (capabilities.length > MAX_LISTED)
    told.note(`Only the first ${MAX_LISTED} of its capabilities are kept.`);
  const isWhole = capabilities.length === given.length && capabilities.every(isName);
  const active = fields.list("active_conversations") ?? [];
  if (active.length > MAX_LISTED)
    told.note(`Only the number of its active conversations is kept: ${active.length}.`);
  const name = fields.name("name");
  const metadata = fields.object("metadata");
  return {
    ...(name !== undefined && { name }),
    type: fields.name("agent_type") ?? null,
    system: fields.text("system_prompt") ?? null,
    capabilities: capabilities.slice(0, MAX_LISTED).map(nameOf),
    config: config.plain,
    state: state.plain,
    ...(metadata && { metadata }),
    source: fields.source(
      {
        id: theirs === id ? undefined : theirs,
        createdAt: fields.any("created_at"),
        modifiedAt: fields.any("modified_at"),
        version: fields.any("version"),
        capabilities: isWhole ? undefined : given,
        activeConversations: active.length <= MAX_LISTED ? active : active.length,
        tagged: isKept ? kept : undefined,
      },
      roomBeside(metadata),
    ),
  };
}
