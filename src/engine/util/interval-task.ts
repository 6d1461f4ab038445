/** Work that is done now and from time to time, until it is stopped. */
import { HoldfastError } from "../../core/values/errors.js";
import { callback, wholeNumber } from "./validate.js";

/**
 * How often, and who is told of what went wrong: by default it is a warning of the process. It is
 * tried again at the next time.
 */
export interface IntervalOptions {
  readonly everyMs: number;
  readonly onError?: (error: unknown) => void;
}

/** Work that is repeated: a sweep, or automatic snapshots. */
export interface IntervalTask extends AsyncDisposable {
  /** Stop, and resolve when the work that is under way has ended. */
  stop(): Promise<void>;
}

interface Work {
  readonly run: (signal: AbortSignal) => Promise<void>;
  readonly stopped: () => void;
  /** What it says of itself where nobody else is told of a failure. */
  readonly failed: string;
}

/** Longer than that, timers of the system run out at once. */
const MAX_EVERY_MS = 2 ** 31 - 1;

export function intervalTask(
  given: Partial<IntervalOptions>,
  { run, stopped, failed }: Work,
): IntervalTask {
  const everyMs = wholeNumber(given.everyMs, "everyMs", 10, MAX_EVERY_MS);
  const warn = (error: unknown): void => {
    const said = error instanceof HoldfastError ? `${error.code}: ${error.message}` : String(error);
    process.emitWarning(`${failed} (${said}).`, "HoldfastWarning");
  };
  const onError = callback(given.onError, "onError") ?? warn;
  const stopping = new AbortController();
  let running: Promise<void> | undefined;

  const tell = (error: unknown): void => {
    try {
      onError(error);
    } catch (thrown) {
      // Whoever is told must not end it by throwing.
      warn(thrown);
    }
  };
  const once = async (): Promise<void> => {
    try {
      await run(stopping.signal);
    } catch (error) {
      if (!stopping.signal.aborted) tell(error);
    }
  };
  const tick = (): void => {
    // One that takes longer than the time between two is not run into.
    if (stopping.signal.aborted || running !== undefined) return;
    running = once().finally(() => {
      running = undefined;
    });
  };
  // Never the reason that a process stays alive.
  const timer = setInterval(tick, everyMs).unref();
  tick();

  const stop = async (): Promise<void> => {
    stopping.abort();
    clearInterval(timer);
    await running;
    stopped();
  };
  return { stop, [Symbol.asyncDispose]: stop };
}
