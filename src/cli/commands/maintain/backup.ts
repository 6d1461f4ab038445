/** Backups: made, put back, and, for copies that others made, said to be one. */
import { withoutPasswords } from "../../../core/values/address.js";
import { quote } from "../../../core/values/errors.js";
import { command, flag } from "../../framework/command.js";
import { propose } from "../../framework/next-steps.js";
import { counted, inline, size } from "../../terminal/text.js";

export const backup = command({
  name: "backup",
  group: "move",
  says: "a copy of a store in one SQLite file, made while others write",
  words: [{ name: "FILE", says: "where to", completes: "file" }],
  options: { force: flag("replace a backup that is there") },
  examples: [["holdfast backup nightly.db --store agent.db", ""]],
  async run({ words: [path = ""], options: { force }, terminal, hold }) {
    const store = await hold();
    const bar = terminal.progress("copied");
    const made = await store
      .backup(path, { force, onProgress: ({ bytes, of }) => bar.show(bytes, of, "bytes") })
      .finally(() => bar.end());
    return {
      json: { path, ...made },
      lines: [
        `${inline(path)}: ${counted(made.sessions, "session")}, ${size(made.bytes)}, in ${(made.ms / 1_000).toFixed(1)} s.`,
      ],
      next: [propose("restore-backup", [path], { store: "restored.db" }, "beside, to look at it")],
    };
  },
});

export const restoreBackup = command({
  name: "restore-backup",
  group: "move",
  says: "a backup becomes the store",
  words: [{ name: "FILE", says: "the backup", completes: "file" }],
  options: { force: flag("where there is a store, put it aside"), yes: flag("do not ask", "y") },
  examples: [["holdfast restore-backup nightly.db --store agent.db --force", ""]],
  async run({ words: [path = ""], options: { force, yes, store }, terminal }) {
    if (force)
      await terminal.confirm(
        `What is in the store is put aside, and ${withoutPasswords(quote(path))} takes its place.`,
        {
          yes,
          dryRuns: false,
        },
      );
    const restored = await (await import("../../../index.js")).restoreBackup(path, store, {
      force,
    });
    const { unfinished, setAside } = restored;
    return {
      json: restored,
      lines: [
        `Restored ${counted(restored.sessions, "session")}, ${size(restored.bytes)}, as they were at ${restored.madeAt}.`,
      ],
      notes: [
        ...(setAside === undefined
          ? []
          : [`What stood there is in ${inline(setAside)}, a backup, too.`]),
        ...(unfinished === 0
          ? []
          : [
              `${counted(unfinished, "session")} ${unfinished === 1 ? "was" : "were"} under way, and will open as in doubt: the original may have gone on with them. Once a worker, or you, have opened them, they stand in holdfast effects --status in-doubt, to be settled.`,
            ]),
      ],
      next: [propose("ls")],
    };
  },
});

export const markRestored = command({
  name: "mark-restored",
  group: "move",
  says: "says that this store is a copy, put back by other means: what was under way opens as in doubt",
  options: { yes: flag("do not ask", "y") },
  examples: [["holdfast mark-restored --store postgres://host/db", "after pg_restore"]],
  async run({ options: { yes }, terminal, hold }) {
    const store = await hold();
    await terminal.confirm("Every session that was under way will open as in doubt.", {
      yes,
      dryRuns: false,
    });
    await store.markRestored();
    return {
      json: {},
      lines: ["A new generation of the store has begun."],
      next: [propose("ls")],
    };
  },
});
