import { command, flag } from "../command.js";
import { propose } from "../proposal.js";
import { counted, size } from "../text.js";

export const gc = command({
  name: "gc",
  group: "keep",
  says: "frees what nothing refers to, and shrinks files; others can write meanwhile",
  options: { "dry-run": flag("only say what would be freed"), yes: flag("do not ask", "y") },
  examples: [["holdfast gc --dry-run", ""]],
  async run({ options: { "dry-run": dryRun, yes }, terminal, hold, signal }) {
    const store = await hold();
    if (!dryRun) await terminal.confirm("What nothing refers to any more will be freed.", { yes });
    const bar = terminal.progress("freed");
    const report = await store
      .gc({ dryRun, signal, onProgress: ({ freedBytes }) => bar.show(freedBytes, undefined, "bytes") })
      .finally(() => bar.end());
    const { freedBytes, saves, blobs, returnedBytes } = report;
    return {
      json: { ...report, dryRun },
      lines: [
        `${dryRun ? "Would free" : "Freed"} ${size(freedBytes)}: ${counted(saves, "save")}, ${counted(blobs, "blob")}.${returnedBytes > 0 ? ` Files became ${size(returnedBytes)} shorter.` : ""}`,
      ],
      next: [dryRun && freedBytes > 0 ? propose("gc") : propose("stats")],
    };
  },
});
