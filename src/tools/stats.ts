/** How much there is. */
import { spec } from "./definition.js";
import { whole } from "./schema.js";

export const persistenceStats = spec({
  name: "persistence_stats",
  title: "Count what is stored",
  description:
    "How many agents, conversations, checkpoints (of conversations, and of agents) and messages are stored, and how many bytes they take: counted, not estimated.",
  does: "reads",
  holdsStored: false,
  inScope: false,
  input: {},
  output: {
    agents: whole("Agents."),
    sessions: whole("Conversations."),
    checkpoints: whole("Checkpoints of conversations."),
    snapshots: whole("Checkpoints of agents with all their conversations."),
    messages: whole("Messages."),
    sizeBytes: whole("Bytes."),
  },
  run: (hold) => hold.stats(),
});
