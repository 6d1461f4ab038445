import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BranchNode,
  type KeptPlace,
  needed,
  reach,
  touches,
} from "../../../src/core/retention/retention.js";

const LAST = 40;
const numbers = Array.from({ length: LAST + 2 }, (_, i) => i);

/**
 * Ranges of live messages at or before a base. They may come in any order: a splice puts late
 * messages in front.
 */
const rangesUpTo = (base: number): fc.Arbitrary<[number, number][]> =>
  base === 0
    ? fc.constant([])
    : fc.array(
        fc
          .tuple(fc.integer({ min: 1, max: base }), fc.nat({ max: 6 }))
          .map(([from, more]): [number, number] => [from, Math.min(base, from + more)]),
        { maxLength: 4 },
      );

function placesWithBase(base: (seq: number) => fc.Arbitrary<number>): fc.Arbitrary<KeptPlace[]> {
  const place = fc
    .integer({ min: 1, max: LAST })
    .chain((seq) =>
      base(seq).chain((at) =>
        rangesUpTo(at).map((ranges): KeptPlace => ({ seq, base: at, ranges })),
      ),
    );
  return fc.array(place, { maxLength: 5 });
}

const baseBefore = (seq: number) => fc.nat({ max: seq - 1 });
const baseAtPlace = (seq: number) => fc.constant(seq);

const stretches = numbers.flatMap((first) =>
  numbers.slice(first).map((last) => [first, last] as const),
);

function holdsAny(set: ReadonlySet<number>, first: number, last: number): boolean {
  for (let n = first; n <= last; n++) if (set.has(n)) return true;
  return false;
}

/** RETENTION-1 word for word, as sets of numbers. */
function neededByHand(places: readonly KeptPlace[]): { items: Set<number>; state: Set<number> } {
  const items = new Set<number>();
  const state = new Set<number>();
  for (const { seq, base, ranges } of places) {
    for (const n of numbers) {
      if (ranges.some(([from, to]) => from <= n && n <= to) || (base < n && n <= seq)) items.add(n);
      if (base <= n && n <= seq) state.add(n);
    }
  }
  return { items, state };
}

function expectSame(places: readonly KeptPlace[]): void {
  const keep = needed(places);
  const byHand = neededByHand(places);
  const wrong = stretches.filter(
    ([first, last]) =>
      touches(keep.items, first, last) !== holdsAny(byHand.items, first, last) ||
      touches(keep.state, first, last) !== holdsAny(byHand.state, first, last),
  );
  expect(wrong).toEqual([]);
}

describe("needed and touches", () => {
  test("RETENTION-1: say of every stretch of records what RETENTION-1 says of its numbers", () => {
    fc.assert(fc.property(placesWithBase(baseBefore), expectSame), { numRuns: 150 });
  });

  test("RETENTION-1: also for a place whose own save holds the base", () => {
    fc.assert(fc.property(placesWithBase(baseAtPlace), expectSame), { numRuns: 150 });
  });

  test("RETENTION-1: the intervals are sorted and apart, so that each number is said once", () => {
    fc.assert(
      fc.property(placesWithBase(baseBefore), (places) => {
        for (const intervals of Object.values(needed(places))) {
          for (const [i, [from, to]] of intervals.entries()) {
            expect(from).toBeLessThanOrEqual(to);
            if (i > 0)
              expect(from).toBeGreaterThan((intervals[i - 1] as readonly [number, number])[1] + 1);
          }
        }
      }),
    );
  });

  test("RETENTION-1: an example: the base at 20, its live messages, and all that follows it up to the place", () => {
    const place: KeptPlace = {
      seq: 25,
      base: 20,
      ranges: [
        [8, 9],
        [2, 4],
      ],
    };
    expect(needed([place])).toEqual({
      items: [
        [2, 4],
        [8, 9],
        [21, 25],
      ],
      state: [[20, 25]],
    });
  });

  test("nothing is needed where nothing is kept", () => {
    expect(needed([])).toEqual({ items: [], state: [] });
    expect(touches([], 1, 1_000)).toBe(false);
  });
});

describe("reach", () => {
  /** Lines in the order of their making: a line can only begin on one that was there before it. */
  const forests: fc.Arbitrary<BranchNode[]> = fc
    .array(
      fc.record({
        owned: fc.boolean(),
        parent: fc.option(fc.nat()),
        seq: fc.integer({ min: 1, max: 50 }),
      }),
      { maxLength: 12 },
    )
    .map((drafts) =>
      drafts.map(({ owned, parent, seq }, i) => ({
        id: `line-${i}`,
        owned,
        forkPoint: parent === null || i === 0 ? null : { branch: `line-${parent % i}`, seq },
      })),
    );

  /**
   * RETENTION-3 word for word: walk back from every owned line, and note how far each orphan on the way was
   * used.
   */
  function reachByHand(branches: readonly BranchNode[]): Map<string, number> {
    const found = new Map<string, number>();
    for (const branch of branches.filter(({ owned }) => owned)) {
      for (let forkPoint = branch.forkPoint; forkPoint !== null; ) {
        const parent = branches.find(({ id }) => id === forkPoint?.branch) as BranchNode;
        if (!parent.owned) found.set(parent.id, Math.max(found.get(parent.id) ?? 0, forkPoint.seq));
        forkPoint = parent.forkPoint;
      }
    }
    return found;
  }

  test("RETENTION-3: an orphan is needed up to the last needed fork from it, on any forest of lines in any order", () => {
    fc.assert(
      fc.property(
        forests.chain((branches) =>
          fc.tuple(
            fc.constant(branches),
            fc.shuffledSubarray(branches, { minLength: branches.length }),
          ),
        ),
        ([branches, shuffled]) => {
          const byHand = reachByHand(branches);
          expect(new Map(reach(branches))).toEqual(byHand);
          expect(new Map(reach(shuffled))).toEqual(byHand);
        },
      ),
      { numRuns: 500 },
    );
  });

  test("RETENTION-3: a chain of orphans is needed as long as its far end is", () => {
    const chain = (owned: boolean): BranchNode[] => [
      { id: "root", owned: false, forkPoint: null },
      { id: "middle", owned: false, forkPoint: { branch: "root", seq: 5 } },
      { id: "end", owned, forkPoint: { branch: "middle", seq: 9 } },
    ];
    expect([...reach(chain(true))].toSorted(([a], [b]) => a.localeCompare(b))).toEqual([
      ["middle", 9],
      ["root", 5],
    ]);
    expect([...reach(chain(false))]).toEqual([]);
  });

  test("a line whose origin is gone is left to verify: reach does not invent one", () => {
    expect([...reach([{ id: "a", owned: true, forkPoint: { branch: "lost", seq: 3 } }])]).toEqual(
      [],
    );
  });
});
