/** Lanes: every shape of a tree, drawn. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { ASCII, type GraphRow, graph, type Node, UNICODE } from "../../src/cli/render/graph.js";

const drawn = (nodes: readonly Node[], pen = UNICODE): string[] =>
  [...graph(nodes, pen)].map(({ lanes, node }) =>
    `${lanes.map(({ text }) => text).join("")}${node?.id ?? ""}`.trimEnd(),
  );

const node = (id: string, parent: string | undefined, order: number): Node => ({
  id,
  parent,
  order,
});

test("one line", () => {
  expect(drawn([node("c", "b", 3), node("b", "a", 2), node("a", undefined, 1)])).toEqual([
    "● c",
    "● b",
    "● a",
  ]);
});

test("a fork in the middle", () => {
  expect(
    drawn([node("d", "b", 5), node("c", "b", 4), node("b", "a", 2), node("a", undefined, 1)]),
  ).toEqual(["● d", "│ ● c", "├─╯", "● b", "● a"]);
});

test("several that begin at one place, and one that passes by", () => {
  const nodes = [
    node("f", "a", 9),
    node("e", "b", 8),
    node("d", "b", 7),
    node("c", "b", 6),
    node("b", "a", 2),
    node("a", undefined, 1),
  ];
  expect(drawn(nodes)).toEqual([
    "● f",
    "│ ● e",
    "│ │ ● d",
    "│ │ │ ● c",
    "│ ├─┴─╯",
    "│ ● b",
    "├─╯",
    "● a",
  ]);
  expect(drawn(nodes, ASCII)).toEqual([
    "* f",
    "| * e",
    "| | * d",
    "| | | * c",
    "| |-'-'",
    "| * b",
    "|-'",
    "* a",
  ]);
});

test("a lane between two that are joined is passed over", () => {
  const nodes = [
    node("e", "b", 9),
    node("d", "c", 8),
    node("f", "b", 7),
    node("b", "a", 6),
    node("c", "a", 2),
    node("a", undefined, 1),
  ];
  expect(drawn(nodes)).toEqual([
    "● e",
    "│ ● d",
    "│ │ ● f",
    "├─┼─╯",
    "● │ b",
    "│ ● c",
    "├─╯",
    "● a",
  ]);
});

test("what has lost its parent begins a lane, and a lane that is free is used again", () => {
  expect(drawn([node("b", "gone", 2), node("a", undefined, 1)])).toEqual(["● b", "● a"]);
});

test("GRAPH-1 of any tree: each node once, below all its children, joined to each of them, and no lane is left open", () => {
  const trees = fc
    .array(fc.tuple(fc.nat(), fc.nat(50)), { minLength: 1, maxLength: 40 })
    .map((given) =>
      given.map(
        ([parent, order], i): Node =>
          node(String(i), i === 0 || parent % 7 === 0 ? undefined : String(parent % i), order),
      ),
    );
  fc.assert(
    fc.property(trees, (nodes) => {
      const rows = [...graph(nodes, UNICODE)];
      const order = rows.flatMap((row) => row.node?.id ?? []);
      expect([...order].sort()).toEqual(nodes.map(({ id }) => id).sort());
      for (const { id, parent } of nodes)
        if (parent !== undefined) expect(order.indexOf(parent)).toBeGreaterThan(order.indexOf(id));
      // Going down a lane from a node, through joints, the next node is its parent.
      for (const [at, row] of rows.entries()) {
        // Where one has no parent, its lane is free: another may stand there next.
        if (row.node?.parent === undefined) continue;
        expect(below(rows, at)).toBe(row.node.parent);
      }
    }),
    { numRuns: 300 },
  );
});

/** The node that one comes to by following the lane of this row's node downwards. */
function below(rows: readonly GraphRow<Node>[], from: number): string | undefined {
  let lane = rows[from]?.lanes.findIndex(({ text }) => text.startsWith("●")) ?? -1;
  for (const { lanes, node: found } of rows.slice(from + 1)) {
    const text = lanes[lane]?.text ?? "";
    if (text.startsWith("●")) return found?.id;
    if (text.startsWith("╯") || text.startsWith("┴")) {
      while (!(lanes[lane]?.text ?? "├").startsWith("├")) lane -= 1;
    } else if (text.trim() === "" || text.startsWith("─")) return undefined;
  }
  return undefined;
}
