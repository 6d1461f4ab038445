/** `agents`, `snapshots`, `snapshot` and `restore`. */
import type { CheckpointKind } from "../../../index.js";
import { KINDS } from "../../framework/choices.js";
import { command, flag, number, text } from "../../framework/command.js";
import { requireSnapshot } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import type { RestoreReport } from "../../framework/types.js";
import { table } from "../../render/table.js";
import { counted, inline, oneLine, size } from "../../terminal/text.js";

const limit = number("N", "how many, 20 by default", 1, 1_000, "n");
const cursor = text("CURSOR", "go on where an earlier list ended; it says how");
/** Enough to compare two by eye; `--json` has the whole. */
const DIGEST_SHOWN = 8;
const AGENT = { name: "AGENT", says: "its id", completes: "agent" } as const;

export const agents = command({
  name: "agents",
  group: "agents",
  looks: true,
  says: "agents that have a record, the newest first",
  options: { limit, cursor },
  async run({ options, terminal, hold }) {
    const {
      items,
      next,
      damaged = [],
    } = await (await hold()).agents.list({
      ...(options.limit !== undefined && { limit: options.limit }),
      ...(options.cursor !== undefined && { cursor: options.cursor }),
    });
    const rows = items.map(({ id, name, type, version, updatedAt, capabilities }) => [
      { text: inline(id), paint: terminal.paint.bold },
      inline(name === id ? "" : name),
      inline(type ?? ""),
      String(version),
      terminal.time(updatedAt),
      inline(capabilities.join(" ")),
    ]);
    const columns = [
      { title: "AGENT", least: 12 },
      { title: "NAME", least: 8 },
      { title: "TYPE", least: 6 },
      { title: "VERSION", right: true as const },
      { title: "UPDATED" },
      { title: "CAPABILITIES", least: 8 },
    ];
    const [first] = items;
    return {
      json: { items, ...(damaged.length > 0 && { damaged }), ...(next !== undefined && { next }) },
      lines: items.length === 0 ? ["No agents yet."] : table(columns, rows, terminal),
      notes: damaged.map(({ id }) => `The record of ${inline(id)} is damaged.`),
      next: [
        ...(next === undefined
          ? []
          : [propose("agents", [], { limit: options.limit, cursor: next }, "more")]),
        first === undefined
          ? propose("demo", [], { keep: true })
          : propose("ls", [], { agent: first.id }),
      ],
      pages: true,
    };
  },
});

export const snapshots = command({
  name: "snapshots",
  group: "agents",
  looks: true,
  says: "snapshots of an agent, the newest first",
  more: [
    "SIZE is what a snapshot itself takes: the record, and the place and labels of each session.",
    "DIGEST is the beginning of its checksum; --json has the whole. Snapshots with the same digest hold the same record and sessions.",
  ].join("\n"),
  words: [AGENT],
  options: { kind: text("KIND", "only those that are", { choices: KINDS }), limit, cursor },
  async run({ words: [agent = ""], options, terminal, hold }) {
    const {
      items,
      next,
      damaged = [],
    } = await (await hold()).agents.snapshots(agent, {
      ...(options.kind !== undefined && { kind: options.kind as CheckpointKind }),
      ...(options.limit !== undefined && { limit: options.limit }),
      ...(options.cursor !== undefined && { cursor: options.cursor }),
    });
    const rows = items.map(({ id, kind, createdAt, sessions, sizeBytes, digest, name }) => [
      { text: id, paint: terminal.paint.yellow },
      kind,
      String(sessions),
      size(sizeBytes),
      digest.slice(0, DIGEST_SHOWN),
      terminal.time(createdAt),
      oneLine(name ?? ""),
    ]);
    const columns = [
      { title: "SNAPSHOT" },
      { title: "KIND" },
      { title: "SESSIONS", right: true as const },
      { title: "SIZE", right: true as const },
      { title: "DIGEST" },
      { title: "MADE" },
      { title: "NAME", least: 8 },
    ];
    const [first] = items;
    return {
      json: { items, ...(damaged.length > 0 && { damaged }), ...(next !== undefined && { next }) },
      lines:
        items.length === 0
          ? [`No snapshots of ${inline(agent)} yet.`]
          : table(columns, rows, terminal),
      notes: damaged.map(({ id }) => `Snapshot ${inline(id)} is damaged.`),
      next: [
        ...(next === undefined
          ? []
          : [
              propose(
                "snapshots",
                [agent],
                { kind: options.kind, limit: options.limit, cursor: next },
                "more",
              ),
            ]),
        first === undefined
          ? propose("agents")
          : propose("restore", [first.id], { "dry-run": true }),
      ],
      pages: true,
    };
  },
});

