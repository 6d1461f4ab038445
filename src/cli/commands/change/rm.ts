import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { DeleteReport, Holdfast } from "../../../index.js";
import { command, flag } from "../../framework/command.js";
import { requireSessionToChange } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { counted, inline, oneLine } from "../../terminal/text.js";
import { scrubbed } from "../maintain/gc.js";

export const rm = command({
  name: "rm",
  group: "keep",
  says: "deletes sessions, and the sessions that their calls ran; what forks share is kept",
  words: [
    { name: "SESSION", says: "ids, or beginnings of them", completes: "session", many: true },
  ],
  options: {
    "dry-run": flag("only say what would go"),
    scrub: flag("also remove their text from the store's files, as gc --scrub does"),
    yes: flag("do not ask", "y"),
  },
  examples: [
    ["holdfast rm order-42", ""],
    ["holdfast rm --scrub order-42", "leaves nothing of it in the store's files"],
  ],
  async run({ words, options: { "dry-run": dryRun, scrub, yes }, terminal, hold, signal }) {
    const store = await hold();
    const isSeen = terminal.isAttended && !yes;
    // All are looked for before the first one goes.
    const found = await Promise.all(words.map((word) => sessionToDelete(store, word, isSeen)));
    const sessions = [...new Map(found.map((session) => [session.id, session])).values()];
    const would = await Promise.all(
      sessions.map(async ({ id }) => ({
        id,
        ...(await store.sessions.delete(id, { dryRun: true })),
      })),
    );
    if (dryRun)
      return {
        json: { sessions: would, dryRun },
        lines: would.map(
          (one, i) =>
            `${inline(one.id)}${titled(sessions[i]?.title)} would go${withCheckpoints(one)}.${more(one)}`,
        ),
        next: [
          propose(
            "rm",
            sessions.map(({ id }) => id),
            scrub ? { scrub } : {},
          ),
        ],
      };
    const children = would.flatMap((one) => one.children ?? []);
    const besides =
      children.length === 0
        ? ""
        : `, with ${counted(children.length, "session")} that their calls ran`;
    await terminal.confirm(
      `${counted(sessions.length, "session")} will be deleted: ${sessions.map(({ id }) => inline(id)).join(", ")}${besides}.`,
      { yes },
    );
    const gone: Gone[] = [];
    for (const { id } of sessions) {
      try {
        const one = await store.sessions.delete(id);
        if (!one.deleted)
          throw new HoldfastError(
            "NOT_FOUND",
            `Session ${quote(id)} is not there any more: another process has deleted it.`,
            {
              sessionId: id,
            },
          );
        gone.push({ id, ...one });
      } catch (error) {
        for (const one of gone) terminal.tell(said(one));
        throw error;
      }
    }
    const freed = scrub ? await store.gc({ scrub, signal }) : undefined;
    return {
      json: { sessions: gone, dryRun, ...(freed && { left: freed.left ?? [] }) },
      lines: [...gone.map(said), ...scrubbed(freed?.left)],
      next: freed === undefined ? [propose("gc", [], { "dry-run": true })] : [],
    };
  },
});

/** Of a damaged session no more than its id is known, which is enough to delete it. */
async function sessionToDelete(
  store: Holdfast,
  word: string,
  isSeen: boolean,
): Promise<{ readonly id: string; readonly title?: string }> {
  try {
    return await requireSessionToChange(store, word, isSeen);
  } catch (error) {
    // Of damage to the whole store no error names a session or a branch.
    const isOfSession =
      error instanceof HoldfastError &&
      error.code === "CORRUPT" &&
      (error.details.sessionId ?? error.details.branch) !== undefined;
    if (isOfSession && (await store.sessions.has(word))) return { id: word };
    throw error;
  }
}

interface Gone extends DeleteReport {
  readonly id: string;
}

const said = (one: Gone): string =>
  `${inline(one.id)} is deleted${withCheckpoints(one)}.${more(one)}`;
const withCheckpoints = ({ checkpoints }: Gone): string =>
  checkpoints === 0 ? "" : `, with ${counted(checkpoints, "checkpoint")}`;
const titled = (title: string | undefined): string =>
  title === undefined ? "" : ` (${oneLine(title)})`;

function more({ keptFor, children = [], snapshots = [] }: Gone): string {
  const says = [
    ...(children.length > 0
      ? [` With it ${children.map(inline).join(", ")}, which its calls ran.`]
      : []),
    ...(keptFor.length > 0
      ? [` What it shares is kept for ${keptFor.map(inline).join(", ")}.`]
      : []),
    ...(snapshots.length > 0 ? [` It can be brought back from ${snapshots.join(", ")}.`] : []),
  ];
  return says.join("");
}
