import { once } from "node:events";
import { createReadStream, type ReadStream } from "node:fs";
import { addAbortSignal } from "node:stream";
import type { ImportReport } from "../../../index.js";
import type { MigrationKind, MigrationReport } from "../../../migrate/index.js";
import { type Answer, command, flag, type Run } from "../../framework/command.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import { isMissing, unreadable } from "../../framework/store.js";
import type { TransferProgress } from "../../framework/types.js";
import { table } from "../../render/table.js";
import type { Terminal } from "../../terminal/terminal.js";
import { counted, inline, size } from "../../terminal/text.js";

const FOREIGN: readonly MigrationKind[] = ["ares", "ccswarm", "smooth", "aethershell"];
const importOptions = {
  "dry-run": flag("read and check everything, say what would be imported, and change nothing"),
  moved: flag(
    "holdfast: nobody goes on with these sessions where they come from, so they are not in doubt here",
  ),
} as const;

export const importCommand = command({
  name: "import",
  group: "move",
  says: "takes in an export, or the files of another system; run twice, it comes once",
  more: [
    "ares: a directory of its checkpoints. ccswarm: its checkpoints directory. smooth: a directory of its file store, or its SQLite database.",
    "aethershell: a directory with agents, conversations and checkpoints. holdfast: a file that export made, or - for stdin.",
    "Nothing is changed where it comes from. What cannot be read is named and passed over, and the rest is imported.",
  ].join("\n"),
  words: [
    { name: "KIND", says: "what it is", choices: [...FOREIGN, "holdfast"] },
    { name: "PATH", says: "where it is", completes: "file" },
  ],
  options: importOptions,
  examples: [
    ["holdfast import ares ~/.local/share/ares/checkpoints --dry-run", ""],
    ["holdfast import smooth checkpoints.db --store agent.db", ""],
    ["ssh other holdfast export --all | holdfast import holdfast -", ""],
  ],
  async run(run) {
    const {
      words: [kind = "", path = ""],
      options,
    } = run;
    if (kind === "holdfast") return importRows(path, run);
    if (options.moved) throw usage("--moved goes with holdfast import holdfast");
    return migrateFiles(kind as MigrationKind, path, run);
  },
});

type Importing = Run<typeof importOptions>;

// ---- our own

async function importRows(
  path: string,
  { options: { "dry-run": dryRun, moved, store: named }, terminal, hold, signal }: Importing,
): Promise<Answer> {
  // Also while it waits for what comes next.
  const rows = addAbortSignal(signal, path === "-" ? process.stdin : await readable(path));
  // A dry run makes no store where there is none.
  const store =
    dryRun && isMissing(named)
      ? await (await import("../../../index.js")).open("memory:")
      : await hold({ make: true });
  const bar = terminal.progress("imported");
  const onProgress = ({ sessions, of }: TransferProgress) => bar.show(sessions, of);
  const report = await store
    .import(rows, { dryRun, moved, signal, onProgress })
    .finally(() => bar.end());
  return {
    json: { ...report, dryRun },
    lines: imported(report, dryRun),
    notes: troubles(report),
    next: nextOf(report, { dryRun, moved, path }),
    exit: report.conflicts.length > 0 ? 4 : 0,
  };
}