export const snapshot = command({
  name: "snapshot",
  group: "agents",
  says: "keeps an agent's record and the places of all its sessions",
  words: [AGENT],
  options: {
    name: text("NAME", "what to call it"),
    description: text("TEXT", "more of it"),
    kind: text("KIND", "manual by default", { choices: KINDS }),
  },
  examples: [["holdfast snapshot support --name 'before the move'", ""]],
  async run({ words: [agent = ""], options: { name, description, kind }, hold }) {
    const made = await (await hold()).agents.snapshot(agent, {
      ...(name !== undefined && { name }),
      ...(description !== undefined && { description }),
      ...(kind !== undefined && { kind: kind as CheckpointKind }),
    });
    return {
      json: { snapshot: made },
      lines: [`${made.id}: ${inline(agent)}, ${counted(made.sessions, "session")}.`],
      next: [propose("restore", [made.id], { "dry-run": true })],
    };
  },
});

export const restore = command({
  name: "restore",
  group: "agents",
  says: "puts an agent and its sessions back to where a snapshot found them",
  more: "All of it is verified first and changed in one step, or nothing is. What was there before becomes a snapshot, too.",
  words: [{ name: "ID", says: "of a snapshot, or the beginning of it", completes: "snapshot" }],
  options: {
    "take-over": flag("take sessions from those who hold them, instead of refusing"),
    "dry-run": flag("only say what would change"),
    yes: flag("do not ask", "y"),
  },
  examples: [["holdfast restore snap-7k3fa1b2 --dry-run", ""]],
  async run({
    words: [word = ""],
    options: { "take-over": takeOver, "dry-run": dryRun, yes },
    terminal,
    hold,
    signal,
  }) {
    const store = await hold();
    const { id, agent, sessions } = await requireSnapshot(store, word);
    if (!dryRun)
      await terminal.confirm(
        `Agent ${inline(agent)} and all its sessions go back to snapshot ${id} (${counted(sessions, "session")}).`,
        {
          yes,
        },
      );
    const bar = terminal.progress("verifying");
    const report = await store.agents
      .restore(id, { takeOver, dryRun, signal, onProgress: (done, of) => bar.show(done, of) })
      .finally(() => bar.end());
    const { recovery } = report;
    return {
      json: { ...report, dryRun },
      lines: restored(report, dryRun),
      next: dryRun
        ? [propose("restore", [id], { "take-over": takeOver })]
        : recovery === undefined
          ? [propose("ls", [], { agent })]
          : [propose("restore", [recovery.id], {}, "takes it back"), propose("ls", [], { agent })],
    };
  },
});

function restored(
  { sessions, snapshot: { id, agent }, held = [], recovery }: RestoreReport,
  dryRun: boolean,
): string[] {
  const by = new Map<string, number>();
  for (const { outcome } of sessions) by.set(outcome, (by.get(outcome) ?? 0) + 1);
  const changes = [...by].map(([outcome, count]) => `${count} ${outcome}`).join(", ");
  return [
    `${inline(agent)} ${dryRun ? "would go" : "went"} back to ${id}: ${changes === "" ? "no sessions" : changes}.`,
    ...(held.length > 0 ? [`Held by others, and in the way: ${held.map(inline).join(", ")}`] : []),
    ...(recovery === undefined ? [] : [`What was there before is snapshot ${recovery.id}.`]),
  ];
}
