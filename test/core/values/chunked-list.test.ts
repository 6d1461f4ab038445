import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ChunkedList } from "../../../src/core/values/chunked-list.js";
import { cpuMs } from "../../support/cpu.js";

/** A list of the source beside the array it must equal. */
interface Pair {
  readonly list: ChunkedList<number>;
  readonly model: number[];
}

type Step =
  | { readonly do: "push"; readonly on: number; readonly count: number }
  | {
      readonly do: "splice";
      readonly on: number;
      readonly at: number;
      readonly remove: number;
      readonly insert: number;
    }
  | { readonly do: "copy"; readonly on: number }
  | { readonly do: "read"; readonly on: number };

const on = fc.nat({ max: 5 });
// Counts near 512 make the lists end just before, at, and behind the edge of a chunk.
const count = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 4 }) },
  { weight: 2, arbitrary: fc.integer({ min: 508, max: 516 }) },
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("push" as const), on, count }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("splice" as const),
      on,
      at: fc.nat({ max: 1_200 }),
      remove: fc.oneof(fc.nat({ max: 3 }), fc.nat({ max: 1_200 })),
      insert: fc.nat({ max: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("copy" as const), on }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("read" as const), on }) },
);

function expectEqual({ list, model }: Pair): void {
  expect(list.length).toBe(model.length);
  expect(list.toArray()).toEqual(model);
}

describe("List", () => {
  test("equals an array through any pushes and splices, and so does every copy, whichever side goes on", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: "max" }), (steps) => {
        const pairs: Pair[] = [{ list: new ChunkedList(), model: [] }];
        let next = 0;
        for (const now of steps) {
          const { list, model } = pairs[now.on % pairs.length] as Pair;
          if (now.do === "push") {
            for (let i = 0; i < now.count; i++) {
              list.push(next);
              model.push(next++);
            }
          } else if (now.do === "splice") {
            const at = now.at % (model.length + 1);
            const fresh = Array.from({ length: now.insert }, () => next++);
            expect(list.splice(at, now.remove, ...fresh)).toEqual(
              model.splice(at, now.remove, ...fresh),
            );
          } else if (now.do === "copy") pairs.push({ list: list.copy(), model: model.slice() });
          else expectEqual({ list, model });
        }
        pairs.forEach(expectEqual);
      }),
      { numRuns: 200 },
    );
  });

  test("begins as the items it is given", () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { maxLength: 1_100 }), (items) => {
        expectEqual({ list: new ChunkedList(items), model: items });
      }),
      { numRuns: 30 },
    );
  });

  test("an empty list has no last item", () => {
    expect(new ChunkedList().toArray()).toEqual([]);
  });

  test("gives the same array until it changes, and another one afterwards", () => {
    const list = new ChunkedList([1, 2]);
    const before = list.toArray();
    expect(list.toArray()).toBe(before);
    list.push(3);
    expect(list.toArray()).toEqual([1, 2, 3]);
    expect(before).toEqual([1, 2]);
  });

  test("takes more items at once than fit on the stack as arguments", () => {
    const many = Array.from({ length: 300_000 }, (_, i) => i);
    const list = new ChunkedList([-1, -2, -3]);
    expect(list.replace(1, 1, many)).toEqual([-2]);
    expect(list.length).toBe(300_002);
    expect(list.replace(1, many.length, [])).toEqual(many);
    expect(list.toArray()).toEqual([-1, -3]);
  });

  test("two copies that both append at the same place do not see each other's items", () => {
    const one = new ChunkedList([0]);
    const two = one.copy();
    const three = two.copy();
    one.push(1);
    two.push(2);
    three.push(3);
    one.push(11);
    expect([one, two, three].map((list) => list.toArray())).toEqual([
      [0, 1, 11],
      [0, 2],
      [0, 3],
    ]);
  });

  test("copying costs the same at any length: it shares the chunks instead of their items", () => {
    const long = new ChunkedList(Array.from({ length: 200_000 }, (_, i) => i));
    const took = cpuMs(() => {
      for (let i = 0; i < 1_000; i++) long.copy();
    });
    // A thousand copies of the items themselves would be 200 million writes.
    expect(took).toBeLessThan(500);
  });
});
