/** The automatic sweep. */
import { HoldfastError } from "../../core/errors.js";
import { callback, invalid, options, wholeNumber } from "../options.js";
import type { RetentionReport } from "./retention.js";

export interface SweepOptions {
  readonly everyMs: number;
  /** Told what every sweep has removed from which sessions, also where that is nothing. */
  readonly onSwept: (report: RetentionReport) => void;
  /** Told of what went wrong; by default it is a warning of the process. It is tried again at the next time. */
  readonly onError?: (error: unknown) => void;
}

export interface Sweep extends AsyncDisposable {
  /** Sweeps no more. One that is under way ends with its next step. */
  stop(): Promise<void>;
}

interface Work {
  readonly run: (signal: AbortSignal) => Promise<RetentionReport>;
  readonly stopped: () => void;
}

/** Longer than that, timers of the system run out at once. */
const MAX_EVERY_MS = 2 ** 31 - 1;

export function sweepEvery(given: SweepOptions, { run, stopped }: Work): Sweep {
  const o = options(given, "retention.sweep", ["everyMs", "onSwept", "onError"]);
  const everyMs = wholeNumber(o.everyMs, "everyMs", 10, MAX_EVERY_MS);
  const onSwept = callback(o.onSwept, "onSwept");
  if (onSwept === undefined) throw invalid("onSwept", "it must be given: nothing is removed without a word");
  const onError = callback(o.onError, "onError") ?? warn;
  const stopping = new AbortController();
  let running: Promise<void> | undefined;

  const once = async () => {
    try {
      onSwept(await run(stopping.signal));
    } catch (error) {
      if (!stopping.signal.aborted) report(onError, error);
    }
  };
  const tick = () => {
    // One that takes longer than the time between two is not run into.
    if (stopping.signal.aborted || running !== undefined) return;
    running = once().finally(() => {
      running = undefined;
    });
  };
  // Never the reason that a process stays alive.
  const timer = setInterval(tick, everyMs).unref();
  tick();

  const stop = async () => {
    stopping.abort();
    clearInterval(timer);
    await running;
    stopped();
  };
  return { stop, [Symbol.asyncDispose]: stop };
}

/** Whoever is told must not end it by throwing. */
function report(onError: (error: unknown) => void, error: unknown): void {
  try {
    onError(error);
  } catch (thrown) {
    warn(thrown);
  }
}

function warn(error: unknown): void {
  const said = error instanceof HoldfastError ? `${error.code}: ${error.message}` : String(error);
  process.emitWarning(`A sweep by the retention policies failed (${said}).`, "HoldfastWarning");
}
