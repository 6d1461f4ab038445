/**
 * How much a test does: some of it in `npm test`, all of it in `npm run faults`, which sets
 * HOLDFAST_RUNS to `all`. A file that imports this one is part of both. HOLDFAST_RUNS may also be a
 * number of runs.
 */
const given = process.env["HOLDFAST_RUNS"];

export const isThorough: boolean = given === "all";

export const runs = (some: number, all: number): number =>
  given === undefined ? some : isThorough ? all : Number(given);

/** All items, or in `npm test` each nth of them. */
export const eachNth = <T>(n: number, items: readonly T[]): readonly T[] =>
  isThorough ? items : items.filter((_, i) => i % n === 0);
