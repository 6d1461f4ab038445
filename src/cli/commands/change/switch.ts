import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { Checkpoint, Holdfast, SessionSummary } from "../../../index.js";
import { command, number, SESSION } from "../../framework/command.js";
import {
  allCheckpoints,
  requireCheckpoint,
  requireSessionToChange,
  short,
} from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { inline } from "../../terminal/text.js";

export const switchBranch = command({
  name: "switch",
  group: "steer",
  says: "undoes a rewind: the branch that a session has left becomes its current one again",
  words: [
    SESSION,
    { name: "CHECKPOINT", says: "any checkpoint of that branch", completes: "checkpoint" },
  ],
  options: { wait: number("MS", "how long to wait for whoever holds the session", 0, 86_400_000) },
  examples: [["holdfast switch order-42 7k3fa1b2-14", "takes a rewind back"]],
  async run({ words: [word = "", to = ""], options: { wait }, hold, terminal }) {
    const store = await hold();
    const session = await requireSessionToChange(store, word, terminal.isAttended);
    const at = await onAnyBranch(store, session, to);
    await store.sessions.switchBranch(
      session.id,
      at.id,
      wait === undefined ? {} : { waitMs: wait },
    );
    const now = await store.checkpoints.latest(session.id);
    return {
      json: { session: session.id, ...(now !== undefined && { checkpoint: now }) },
      lines: [
        `${inline(session.id)} goes on from ${now === undefined ? "its beginning" : `${short(now.id)}, step ${now.step}, with ${now.messageCount} messages`}.`,
      ],
      next: [propose("log", [session.id], { graph: true })],
    };
  },
});

/** A number alone may stand on several branches; those it has left are meant. */
async function onAnyBranch(
  hold: Holdfast,
  session: SessionSummary,
  word: string,
): Promise<Checkpoint> {
  if (!/^@?\d+$/.test(word)) return requireCheckpoint(hold, word);
  const seq = word.replace(/^@/, "");
  const found: Checkpoint[] = [];
  for await (const checkpoint of allCheckpoints(hold, session.id, "all"))
    if (String(checkpoint.seq) === seq) found.push(checkpoint);
  if (found.length > 1)
    throw new HoldfastError(
      "INVALID_ID",
      `${quote(word)} stands on several branches: ${found.map(({ id }) => short(id)).join(", ")}. Say which.`,
      { found: word },
    );
  const [only] = found;
  if (only === undefined)
    throw new HoldfastError(
      "NOT_FOUND",
      `Session ${quote(session.id)} has no checkpoint ${quote(word)}.`,
      { sessionId: session.id },
    );
  return only;
}
