import type { SessionFilter, SessionStatus, SessionSummary } from "../../../index.js";
import { STATUSES } from "../../framework/choices.js";
import { command, flag, number, text } from "../../framework/command.js";
import { type Proposal, propose } from "../../framework/next-steps.js";
import { statusCell } from "../../render/status.js";
import { table } from "../../render/table.js";
import { counted, inline, oneLine } from "../../terminal/text.js";

export const ls = command({
  name: "ls",
  group: "look",
  looks: true,
  says: "sessions, the last made first",
  options: {
    agent: text("AGENT", "only those of this agent", { completes: "agent" }),
    status: text("STATUS", "only those that are", { choices: STATUSES }),
    tag: text("TAG", "only those with this tag"),
    archived: flag("only those that were archived; without it, only those that were not"),
    limit: number("N", "how many, 20 by default", 1, 1_000, "n"),
    cursor: text("CURSOR", "go on where an earlier list ended; it says how"),
  },
  examples: [
    ["holdfast ls --status in-doubt", "what somebody must settle"],
    ["holdfast ls --agent support -n 50 --json", ""],
  ],
  async run({ options: { agent, status, tag, archived, limit, cursor }, terminal, hold }) {
    const filter: SessionFilter = {
      archived,
      ...(agent !== undefined && { agent }),
      ...(status !== undefined && { status: status as SessionStatus }),
      ...(tag !== undefined && { tag }),
      ...(limit !== undefined && { limit }),
      ...(cursor !== undefined && { cursor }),
    };
    const { items, next, damaged = [] } = await (await hold()).sessions.list(filter);
    const { paint } = terminal;
    const rows = items.map(({ id, status: is, agent: by, updatedAt, title, tags, parent }) => [
      { text: inline(id), paint: paint.bold },
      statusCell(is, paint),
      inline(by ?? ""),
      terminal.time(updatedAt),
      inline(parent ?? ""),
      inline(tags.join(" ")),
      oneLine(title ?? ""),
    ]);
    const columns = [
      { title: "SESSION", least: 12 },
      { title: "STATUS" },
      { title: "AGENT", least: 6, optional: true as const },
      { title: "UPDATED" },
      { title: "CALLED BY", least: 8, optional: true as const },
      { title: "TAGS", least: 4, optional: true as const },
      { title: "TITLE", least: 8 },
    ];
    const isFiltered =
      [agent, status, tag, cursor].some((filter) => filter !== undefined) || archived;
    return {
      json: { items, ...(damaged.length > 0 && { damaged }), ...(next !== undefined && { next }) },
      lines:
        items.length > 0
          ? table(columns, rows, terminal)
          : [isFiltered ? "No session fits." : "No sessions yet."],
      notes:
        damaged.length === 0
          ? []
          : [
              `${counted(damaged.length, "session")} cannot be shown: ${damaged.map(({ id }) => inline(id)).join(", ")}`,
            ],
      next: [
        ...(damaged.length > 0 ? [propose("verify")] : []),
        ...(next === undefined
          ? []
          : [propose("ls", [], { agent, status, tag, archived, limit, cursor: next }, "more")]),
        nextOf(items, isFiltered),
      ],
      pages: true,
    };
  },
});

/** What waits for somebody comes first. */
function nextOf(items: readonly SessionSummary[], isFiltered: boolean): Proposal {
  const [first] = items;
  if (first === undefined) return isFiltered ? propose("ls") : propose("demo", [], { keep: true });
  const stuck = items.find(({ status }) => status === "in-doubt" || status === "waiting");
  return stuck === undefined
    ? propose("log", [first.id])
    : propose("show", [stuck.id], {}, `it is ${stuck.status}`);
}
