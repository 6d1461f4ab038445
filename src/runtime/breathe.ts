/**
 * Lets timers and I/O run. Stores that answer at once keep a loop of awaits inside one turn of the event loop for ever: heartbeats would
 * stand still, and a holder that is hard at work would lose its lease.
 */
const EVERY_MS = 10;
let breathedAt = 0;

/** Undefined when it was done not long ago: then there is nothing to wait for. */
export function breathe(): Promise<void> | undefined {
  if (performance.now() - breathedAt < EVERY_MS) return undefined;
  return new Promise((resolve) => {
    setImmediate(() => {
      breathedAt = performance.now();
      resolve();
    });
  });
}
