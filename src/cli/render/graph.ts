/**
 * A tree of checkpoints as lanes, the newest on top, like a good git log.
 *
 * GRAPH-1  each node stands below all its children, and is joined to them.
 * GRAPH-2  a lane that nothing is waited for in any more is free, and used again.
 */

export interface Node {
  readonly id: string;
  /** Absent where it has none, or where that is not among the nodes. */
  readonly parent?: string | undefined;
  /** Of two that may stand next, the one with the greater comes first. */
  readonly order: number;
}

export interface GraphRow<N extends Node> {
  /** What is drawn before the text. */
  readonly lanes: readonly Piece[];
  /** The node of this row; absent where lanes are only joined. */
  readonly node?: N;
}

export interface Piece {
  readonly text: string;
  readonly lane: number;
}

interface Pen {
  readonly node: string;
  readonly lane: string;
  readonly join: string;
  readonly across: string;
  readonly over: string;
  readonly end: string;
  readonly ends: string;
}

export const UNICODE: Pen = {
  node: "●",
  lane: "│",
  join: "├",
  across: "─",
  over: "┼",
  end: "╯",
  ends: "┴",
};
export const ASCII: Pen = {
  node: "*",
  lane: "|",
  join: "|",
  across: "-",
  over: "+",
  end: "'",
  ends: "'",
};

export function* graph<N extends Node>(nodes: readonly N[], pen: Pen): Generator<GraphRow<N>> {
  /** Per lane, the node that comes next in it. */
  const lanes: (string | undefined)[] = [];
  for (const node of childrenFirst(nodes)) {
    const waiting = lanes.flatMap((next, lane) => (next === node.id ? [lane] : []));
    const free = lanes.indexOf(undefined);
    const own = waiting[0] ?? (free === -1 ? lanes.length : free);
    if (waiting.length > 1) {
      yield { lanes: joining(lanes, waiting, pen) };
      for (const lane of waiting.slice(1)) lanes[lane] = undefined;
    }
    lanes[own] = node.id;
    while (lanes.length > 0 && lanes.at(-1) === undefined) lanes.pop();
    yield {
      lanes: lanes.map((next, lane) => ({
        lane,
        text: lane === own ? `${pen.node} ` : next === undefined ? "  " : `${pen.lane} `,
      })),
      node,
    };
    lanes[own] = node.parent;
    while (lanes.length > 0 && lanes.at(-1) === undefined) lanes.pop();
  }
}

/** `├─┼─╯`: all lanes that wait for the same node become the first of them. */
function joining(
  lanes: readonly (string | undefined)[],
  waiting: readonly number[],
  pen: Pen,
): Piece[] {
  const [first = 0] = waiting;
  const last = waiting.at(-1) ?? first;
  return lanes.map((next, lane) => {
    const stem = next === undefined ? " " : pen.lane;
    if (lane < first || lane > last) return { lane, text: `${stem} ` };
    if (lane === first) return { lane, text: pen.join + pen.across };
    if (lane === last) return { lane, text: `${pen.end} ` };
    if (waiting.includes(lane)) return { lane, text: pen.ends + pen.across };
    return { lane, text: (next === undefined ? pen.across : pen.over) + pen.across };
  });
}

/**
 * GRAPH-1. Of those whose children have all come, the one with the greatest order, so that times run
 * down the page where they can.
 */
function* childrenFirst<N extends Node>(nodes: readonly N[]): Generator<N> {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const left = new Map<string, number>();
  for (const { parent } of nodes)
    if (parent !== undefined && byId.has(parent)) left.set(parent, (left.get(parent) ?? 0) + 1);
  /** The greatest last. */
  const ready = [...byId.values()]
    .filter(({ id }) => !left.has(id))
    .sort((a, b) => a.order - b.order);
  for (let node = ready.pop(); node !== undefined; node = ready.pop()) {
    const parent = node.parent === undefined ? undefined : byId.get(node.parent);
    yield parent === undefined ? { ...node, parent: undefined } : node;
    if (parent === undefined) continue;
    const open = (left.get(parent.id) ?? 1) - 1;
    left.set(parent.id, open);
    if (open > 0) continue;
    const below = ready.findLastIndex(({ order }) => order < parent.order);
    ready.splice(below + 1, 0, parent);
  }
}
