/**
 * Lets timers and I/O run. Stores that answer at once keep a loop of awaits inside one turn of the
 * event loop for ever: heartbeats would stand still, and a holder that is hard at work would lose
 * its lease.
 */
const MOST_MS = 10;
/**
 * Since when this turn of the event loop has lasted, as far as we know; forgotten when the next one
 * begins.
 */
let turnSince: number | undefined;
let askedAt = 0;
let unasked = 0;

/** Undefined while the present turn is young: then there is nothing to wait for. */
export function yieldToEventLoop(): Promise<void> | undefined {
  askedAt = performance.now();
  unasked = 0;
  if (turnSince === undefined) {
    turnSince = askedAt;
    setImmediate(() => {
      turnSince = undefined;
    });
    return undefined;
  }
  return askedAt - turnSince < MOST_MS
    ? undefined
    : new Promise((resolve) => setImmediate(resolve));
}

/**
 * The same for what happens often and is soon done: looking at the clock costs as much as a digest,
 * so it is done every fourth time.
 */
export function yieldNowAndThen(): Promise<void> | undefined {
  unasked += 1;
  return turnSince === undefined || unasked >= 4 ? yieldToEventLoop() : undefined;
}

/** The time as it was when the clock was last looked at: in this turn, and not long ago. */
export const lately = (): number => askedAt;
