/** Try again while the store is busy, full or away. */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../core/values/errors.js";

interface Trying {
  readonly attempt: (isFirst: boolean) => Promise<unknown>;
  /** Whether there is no use in another attempt. */
  readonly isOver: () => boolean;
  /** Ends the pauses. */
  readonly signal: AbortSignal;
}

export async function retryPatiently(
  patienceMs: number,
  { attempt, isOver, signal }: Trying,
): Promise<void> {
  const deadline = performance.now() + patienceMs;
  for (let pause = 50; ; pause = Math.min(2 * pause, 2_000)) {
    try {
      await attempt(pause === 50);
      return;
    } catch (error) {
      const isPassing = error instanceof HoldfastError && error.retryable && !isOver();
      if (!isPassing || performance.now() > deadline) throw error;
    }
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}
