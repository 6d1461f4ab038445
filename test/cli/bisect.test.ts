/**
 * The search for the first that is bad, by itself; with real commands it is in golden.test.ts and
 * commands.test.ts.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { firstBad } from "../../src/cli/commands/inspect/bisect-search.js";

type Judgement = "good" | "bad" | "skipped";

async function search(
  judgements: readonly Judgement[],
  known: { good?: number; bad?: number } = {},
) {
  const tried: number[] = [];
  const found = await firstBad(judgements.length, known, async (at) => {
    tried.push(at);
    return judgements[at] as Judgement;
  });
  return { found, tried };
}

test("of any number that are good and then bad the first bad one is found, by about the logarithm of tries, none twice", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 2_000 }), fc.nat(), async (count, nth) => {
      const first = nth % count;
      const { found, tried } = await search(
        Array.from({ length: count }, (_, i) => (i < first ? "good" : "bad")),
      );
      expect(found).toMatchObject({ is: "found", bad: first, skipped: [] });
      expect(tried.length).toBeLessThanOrEqual(Math.ceil(Math.log2(count)) + 2);
      expect(new Set(tried).size).toBe(tried.length);
    }),
    { numRuns: 200 },
  );
});

test("those that cannot be told are passed over, and named where they stand between good and bad", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.boolean(), { minLength: 3, maxLength: 60 }),
      fc.nat(),
      async (untold, nth) => {
        const count = untold.length;
        const first = 1 + (nth % (count - 1));
        const truth = (i: number): Judgement => (i < first ? "good" : "bad");
        const judged = untold.map((skipped, i) =>
          skipped && i > 0 && i < count - 1 ? "skipped" : truth(i),
        );
        const { found } = await search(judged);
        expect(found.is).toBe("found");
        if (found.is !== "found") return;
        const { bad, good = -1, skipped } = found;
        expect([truth(bad), judged[bad], judged[good]]).toEqual(["bad", "bad", "good"]);
        // Everything between the two could not be told, and the first that is bad is among them or
        // is the one that was found.
        expect(skipped).toEqual(Array.from({ length: bad - good - 1 }, (_, i) => good + 1 + i));
        expect([...skipped, bad]).toContain(first);
      },
    ),
    { numRuns: 300 },
  );
});

test("nothing to find, nothing to tell, nothing there, and what is known is not tried", async () => {
  expect((await search(["good", "good"])).found).toEqual({ is: "all-good" });
  expect((await search(["good", "skipped"])).found).toEqual({ is: "unknown" });
  expect((await search([])).found).toEqual({ is: "empty" });
  expect((await search(["bad"])).found).toMatchObject({ is: "found", bad: 0 });
  expect(await search(["good", "bad"], { good: 0, bad: 1 })).toMatchObject({
    found: { bad: 1, good: 0 },
    tried: [],
  });
  await expect(search(["good", "bad"], { good: 1, bad: 0 })).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
});
