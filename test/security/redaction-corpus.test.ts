/**
 * B13: what `redactions()` finds in a corpus of secrets, and what it takes for one in texts that hold none. The corpus was written from the
 * formats that vendors document, before the rules; `corpus/` says which.
 */
import { describe, expect, test } from "vitest";
import { negatives } from "./corpus/negatives.js";
import { positives } from "./corpus/positives.js";

/** The second draws other secrets of the same kinds. */
const SEEDS = [13, 1_013];

describe.each(SEEDS)("the corpus of seed %i", (seed) => {
  test("is large enough, and every secret is in its text", () => {
    const all = positives(seed);
    expect(all.length).toBeGreaterThanOrEqual(300);
    expect(new Set(all.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(60);
    expect(negatives(seed).length).toBeGreaterThanOrEqual(500);
    for (const { text, secret } of all)
      expect(text.includes(secret) || text.includes(JSON.stringify(secret).slice(1, -1)), `${secret} in ${text}`).toBe(true);
  });
});
