import { POLICIES } from "../../framework/choices.js";
import { command, text } from "../../framework/command.js";
import { requireCheckpoint, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import type { EffectPolicy } from "../../framework/types.js";
import { inline } from "../../terminal/text.js";

export const effectsOption = text(
  "WHAT",
  "when a call that was made since is made again: ask waits for approval (the default), replay answers from the record, live makes it",
  { choices: POLICIES },
);

export const fork = command({
  name: "fork",
  group: "steer",
  says: "a new session that begins at a checkpoint; nothing is copied",
  words: [
    { name: "ID", says: "a checkpoint, or a session for its newest one", completes: "checkpoint" },
  ],
  options: {
    id: text("NEW", "the id of the new session; without it, one is made from that of the old"),
    effects: effectsOption,
  },
  examples: [
    ["holdfast fork order-42@12 --id order-42-what-if", "what if it had chosen otherwise?"],
  ],
  async run({ words: [word = ""], options: { id, effects }, hold }) {
    const store = await hold();
    const at = await requireCheckpoint(store, word);
    const made = await store.sessions.fork(at.id, {
      id:
        id ??
        (await freeId(
          at.sessionId,
          async (name) => (await store.sessions.get(name)) !== undefined,
        )),
      ...(effects !== undefined && { effects: effects as EffectPolicy }),
    });
    return {
      json: { session: made },
      lines: [
        `${inline(made.id)} begins at ${short(at.id)} of ${inline(at.sessionId)}, with ${at.messageCount} messages.`,
      ],
      next: [propose("show", [made.id]), propose("diff", [at.sessionId, made.id])],
    };
  },
});

function fitting(text: string, bytes: number): string {
  let fits = "";
  for (const character of text) {
    if (Buffer.byteLength(fits) + Buffer.byteLength(character) > bytes) return fits;
    fits += character;
  }
  return fits;
}

async function freeId(of: string, isTaken: (id: string) => Promise<boolean>): Promise<string> {
  for (let nth = 1; ; nth++) {
    // An id is 200 bytes at most.
    const id = `${fitting(of, 180)}-fork-${nth}`;
    if (!(await isTaken(id))) return id;
  }
}
