/** A clock that stands still until it is told to move. */
import { invalid } from "../core/values/given.js";
import type { Clock } from "../engine/journal/ground.js";

export interface ManualClock extends Clock {
  set(ms: number): void;
  advance(ms: number): void;
}

/**
 * Pass it to `open(address, { clock })`. Only times that people see come from it: leases and
 * deadlines run by the store's own.
 */
export function manualClock(startMs = Date.UTC(2030, 0, 1)): ManualClock {
  let now = timeOf(startMs, "startMs");
  return {
    now: () => now,
    set(ms) {
      now = timeOf(ms, "ms");
    },
    advance(ms) {
      now = timeOf(now + timeOf(ms, "ms"), "ms");
    },
  };
}

function timeOf(ms: unknown, path: string): number {
  if (typeof ms !== "number" || !(Math.abs(ms) <= 8.64e15))
    throw invalid(path, "it must be a number of milliseconds, 8.64e15 at most");
  return ms;
}
