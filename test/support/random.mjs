/**
 * A seeded generator (mulberry32): the same seed makes the same choices, so that a failure can be
 * asked for again.
 */
export function random(seed) {
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return {
    next,
    between: (from, to) => from + next() * (to - from),
    whole: (from, to) => from + Math.floor(next() * (to - from + 1)),
    pick: (list) => list[Math.floor(next() * list.length)],
    /** A choice by weight: `{ save: 6, fork: 1 }`. */
    weighted(weights) {
      let left = next() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
      for (const [name, weight] of Object.entries(weights)) {
        left -= weight;
        if (left < 0) return name;
      }
      return Object.keys(weights)[0];
    },
  };
}

/** The seed of all tests. It is the same in every run; HOLDFAST_SEED names another one. */
export const SEED = Number(process.env["HOLDFAST_SEED"] ?? 1);
