/**
 * The processor time that a call took, in milliseconds: on a busy machine the time by the clock
 * says nothing of the call.
 */
export function cpuMs(run: () => unknown): number {
  const began = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1_000;
}

const ROUNDS = 6;

/**
 * How often a call takes the time of another: 2, if it does twice as much and its time is linear;
 * 4, if it is quadratic. The fastest of some rounds counts, because another process may have the
 * processor's caches. Times below `leastMs` count as that: a clock tells nothing of them.
 */
export function timesSlower(large: () => unknown, small: () => unknown, leastMs: number): number {
  let [largeMs, smallMs] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let round = 0; round < ROUNDS; round++) {
    largeMs = Math.min(largeMs, cpuMs(large));
    smallMs = Math.min(smallMs, cpuMs(small));
    if (round > 0 && largeMs < LINEAR * Math.max(smallMs, leastMs)) break;
  }
  return largeMs / Math.max(smallMs, leastMs);
}

/** Between linear and quadratic, for twice as much. */
export const LINEAR = 3;
