/** Tools for agents: what is kept of each. */
import { type AgentInput, noAgent } from "../engine/records/agent-record.js";
import { unlessDamaged, unlessGone } from "../engine/records/tolerate-damage.js";
import { invalid } from "../engine/util/validate.js";
import { type Hold, keyOf, spec } from "./definition.js";
import { fitting, type Piece, pageOf, piece } from "./pages.js";
import { flag, id, json, list, object, optional, orNull, text, whole } from "./schema.js";
import { agentFor, MAX_NAMED, ownAmong, refuseSelf } from "./scope.js";
import { agentBrief, agentFields, agentShown, cursor, damaged, limit, next } from "./shown.js";

const agentId = id("The agent's id.");
const MAX_ACTIVE = 50;

export const agentSave = spec({
  name: "agent_save",
  title: "Save an agent",
  description:
    "Makes an agent's record, or changes it. What is not given stays as it is; config, state and metadata are replaced whole. To change some keys of the state, give `set` and `unset` instead of `state`: the other keys stay. The answer tells the version it has now.",
  does: "changes",
  holdsStored: true,
  input: {
    id: agentId,
    version: optional(
      whole(
        "The version you have read: refused where somebody has saved it since. 0 for an agent that is to be made.",
      ),
    ),
    name: optional(id("What it is called.")),
    type: optional(orNull(id("What it runs on. Null takes it away."))),
    system: optional(orNull(text("Its system text. Null takes it away."))),
    capabilities: optional(list("What it can do.", id("A capability."), 1_000)),
    config: optional(json("How it is set up.")),
    state: optional(json("What it remembers, whole.")),
    set: optional(json("Keys of its state, with the values they get.")),
    unset: optional(list("Keys of its state that go.", id("A key."), 1_000)),
    metadata: optional(json("Whatever else.")),
  },
  output: { agent: agentBrief },
  async run(hold, input, call) {
    agentFor(call, input.id);
    return { agent: agentShown(await hold.agents.save(input as AgentInput, keyOf(call))) };
  },
});

export const agentLoad = spec({
  name: "agent_load",
  title: "Load an agent",
  description:
    "An agent's record: system text, capabilities, config, state, metadata, and which of its conversations have not ended. A record that is too long for one answer comes in pieces.",
  does: "reads",
  holdsStored: true,
  input: {
    id: optional(id("The agent's id; where tools are for one agent, that one by default.")),
    cursor,
  },
  output: {
    agent: optional(
      object({
        ...agentFields,
        capabilities: list("What it can do.", text("A capability.")),
        system: optional(text("Its system text.")),
        config: json("How it is set up."),
        state: json("What it remembers."),
        metadata: json("Whatever else."),
      }),
    ),
    piece: optional(piece),
    activeSessions: list(
      `Conversations that have not ended, the last begun first, ${MAX_ACTIVE} at most.`,
      text("A conversation's id."),
    ),
    activeCount: whole("How many have not ended; counted up to 1,000."),
    next,
  },
  async run(hold, input, call) {
    const wanted = input.id ?? call.agent;
    if (wanted === undefined)
      throw invalid("id", "say which agent; agent_list names those there are");
    const found = await hold.agents.get(agentFor(call, wanted));
    if (found === undefined) throw noAgent(wanted);
    const { activeSessions, ...record } = found;
    const { items, ...more } = pageOf([record], input.cursor, { of: `agent ${wanted}` });
    const [first] = items;
    const active = {
      activeSessions: activeSessions.slice(0, MAX_ACTIVE),
      activeCount: activeSessions.length,
    };
    return {
      ...(isPiece(first) ? { piece: first } : { agent: first ?? record }),
      ...active,
      ...more,
    };
  },
});

export const agentList = spec({
  name: "agent_list",
  title: "List agents",
  description: "The agents of which a record is kept, the newest first.",
  does: "reads",
  holdsStored: true,
  input: { limit, cursor },
  output: { items: list("Agents.", agentBrief), next, damaged },
  async run(hold, input, call) {
    if (call.agent !== undefined) return { items: await ownRecord(hold, call.agent) };
    return fitting(input.limit, async (most) => {
      const { items, ...more } = await hold.agents.list({ ...input, limit: most });
      return { items: items.map(agentShown), ...more };
    });
  },
});

export const agentDelete = spec({
  name: "agent_delete",
  title: "Delete an agent",
  description:
    "Deletes an agent with all that is its own: its record, its checkpoints, and every conversation it has had. This cannot be taken back.",
  does: "removes",
  holdsStored: false,
  isIdempotent: true,
  input: { id: agentId },
  output: {
    deleted: flag("False where there was nothing of the kind."),
    sessions: whole("How many conversations went with it."),
    checkpoints: whole("How many checkpoints of the agent went with it."),
    keptFor: list(
      `Conversations of other agents, forks, for which something shared was kept; ${MAX_NAMED} are named.`,
      text("A conversation's id."),
    ),
  },
  async run(hold, input, call) {
    if (call.self !== undefined && (await hold.sessions.get(call.self))?.agent === input.id)
      refuseSelf(call, call.self);
    const gone = await unlessGone(() => hold.agents.delete(agentFor(call, input.id), keyOf(call)));
    if (gone === undefined) return { deleted: false, sessions: 0, checkpoints: 0, keptFor: [] };
    return {
      deleted: true,
      sessions: gone.sessions,
      checkpoints: gone.snapshots,
      keptFor: await ownAmong(hold, call, gone.keptFor),
    };
  },
});

async function ownRecord(hold: Hold, agent: string) {
  const own = await unlessDamaged(() => hold.agents.get(agent));
  return own === undefined ? [] : [agentShown(own)];
}

const isPiece = (item: unknown): item is Piece =>
  typeof item === "object" && item !== null && "piece" in item;
