/** An agent that is run has a record, from its first run on. */
import { AGENT } from "../../store/port.js";
import type { Definition } from "../agent/define.js";
import type { Ground } from "../ground.js";
import { checkAgent, putAgent, redacted } from "./record.js";

/** Makes the record of an agent where there is none. One that is there stays as it is: it is for people and programs to change. */
export async function ensureAgent(ground: Ground, { name, system, tools, version }: Definition): Promise<void> {
  if (ground.knownAgents.has(name)) return;
  if ((await ground.store.doc(AGENT, name)) === undefined) {
    const { next } = checkAgent({
      id: name,
      ...(typeof system === "string" && { system }),
      capabilities: [...tools.keys()],
      config: version === undefined ? {} : { version },
    });
    // Where another process was quicker, its record is as good.
    await ground.store.apply([], [putAgent(redacted(ground.redactor, next(undefined, ground.wallMs())), undefined)]);
  }
  ground.knownAgents.add(name);
}
