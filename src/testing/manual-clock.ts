/** A clock that stands still until it is told to move. */
import { invalid } from "../core/values/check-options.js";
import type { Clock } from "../engine/journal/store-context.js";

/** A clock that stands still until it is told to move. */
export interface ManualClock extends Clock {
  /** Set the time, in milliseconds since 1970. */
  set(ms: number): void;
  /** Move the time on. */
  advance(ms: number): void;
}

/**
 * Make a clock that stands still until it is told to move.
 * Only times that people see come from it: leases and deadlines run by the store's own clock.
 *
 * @example
 * const clock = manualClock(Date.UTC(2030, 0, 1));
 * const hold = await open("memory:", { clock });
 * clock.advance(60_000);
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