/** Opened before a store is made for it. */
async function readable(path: string): Promise<ReadStream> {
  const stream = createReadStream(path);
  try {
    await once(stream, "open");
    return stream;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function imported(
  { sessions, agents, saves, blobs, bytes }: ImportReport,
  dryRun: boolean,
): string[] {
  const fresh = sessions.filter(({ outcome }) => outcome === "imported").length;
  const known = sessions.length - fresh;
  const records = agents.filter(({ outcome }) => outcome === "imported").length;
  const of = [
    counted(saves, "save"),
    counted(blobs, "blob"),
    size(bytes),
    ...(records > 0 ? [counted(records, "agent")] : []),
  ].join(", ");
  return [
    `${dryRun ? "Would import" : "Imported"} ${counted(fresh, "session")} (${of})${known > 0 ? `; ${known} ${known === 1 ? "was" : "were"} here already` : ""}.`,
  ];
}

const troubles = ({ conflicts, leftOut }: ImportReport): string[] => [
  ...conflicts.map(({ id, message }) => `Not imported: ${inline(id)}: ${inline(message)}`),
  ...leftOut.map(({ id, message }) => `Not in the export: ${inline(id)}: ${inline(message)}`),
];

function nextOf(
  { sessions: [first] }: ImportReport,
  {
    dryRun,
    moved,
    path,
  }: { readonly dryRun: boolean; readonly moved: boolean; readonly path: string },
) {
  if (dryRun && path !== "-") return [propose("import", ["holdfast", path], { moved })];
  return [first === undefined || dryRun ? propose("ls") : propose("log", [first.id])];
}

// ---- other systems

async function migrateFiles(
  kind: MigrationKind,
  path: string,
  { options, terminal, signal }: Importing,
): Promise<Answer> {
  const dryRun = options["dry-run"];
  const { migrate } = await import("../../../migrate/index.js");
  const bar = terminal.progress("read");
  const report = await migrate(kind, path, options.store, {
    dryRun,
    signal,
    onProgress: ({ files, of }) => bar.show(files, of),
    ...(options.tenant !== undefined && { tenant: options.tenant }),
  }).finally(() => bar.end());
  const [first] = report.sessions;
  return {
    json: { ...report },
    lines: migrated(report, terminal),
    notes: [
      ...report.skipped.map(({ path: file, why }) => `Skipped ${inline(file)}: ${inline(why)}`),
      ...report.notes.map(
        ({ path: file, what }) => `${file === undefined ? "" : `${inline(file)}: `}${inline(what)}`,
      ),
    ],
    next: [
      dryRun
        ? propose("import", [kind, path])
        : first === undefined
          ? propose("ls")
          : propose("log", [first.id], { graph: true }),
    ],
    exit: [...report.sessions, ...report.agents, ...report.snapshots].some(
      ({ outcome }) => outcome === "conflict",
    )
      ? 4
      : 0,
    pages: true,
  };
}

const SHOWN = 50;
const isTrouble = ({ outcome }: { readonly outcome: string }): boolean =>
  outcome === "conflict" || outcome === "refused";

function migrated(report: MigrationReport, terminal: Terminal): string[] {
  const { sessions, agents, snapshots, files, skipped, sourceBytes, storedBytes, dryRun } = report;
  const { paint } = terminal;
  // What was not imported is always named; of the rest the first.
  const all = [
    ...sessions.map((session) => ({ what: "", ...session })),
    ...agents.map((agent) => ({ what: "agent ", checkpoints: 0, ...agent })),
    ...snapshots.map((snapshot) => ({ what: "snapshot ", checkpoints: 0, ...snapshot })),
  ];
  const shown = [...all.filter(isTrouble), ...all.filter((one) => !isTrouble(one)).slice(0, SHOWN)];
  const rows = shown.map(({ what, id, outcome, checkpoints, message }) => [
    { text: `${what}${inline(id)}`, paint: paint.bold },
    { text: outcome, paint: isTrouble({ outcome }) ? paint.red : paint.green },
    what === "" ? String(checkpoints) : "",
    inline(message ?? ""),
  ]);
  const columns = [
    { title: "SESSION", least: 12 },
    { title: "OUTCOME" },
    { title: "CHECKPOINTS", right: true as const },
    { title: "", least: 10 },
  ];
  const made = (some: readonly { readonly outcome: string }[]) =>
    some.filter(({ outcome }) => outcome === "imported" || outcome === "grown").length;
  const checkpoints = sessions.reduce((sum, session) => sum + session.checkpoints, 0);
  const counts = [
    counted(made(sessions), "session"),
    counted(checkpoints, "checkpoint"),
    ...(agents.length > 0 ? [counted(made(agents), "agent")] : []),
    ...(snapshots.length > 0 ? [counted(made(snapshots), "snapshot")] : []),
  ];
  const known = all.filter(({ outcome }) => outcome === "known").length;
  const smaller =
    storedBytes > 0 && sourceBytes > storedBytes
      ? `, ${(sourceBytes / storedBytes).toFixed(1)} times smaller`
      : "";
  return [
    ...(rows.length === 0 ? [] : table(columns, rows, terminal)),
    ...(all.length > shown.length ? [`… and ${all.length - shown.length} more`] : []),
    `${dryRun ? "Would import" : "Imported"} ${counts.join(", ")} from ${counted(files, "file")}${known > 0 ? `; ${known} ${known === 1 ? "was" : "were"} imported before` : ""}${skipped.length > 0 ? `; ${skipped.length} skipped` : ""}.`,
    ...(checkpoints > 0 ? [`${size(sourceBytes)} became ${size(storedBytes)}${smaller}.`] : []),
  ];
}
