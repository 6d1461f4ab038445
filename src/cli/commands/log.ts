import type { Checkpoint, Holdfast, SessionSummary } from "../../index.js";
import { command, flag, number, SESSION } from "../command.js";
import { allCheckpoints, requireSession, short } from "../ids.js";
import { propose } from "../proposal.js";
import { type Fork, lanes } from "../render/lanes.js";
import { statusCell } from "../render/status.js";
import { table } from "../render/table.js";
import type { Terminal } from "../terminal.js";
import { inline, oneLine, size } from "../text.js";

const LIMIT = 50;
const MOST = 100_000;

export const log = command({
  name: "log",
  group: "look",
  looks: true,
  says: "checkpoints of a session, the newest first",
  words: [SESSION],
  options: {
    graph: flag("draw all its lines, and the sessions that were forked from it, as lanes", "g"),
    all: flag("also on lines that it has left by rewinding"),
    limit: number("N", `how many, ${LIMIT} by default`, 1, MOST, "n"),
  },
  examples: [["holdfast log order-42 --graph", "with rewinds and forks"]],
  async run({ words: [word = ""], options: { graph: drawn, all, limit = LIMIT }, terminal, hold }) {
    const store = await hold();
    const session = await requireSession(store, word);
    const { items, isMore } = await newest(store, session, drawn || all, limit);
    const { forks, damaged } = drawn ? await forksOf(store, session, limit) : { forks: [], damaged: [] };
    const at = drawn ? (await store.checkpoints.latest(session.id))?.id : undefined;
    const lines = drawn ? [...lanes({ session, at, items, forks }, terminal)] : list(items, terminal);
    const [first, second] = items;
    return {
      json: { session, items, ...(drawn && { forks }), ...(damaged.length > 0 && { damaged }) },
      lines: items.length === 0 ? [`Session ${inline(session.id)} has no checkpoint yet.`] : lines,
      next: [
        ...(isMore ? [propose("log", [session.id], { graph: drawn, all, limit: Math.min(MOST, limit * 10) }, "more")] : []),
        first !== undefined && second !== undefined && !drawn && !all
          ? propose("diff", [second.id, first.id], {}, "what the last step changed")
          : propose("show", [session.id]),
      ],
      notes: damaged.map((id) => `The fork ${inline(id)} is damaged.`),
      pages: true,
    };
  },
});

async function newest(hold: Holdfast, { id }: SessionSummary, all: boolean, limit: number) {
  const items: Checkpoint[] = [];
  for await (const checkpoint of allCheckpoints(hold, id, all ? "all" : "current")) {
    if (items.length === limit) return { items, isMore: true };
    items.push(checkpoint);
  }
  return { items, isMore: false };
}

function list(items: readonly Checkpoint[], terminal: Terminal): string[] {
  const { paint } = terminal;
  const columns = [
    { title: "CHECKPOINT" },
    { title: "STEP", right: true as const },
    { title: "KIND", optional: true as const },
    { title: "STATUS" },
    { title: "MESSAGES", right: true as const },
    { title: "SIZE", right: true as const, optional: true as const },
    { title: "TOKENS", right: true as const, optional: true as const },
    { title: "MADE" },
    { title: "LABEL", least: 8 },
  ];
  const rows = items.map((at) => [
    { text: short(at.id), paint: paint.yellow },
    String(at.step),
    at.kind,
    statusCell(at.status, paint),
    String(at.messageCount),
    size(at.sizeBytes),
    at.tokenCount === undefined ? "" : at.tokenCount.toLocaleString("en-US"),
    terminal.time(at.createdAt),
    oneLine(at.label ?? ""),
  ]);
  return table(columns, rows, terminal);
}

async function forksOf(hold: Holdfast, { id }: SessionSummary, limit: number) {
  const forks: Fork[] = [];
  const { items: sessions, damaged = [] } = await hold.sessions.forks(id, { limit: Math.min(limit, 100) });
  for (const session of sessions) {
    const { items } = await hold.checkpoints.list(session.id, { limit: Math.min(limit, 1_000), lines: "all" });
    const at = (await hold.checkpoints.latest(session.id))?.id;
    forks.push({ session, at, checkpoints: items.filter(({ sessionId }) => sessionId === session.id) });
  }
  return { forks, damaged: damaged.map(({ id: fork }) => fork) };
}
