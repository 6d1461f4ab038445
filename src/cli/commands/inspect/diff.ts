import type { Diff, Holdfast } from "../../../index.js";
import { command, flag } from "../../framework/command.js";
import { before, requireCheckpoint, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import type { CheckpointState } from "../../framework/types.js";
import { changes } from "../../render/changes.js";
import { inline } from "../../terminal/text.js";

export const diff = command({
  name: "diff",
  group: "look",
  looks: true,
  says: "what differs between two checkpoints, or between two sessions as they were last saved",
  words: [
    { name: "A", says: "a checkpoint, or a session for its newest one", completes: "checkpoint" },
    {
      name: "B",
      says: "the same; without it, A is compared with the checkpoint before it",
      completes: "checkpoint",
      optional: true,
    },
  ],
  options: {
    full: flag("cut nothing short"),
    "exit-code": flag("end with exit code 1 where something differs"),
  },
  examples: [
    ["holdfast diff order-42@~1 order-42", "what the last step changed"],
    ["holdfast diff order-42 order-42-what-if", ""],
  ],
  async run({ words: [a = "", b], options: { full, "exit-code": exits }, terminal, hold }) {
    const store = await hold();
    const last = await requireCheckpoint(store, b ?? a);
    const first = b === undefined ? await before(store, last) : await requireCheckpoint(store, a);
    const found =
      first === undefined
        ? await sinceNothing(store, last.id)
        : await store.checkpoints.diff(first.id, last.id);
    const { paint } = terminal;
    const title = (at: typeof first) =>
      at === undefined
        ? "nothing: it is the first"
        : `${short(at.id)} (${inline(at.sessionId)}, step ${at.step})`;
    const isOneSession = first?.sessionId === last.sessionId;
    return {
      json: { ...found },
      lines: [
        paint.dim(`--- ${title(first)}`),
        paint.dim(`+++ ${title(last)}`),
        "",
        ...changes(found, terminal, full),
      ],
      next: [
        first !== undefined && isOneSession && !found.equal
          ? propose("rewind", [last.sessionId, first.id], {}, "takes it back")
          : propose("show", [last.sessionId]),
      ],
      exit: exits && !found.equal ? 1 : 0,
      pages: true,
    };
  },
});

/** All there is at a checkpoint, as what came since nothing was there. */
async function sinceNothing(store: Holdfast, id: string): Promise<Omit<Diff, "from" | "text">> {
  const { checkpoint, messages, state }: CheckpointState = await store.checkpoints.state(id);
  return {
    to: checkpoint,
    equal: messages.length === 0 && Object.keys(state).length === 0,
    messages: { sameAtStart: 0, sameAtEnd: 0, removed: [], added: messages },
    state: { added: state, removed: {}, changed: {} },
  };
}
