/**
 * Lets timers and I/O run. Stores that answer at once keep a loop of awaits inside one turn of the event loop for ever: heartbeats would
 * stand still, and a holder that is hard at work would lose its lease.
 */
const MOST_MS = 10;
/** When it was last asked: near enough for what only has to happen now and then. */
let askedAt = 0;
/** Since when this turn of the event loop has lasted, as far as we know; forgotten when the next one begins. */
let turnSince: number | undefined;

/** Undefined while the present turn is young: then there is nothing to wait for. */
export function breathe(): Promise<void> | undefined {
  const now = performance.now();
  askedAt = now;
  if (turnSince === undefined) {
    turnSince = now;
    setImmediate(() => {
      turnSince = undefined;
    });
    return undefined;
  }
  return now - turnSince < MOST_MS ? undefined : new Promise((resolve) => setImmediate(resolve));
}

/** The time of the last call of {@link breathe}, which is made every few saves. */
export const lately = (): number => askedAt;
