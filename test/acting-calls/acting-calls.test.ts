/**
 * D6, as a table: every kind of acting call, crossed with all that may come between it and the same
 * call again, with a kill before and after. The ledger has the act once, or the session waits or is
 * in doubt. `HOLDFAST_ACTING_CALLS=all` runs every cell on every store.
 */
import { describe, expect, test } from "vitest";
import { Processes } from "../support/processes.js";
import { everyStore, type StoreKind, stores } from "../support/stores.js";
import { operations } from "./operations.js";
import { type Kind, kinds, type Outcome, type Stage, stages, tried, World } from "./world.js";

interface Cell {
  readonly kind: Kind;
  readonly stage: Stage;
  readonly operation: string;
  readonly killBefore: boolean;
  readonly killAfter: boolean;
}

const cells: readonly Cell[] = kinds.flatMap((kind) =>
  Object.keys(operations).flatMap((operation) =>
    stages.flatMap((stage) =>
      [false, true].flatMap((killBefore) =>
        // Killed inside of the call, the first process is gone.
        stage !== "done" && !killBefore
          ? []
          : [false, true].map((killAfter) => ({ kind, stage, operation, killBefore, killAfter })),
      ),
    ),
  ),
);

/**
 * In memory each kind meets each operation, three times. On the others each operation meets two
 * kinds. What they meet changes with each.
 */
function cellsFor({ traits }: StoreKind): readonly Cell[] {
  if (process.env["HOLDFAST_ACTING_CALLS"] === "all") return cells;
  const every = traits.durable ? cells.length / (2 * Object.keys(operations).length) : 3;
  // Prime to all that the table is made of, so that a stride over it meets all of it.
  return Array.from(
    { length: Math.floor(cells.length / every) },
    (_, i) => cells[(i * STRIDE) % cells.length] as Cell,
  );
}

const STRIDE = 107;

const nameOf = ({
  kind: { mode, by, named },
  stage,
  operation,
  killBefore,
  killAfter,
}: Cell): string =>
  `${mode} ${by}${named ? "" : " unnamed"}, ${stage}, ${killBefore ? "kill, " : ""}${operation}${killAfter ? ", kill" : ""}`;

/** Lives one cell. Answers what became of each time that the act was asked for again. */
async function live(
  store: StoreKind,
  cell: Cell,
): Promise<{ readonly acts: number; readonly outcomes: readonly (readonly [string, Outcome])[] }> {
  const { kind, stage, operation, killBefore, killAfter } = cell;
  const world = new World(kind);
  let on = await Processes.on(store.address());
  const places = [on];
  const outcomes: [string, Outcome][] = [];
  try {
    let process = on.start();
    const before = await world.prepare(process);
    const { id: snapshot } = await process.hold.agents.snapshot("clerk");
    await world.begin(process, stage);
    if (killBefore) {
      process.kill();
      process = on.start();
    }
    const after = await (operations[operation] as (typeof operations)[string]).run({
      world,
      store,
      on,
      process,
      before,
      snapshot,
    });
    if (after.elsewhere !== undefined) {
      on = after.elsewhere;
      places.push(on);
      process = on.start();
    }
    if (killAfter) {
      process.kill();
      process = on.start();
    }
    const { hold } = process;
    for (const session of after.sessions) {
      outcomes.push([`${session} again`, await world.again(hold, session)]);
      if (await tried(() => hold.sessions.rewind(session, before)))
        outcomes.push([`${session} rewound`, await world.again(hold, session)]);
      const fork = `${session}-fork`;
      if (await tried(() => hold.sessions.fork(before, { id: fork })))
        outcomes.push([fork, await world.again(hold, fork)]);
    }
  } finally {
    for (const place of places) await place.close();
  }
  return { acts: world.ledger.length, outcomes };
}

describe.each(stores)("acting calls on $name", (store) => {
  test.each(Object.keys(operations))(
    "%s: no act is doubled, and none is lost where it is said to be done",
    async (operation) => {
      const wrong: string[] = [];
      const { expects } = operations[operation] as (typeof operations)[string];
      for (const cell of cellsFor(store).filter((other) => other.operation === operation)) {
        const { acts, outcomes } = await live(store, cell);
        const isDone = outcomes.some(([, outcome]) => outcome === "answered");
        if (acts > 1) wrong.push(`${nameOf(cell)}: ${acts} acts, ${JSON.stringify(outcomes)}`);
        if (isDone && acts === 0)
          wrong.push(`${nameOf(cell)}: said to be done, and was not, ${JSON.stringify(outcomes)}`);
        // Nothing would be doubled either, if nothing could be asked for again.
        if (cell.stage === "done" && outcomes[0]?.[1] !== expects)
          wrong.push(
            `${nameOf(cell)}: ${outcomes[0]?.[1] ?? "not asked for"} instead of ${expects}`,
          );
      }
      expect(wrong).toEqual([]);
    },
  );
});

describe("negative controls", () => {
  const [memory] = everyStore as readonly [StoreKind, ...StoreKind[]];

  test.each(kinds.filter(({ mode }) => mode === "once"))(
    "a rewind that lets calls be made again doubles the act: $by, named $named",
    async (kind) => {
      const world = new World(kind);
      const on = await Processes.on(memory.address());
      const process = on.start();
      const before = await world.prepare(process);
      await world.begin(process, "done");
      await process.hold.sessions.rewind("s", before, { effects: "live" });
      expect(await world.again(process.hold, "s")).toBe("answered");
      expect(world.ledger).toHaveLength(2);
      await on.close();
    },
  );

  test("the sample has each operation on every store, and each kind with each operation in memory", () => {
    for (const store of stores) {
      const sample = cellsFor(store);
      expect(new Set(sample).size).toBe(sample.length);
      expect(new Set(sample.map(({ operation }) => operation)).size).toBe(
        Object.keys(operations).length,
      );
      for (const of of [kinds, stages] as const)
        for (const one of of)
          expect(sample.some(({ kind, stage }) => kind === one || stage === one)).toBe(true);
    }
    const pairs = new Set(
      cellsFor(memory).map(({ kind, operation }) => `${kinds.indexOf(kind)} ${operation}`),
    );
    expect(pairs.size).toBe(kinds.length * Object.keys(operations).length);
  });
});
