/** A clock that stands still until it is told to move. */
import type { Clock } from "../runtime/ground.js";

export interface ManualClock extends Clock {
  set(ms: number): void;
  advance(ms: number): void;
}

/** Pass it to `open(address, { clock })`. Only times that people see come from it: leases and deadlines run by the store's own. */
export function manualClock(startMs = Date.UTC(2030, 0, 1)): ManualClock {
  let now = startMs;
  return {
    now: () => now,
    set(ms) {
      now = ms;
    },
    advance(ms) {
      now += ms;
    },
  };
}
