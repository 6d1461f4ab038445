import { command, flag } from "../command.js";
import { requireSession } from "../ids.js";
import { counted, inline, oneLine, shellWord } from "../text.js";

export const rm = command({
  name: "rm",
  group: "keep",
  says: "deletes sessions, and those that their calls ran; what forks share is kept for them",
  words: [{ name: "SESSION", says: "ids, or beginnings of them", completes: "session", many: true }],
  options: { "dry-run": flag("only say what would go"), yes: flag("do not ask", "y") },
  examples: [["holdfast rm order-42", ""]],
  async run({ words, options: { "dry-run": dryRun, yes }, terminal, hold, where }) {
    const store = await hold();
    // All are looked for before the first one goes.
    const found = await Promise.all(words.map((word) => requireSession(store, word)));
    const sessions = [...new Map(found.map((session) => [session.id as string, session])).values()];
    const forks = await Promise.all(
      sessions.map(async ({ id }) => (await store.sessions.forks(id, { limit: 100 })).map((fork) => fork.id as string)),
    );
    if (dryRun)
      return {
        json: { sessions: sessions.map(({ id }, i) => ({ id, keptFor: forks[i] })), dryRun },
        lines: sessions.map(
          ({ id, title }, i) => `${inline(id)}${title === undefined ? "" : ` (${oneLine(title)})`} would go.${kept(forks[i] ?? [])}`,
        ),
        next: [`rm ${sessions.map(({ id }) => shellWord(id)).join(" ")}${where}`],
      };
    await terminal.confirm(
      `${counted(sessions.length, "session")} will be deleted: ${sessions.map(({ id }) => inline(id)).join(", ")}.`,
      yes,
    );
    const gone: { id: string; keptFor: readonly string[]; snapshots?: readonly string[] }[] = [];
    for (const { id } of sessions) gone.push({ id, ...(await store.sessions.delete(id)) });
    return {
      json: { sessions: gone, dryRun },
      lines: gone.map(
        ({ id, keptFor, snapshots = [] }) =>
          `${inline(id)} is deleted.${kept(keptFor)}${snapshots.length === 0 ? "" : ` It can be brought back from ${snapshots.join(", ")}.`}`,
      ),
      next: [`gc${where}`],
    };
  },
});

const kept = (forks: readonly string[]): string =>
  forks.length === 0 ? "" : ` What it shares is kept for ${forks.map(inline).join(", ")}.`;
