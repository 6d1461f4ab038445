/** Does what the readers have planned, in their order. */
import type { Foreign } from "../reading/model.js";
import { AgentWriter } from "./agent-writer.js";
import { SessionWriter } from "./session-writer.js";
import type { Writing } from "./writing.js";

export async function writeAll(
  { acts }: Foreign,
  writing: Writing,
  signal: AbortSignal | undefined,
): Promise<void> {
  const sessions = new SessionWriter(writing);
  const agents = new AgentWriter(
    writing,
    acts.flatMap((act) => (act.does === "record" ? [act.record] : [])),
    (agent) => sessions.labels(agent),
  );
  try {
    for (const act of acts) {
      signal?.throwIfAborted();
      if (act.does === "session") await sessions.begin(act.session);
      else if (act.does === "step") await sessions.step(act.session.foreign, act.step);
      else await agents.write(act.record);
    }
    agents.end();
  } finally {
    await sessions.close();
  }
}
