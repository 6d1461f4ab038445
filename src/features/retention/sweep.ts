/** The automatic sweep. */
import {
  type IntervalOptions,
  type IntervalTask,
  intervalTask,
} from "../../engine/util/interval-task.js";
import { callback, invalid, options } from "../../engine/util/validate.js";
import type { RetentionReport } from "./tally.js";

export interface SweepOptions extends IntervalOptions {
  /** Told what every sweep has removed from which sessions, also where that is nothing. */
  readonly onSwept: (report: RetentionReport) => void;
}

interface Work {
  readonly run: (signal: AbortSignal) => Promise<RetentionReport>;
  readonly stopped: () => void;
}

export function sweepEvery(given: SweepOptions, { run, stopped }: Work): IntervalTask {
  const o = options(given, "retention.sweep", ["everyMs", "onSwept", "onError"]);
  const onSwept = callback(o.onSwept, "onSwept");
  if (onSwept === undefined)
    throw invalid("onSwept", "it must be given: nothing is removed without a word");
  return intervalTask(o, {
    run: async (signal) => onSwept(await run(signal)),
    stopped,
    failed: "A sweep by the retention policies failed",
  });
}
