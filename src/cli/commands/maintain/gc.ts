import { command, flag } from "../../framework/command.js";
import { propose } from "../../framework/next-steps.js";
import { counted, oneLine, size } from "../../terminal/text.js";

/** What going over the store's files has left there. */
export function scrubbed(left: readonly string[] | undefined): readonly string[] {
  if (left === undefined) return [];
  if (left.length === 0) return ["Deleted text is gone from the store's files."];
  return ["Deleted text may still be in:", ...left.map((one) => `  ${oneLine(one)}`)];
}

export const gc = command({
  name: "gc",
  group: "keep",
  says: "frees what nothing refers to, and shrinks files; others can write meanwhile",
  options: {
    "dry-run": flag("only say what would be freed"),
    scrub: flag("also remove deleted text from the store's files: others cannot write meanwhile"),
    yes: flag("do not ask", "y"),
  },
  examples: [
    ["holdfast gc --dry-run", ""],
    ["holdfast gc --scrub", "after sessions were deleted, leaves nothing of them in the files"],
  ],
  async run({ options: { "dry-run": dryRun, scrub, yes }, terminal, hold, signal }) {
    const store = await hold();
    if (!dryRun) await terminal.confirm("What nothing refers to any more will be freed.", { yes });
    const bar = terminal.progress("freed");
    const report = await store
      .gc({
        dryRun,
        scrub,
        signal,
        onProgress: ({ freedBytes }) => bar.show(freedBytes, undefined, "bytes"),
      })
      .finally(() => bar.end());
    const { freedBytes, saves, blobs, returnedBytes, left } = report;
    return {
      json: { ...report, dryRun },
      lines: [
        `${dryRun ? "Would free" : "Freed"} ${size(freedBytes)}: ${counted(saves, "save")}, ${counted(blobs, "blob")}.${returnedBytes > 0 ? ` Files became ${size(returnedBytes)} shorter.` : ""}`,
        ...scrubbed(left),
      ],
      next: [dryRun && freedBytes > 0 ? propose("gc") : propose("stats")],
    };
  },
});
