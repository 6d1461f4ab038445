/**
 * A session and its forks as a tree of checkpoints, in lanes: who stands where, and what was left
 * by rewinding.
 */
import type { Checkpoint, SessionSummary } from "../../index.js";
import { short } from "../framework/ids.js";
import type { Terminal } from "../terminal/terminal.js";
import { clip, inline, oneLine, width } from "../terminal/text.js";
import { ASCII, graph, type Node, type Piece, UNICODE } from "./graph.js";
import { painted } from "./status.js";

export interface Fork {
  readonly session: SessionSummary;
  /** The newest checkpoint of its past. */
  readonly at: string | undefined;
  /** Its own, without what it shares. */
  readonly checkpoints: readonly Checkpoint[];
}

/** A session, and those that were forked from it. */
export interface Family {
  readonly session: SessionSummary;
  readonly at: string | undefined;
  readonly items: readonly Checkpoint[];
  readonly forks: readonly Fork[];
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

/** The session as a tree: every branch of it, and every fork. */
function placesOf({ session, at, items, forks }: Family): readonly Place[] {
  const known = new Map(
    [...items, ...forks.flatMap(({ checkpoints }) => checkpoints)].map((checkpoint) => [
      checkpoint.id as string,
      checkpoint,
    ]),
  );
  const all = [...known.values()];
  const before = beforeEach(all);
  const parentOf = ({ id, parentId }: Checkpoint) =>
    parentId !== undefined && known.has(parentId) ? parentId : before.get(id);
  const begun = forks.filter(({ checkpoints }) => checkpoints.length > 0);
  const unsaved = forks
    .filter(({ checkpoints }) => checkpoints.length === 0)
    .map((fork) => fork.session);
  const standing = [{ session, at }, ...begun];
  const parents = new Set([
    ...all.map(parentOf),
    ...unsaved.map(({ forkPoint }) => forkPoint?.checkpointId),
  ]);
  // By time, and within one by number.
  const inOrder = all.toSorted(
    (a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt) || a.seq - b.seq,
  );
  const ranks = new Map(inOrder.map(({ id }, i) => [id as string, i]));
  const places: Place[] = all.map((checkpoint) => {
    const { id } = checkpoint;
    const tips = standing.filter((one) => one.at === id).map((one) => one.session.id);
    return {
      id,
      parent: parentOf(checkpoint),
      order: ranks.get(id) ?? 0,
      checkpoint,
      tips,
      isLeft: tips.length === 0 && !parents.has(id),
    };
  });
  for (const fork of unsaved)
    places.push({
      id: `fork ${fork.id}`,
      parent: fork.forkPoint?.checkpointId,
      order: ranks.size,
      fork,
      tips: [],
      isLeft: false,
    });
  return places;
}

/**
 * For each, the newest of its branch that is left before it: what stands in for a parent that was
 * pruned.
 */
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

export function* lanes(family: Family, terminal: Terminal): Generator<string> {
  const { paint } = terminal;
  const colours = [paint.red, paint.green, paint.yellow, paint.blue, paint.magenta, paint.cyan];
  const drawn = (pieces: readonly Piece[]) =>
    pieces
      .map(({ text, lane }) => (colours[lane % colours.length] as (text: string) => string)(text))
      .join("");
  for (const { lanes: pieces, node } of graph(
    placesOf(family),
    terminal.isUnicode ? UNICODE : ASCII,
  )) {
    const before = drawn(pieces);
    if (node === undefined) yield before.trimEnd();
    else yield `${before} ${said(node, terminal, terminal.columns - width(before) - 1)}`;
  }
}

function said({ checkpoint, tips, isLeft, fork }: Place, terminal: Terminal, room: number): string {
  const { paint } = terminal;
  if (checkpoint === undefined)
    return `${paint.bold(`(${inline(fork?.id ?? "")})`)} ${paint.dim("a fork in which nothing was saved yet")}`;
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
