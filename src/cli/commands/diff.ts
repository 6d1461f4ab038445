import { command, flag } from "../command.js";
import { requireCheckpoint, short } from "../ids.js";
import { changes } from "../render/changes.js";
import { inline, shellWord } from "../text.js";

export const diff = command({
  name: "diff",
  group: "look",
  looks: true,
  says: "what differs between two checkpoints, or between two sessions as they were last saved",
  words: [
    { name: "A", says: "a checkpoint, or a session for its newest one", completes: "checkpoint" },
    { name: "B", says: "the same; without it, A is compared with the checkpoint before it", completes: "checkpoint", optional: true },
  ],
  options: {
    full: flag("cut nothing short"),
    "exit-code": flag("end with exit code 1 where something differs"),
  },
  examples: [
    ["holdfast diff order-42@~1 order-42", "what the last step changed"],
    ["holdfast diff order-42 order-42-what-if", ""],
  ],
  async run({ words: [a = "", b], options: { full, "exit-code": exits }, terminal, hold, where }) {
    const store = await hold();
    const last = await requireCheckpoint(store, b ?? a);
    const first =
      b === undefined
        ? last.parentId === undefined
          ? last
          : await requireCheckpoint(store, last.parentId)
        : await requireCheckpoint(store, a);
    const found = await store.checkpoints.diff(first.id, last.id);
    const { paint } = terminal;
    const title = [first, last].map(({ id, sessionId, step }) => `${short(id)} (${inline(sessionId)}, step ${step})`);
    const isOneSession = first.sessionId === last.sessionId;
    return {
      json: { ...found },
      lines: [paint.dim(`--- ${title[0]}`), paint.dim(`+++ ${title[1]}`), "", ...changes(found, terminal, full)],
      next: isOneSession
        ? [`rewind ${shellWord(last.sessionId)} ${short(first.id)}${where}`]
        : [`show ${shellWord(last.sessionId)}${where}`],
      exit: exits && !found.equal ? 1 : 0,
      pages: true,
    };
  },
});
