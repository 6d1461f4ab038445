import type { Checkpoint, Holdfast, SessionSummary } from "../../index.js";
import { command, flag, number } from "../command.js";
import { allCheckpoints, requireSession, short } from "../ids.js";
import { propose } from "../proposal.js";
import { ASCII, graph, type Node, type Piece, UNICODE } from "../render/graph.js";
import { painted, statusCell } from "../render/status.js";
import { table } from "../render/table.js";
import type { Terminal } from "../terminal.js";
import { clip, inline, oneLine, size, width } from "../text.js";

const LIMIT = 50;
const MOST = 100_000;

export const log = command({
  name: "log",
  group: "look",
  looks: true,
  says: "checkpoints of a session, the newest first",
  words: [{ name: "SESSION", says: "its id, or the beginning of it", completes: "session" }],
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
    const forks = drawn ? await forksOf(store, session, limit) : [];
    const at = drawn ? (await store.checkpoints.latest(session.id))?.id : undefined;
    const lines = drawn ? [...lanes({ session, at, items, forks }, terminal)] : list(items, terminal);
    const [first, second] = items;
    return {
      json: { session, items, ...(drawn && { forks }) },
      lines: items.length === 0 ? [`Session ${inline(session.id)} has no checkpoint yet.`] : lines,
      next: [
        ...(isMore ? [propose("log", [session.id], { graph: drawn, all, limit: Math.min(MOST, limit * 10) }, "more")] : []),
        first !== undefined && second !== undefined && !drawn && !all
          ? propose("diff", [second.id, first.id], {}, "what the last step changed")
          : propose("show", [session.id]),
      ],
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

// ---- as lanes

interface Fork {
  readonly session: SessionSummary;
  /** The newest checkpoint of its past. */
  readonly at: string | undefined;
  /** Its own, without what it shares. */
  readonly checkpoints: readonly Checkpoint[];
}

interface Family {
  readonly session: SessionSummary;
  readonly at: string | undefined;
  readonly items: readonly Checkpoint[];
  readonly forks: readonly Fork[];
}

async function forksOf(hold: Holdfast, { id }: SessionSummary, limit: number): Promise<readonly Fork[]> {
  const forks: Fork[] = [];
  for (const session of await hold.sessions.forks(id, { limit: Math.min(limit, 100) })) {
    const { items } = await hold.checkpoints.list(session.id, { limit: Math.min(limit, 1_000), lines: "all" });
    const at = (await hold.checkpoints.latest(session.id))?.id;
    forks.push({ session, at, checkpoints: items.filter(({ sessionId }) => sessionId === session.id) });
  }
  return forks;
}

interface Place extends Node {
  readonly checkpoint?: Checkpoint;
  /** The sessions that stand there now. */
  readonly tips: readonly string[];
  /** Nothing comes after it, and no session stands there any more. */
  readonly isLeft: boolean;
  /** A fork in which nothing was saved yet. */
  readonly fork?: SessionSummary;
}

/** The session as a tree: every line of it, and every fork. */
function placesOf({ session, at, items, forks }: Family): readonly Place[] {
  const known = new Map(
    [...items, ...forks.flatMap(({ checkpoints }) => checkpoints)].map((checkpoint) => [checkpoint.id as string, checkpoint]),
  );
  const all = [...known.values()];
  const before = beforeEach(all);
  const parentOf = ({ id, parentId }: Checkpoint) => (parentId !== undefined && known.has(parentId) ? parentId : before.get(id));
  const begun = forks.filter(({ checkpoints }) => checkpoints.length > 0);
  const unsaved = forks.filter(({ checkpoints }) => checkpoints.length === 0).map((fork) => fork.session);
  const standing = [{ session, at }, ...begun];
  const parents = new Set([...all.map(parentOf), ...unsaved.map(({ origin }) => origin?.checkpointId)]);
  // By time, and within one by number.
  const inOrder = all.toSorted((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt) || a.seq - b.seq);
  const ranks = new Map(inOrder.map(({ id }, i) => [id as string, i]));
  const places: Place[] = all.map((checkpoint) => {
    const { id } = checkpoint;
    const tips = standing.filter((one) => one.at === id).map((one) => one.session.id);
    return { id, parent: parentOf(checkpoint), order: ranks.get(id) ?? 0, checkpoint, tips, isLeft: tips.length === 0 && !parents.has(id) };
  });
  for (const fork of unsaved)
    places.push({ id: `fork ${fork.id}`, parent: fork.origin?.checkpointId, order: ranks.size, fork, tips: [], isLeft: false });
  return places;
}

/** For each, the newest of its line that is left before it: what stands in for a parent that was pruned. */
function beforeEach(newestFirst: readonly Checkpoint[]): ReadonlyMap<string, string> {
  const before = new Map<string, string>();
  const last = new Map<string, string>();
  for (const { id } of newestFirst) {
    const line = id.slice(0, id.indexOf("-"));
    const after = last.get(line);
    if (after !== undefined) before.set(after, id);
    last.set(line, id);
  }
  return before;
}

function* lanes(family: Family, terminal: Terminal): Generator<string> {
  const { paint } = terminal;
  const colours = [paint.red, paint.green, paint.yellow, paint.blue, paint.magenta, paint.cyan];
  const drawn = (pieces: readonly Piece[]) =>
    pieces.map(({ text, lane }) => (colours[lane % colours.length] as (text: string) => string)(text)).join("");
  for (const { lanes: pieces, node } of graph(placesOf(family), terminal.isUnicode ? UNICODE : ASCII)) {
    const before = drawn(pieces);
    if (node === undefined) yield before.trimEnd();
    else yield `${before} ${said(node, terminal, terminal.columns - width(before) - 1)}`;
  }
}

function said({ checkpoint, tips, isLeft, fork }: Place, terminal: Terminal, room: number): string {
  const { paint } = terminal;
  if (checkpoint === undefined) return `${paint.bold(`(${inline(fork?.id ?? "")})`)} ${paint.dim("a fork in which nothing was saved yet")}`;
  const { id, step, status, messageCount, createdAt, label } = checkpoint;
  const pieces: (readonly [string, (text: string) => string])[] = [
    [short(id), paint.yellow],
    ...(tips.length === 0 ? [] : [[`(${tips.map(inline).join(", ")})`, paint.bold] as const]),
    ...(isLeft ? [["(left by rewinding)", paint.dim] as const] : []),
    [`step ${step}`, (text) => text],
    [status, (text) => painted(text, paint)],
    [`${messageCount} messages`, paint.dim],
    [terminal.time(createdAt), paint.dim],
    ...(label === undefined ? [] : [[oneLine(label), paint.cyan] as const]),
  ];
  let left = room;
  let line = "";
  for (const [text, colour] of pieces) {
    if (left < 4) break;
    const cut = clip(text, left);
    line += `${line === "" ? "" : "  "}${colour(cut)}`;
    left -= width(cut) + 2;
  }
  return line;
}
