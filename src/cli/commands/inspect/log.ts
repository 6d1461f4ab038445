import type { Checkpoint, Holdfast, SessionSummary } from "../../../index.js";
import { type Answer, command, flag, number, SESSION, text } from "../../framework/command.js";
import { allCheckpoints, requireSession, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import { type Fork, lanes } from "../../render/lanes.js";
import { statusCell } from "../../render/status.js";
import { table } from "../../render/table.js";
import type { Terminal } from "../../terminal/terminal.js";
import { inline, oneLine, size } from "../../terminal/text.js";

const LIMIT = 50;
const MOST = 100_000;

export const log = command({
  name: "log",
  group: "look",
  looks: true,
  says: "checkpoints of a session, of an agent or of everything, the newest first",
  words: [
    {
      ...SESSION,
      says: "its id, or the beginning of it; without it, all sessions, the last made first",
      optional: true,
    },
  ],
  options: {
    agent: text("AGENT", "all sessions of this agent", { completes: "agent" }),
    graph: flag(
      "draw all branches of a session, and the sessions that were forked from it, as lanes",
      "g",
    ),
    all: flag("also on branches that were left by rewinding"),
    limit: number("N", `how many, ${LIMIT} by default`, 1, MOST, "n"),
  },
  examples: [
    ["holdfast log order-42 --graph", "with rewinds and forks"],
    ["holdfast log --agent support", "of all its sessions"],
  ],
  async run({
    words: [word],
    options: { agent, graph: drawn, all, limit = LIMIT },
    terminal,
    hold,
  }) {
    if (word !== undefined && agent !== undefined)
      throw usage("log takes a SESSION or --agent AGENT, not both");
    if (word === undefined && drawn) throw usage("--graph needs a SESSION");
    const store = await hold();
    if (word === undefined) return logOfMany(store, { agent, all, limit }, terminal);
    const session = await requireSession(store, word);
    const { items, isMore } = await newest(
      allCheckpoints(store, session.id, drawn || all ? "all" : "current"),
      limit,
    );
    const { forks, damaged } = drawn
      ? await forksOf(store, session, limit)
      : { forks: [], damaged: [] };
    const at = drawn ? (await store.checkpoints.latest(session.id))?.id : undefined;
    const lines = drawn
      ? [...lanes({ session, at, items, forks }, terminal)]
      : list(items, terminal);
    const [first, second] = items;
    return {
      json: {
        session,
        items,
        ...(isMore && { more: true }),
        ...(drawn && { forks }),
        ...(damaged.length > 0 && { damaged }),
      },
      lines: items.length === 0 ? [`Session ${inline(session.id)} has no checkpoint yet.`] : lines,
      next: [
        ...(isMore
          ? [
              propose(
                "log",
                [session.id],
                { graph: drawn, all, limit: Math.min(MOST, limit * 10) },
                "more",
              ),
            ]
          : []),
        first !== undefined && second !== undefined && !drawn && !all
          ? propose("diff", [second.id, first.id], {}, "what the last step changed")
          : propose("show", [session.id]),
      ],
      notes: damaged.map((id) => `The fork ${inline(id)} is damaged.`),
      pages: true,
    };
  },
});

interface Many {
  readonly agent: string | undefined;
  readonly all: boolean;
  readonly limit: number;
}

async function logOfMany(
  store: Holdfast,
  { agent, all, limit }: Many,
  terminal: Terminal,
): Promise<Answer> {
  const damaged: string[] = [];
  const { items, isMore } = await newest(
    ofMany(store, { agent, branches: all ? "all" : "current" }, damaged),
    limit,
  );
  const [first] = items;
  return {
    json: { items, ...(isMore && { more: true }), ...(damaged.length > 0 && { damaged }) },
    lines:
      items.length === 0 ? ["There is no checkpoint yet."] : list(items, terminal, { named: true }),
    next: [
      ...(damaged.length > 0 ? [propose("verify")] : []),
      ...(isMore
        ? [propose("log", [], { agent, all, limit: Math.min(MOST, limit * 10) }, "more")]
        : []),
      first === undefined ? propose("ls") : propose("show", [first.id]),
    ],
    notes: damaged.map(
      (id) => `Checkpoints of session ${inline(id)} are damaged, and not all of them are shown.`,
    ),
    pages: true,
  };
}

/** Goes through all pages. Adds the ids of damaged sessions to `damaged`. */
async function* ofMany(
  store: Holdfast,
  { agent, branches }: { readonly agent: string | undefined; readonly branches: "current" | "all" },
  damaged: string[],
): AsyncGenerator<Checkpoint> {
  for (let cursor: string | undefined; ; ) {
    const page = await store.checkpoints.list({
      branches,
      limit: 100,
      ...(agent !== undefined && { agent }),
      ...(cursor !== undefined && { cursor }),
    });
    damaged.push(...(page.damaged ?? []).map(({ id }) => id));
    yield* page.items;
    if (page.next === undefined) return;
    cursor = page.next;
  }
}

async function newest(all: AsyncIterable<Checkpoint>, limit: number) {
  const items: Checkpoint[] = [];
  for await (const checkpoint of all) {
    if (items.length === limit) return { items, isMore: true };
    items.push(checkpoint);
  }
  return { items, isMore: false };
}

function list(items: readonly Checkpoint[], terminal: Terminal, { named = false } = {}): string[] {
  const { paint } = terminal;
  const columns = [
    { title: "CHECKPOINT" },
    ...(named ? [{ title: "SESSION", least: 12 }] : []),
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
    ...(named ? [inline(at.sessionId)] : []),
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
  const { items: sessions, damaged = [] } = await hold.sessions.forks(id, {
    limit: Math.min(limit, 100),
  });
  for (const session of sessions) {
    const { items } = await hold.checkpoints.list(session.id, {
      limit: Math.min(limit, 1_000),
      branches: "all",
    });
    const at = (await hold.checkpoints.latest(session.id))?.id;
    forks.push({
      session,
      at,
      checkpoints: items.filter(({ sessionId }) => sessionId === session.id),
    });
  }
  return { forks, damaged: damaged.map(({ id: fork }) => fork) };
}
