/** Snapshots that are taken by themselves. */
import type { Snapshot } from "../../engine/records/snapshot-record.js";
import { type EveryOptions, every, type Repeating } from "../../engine/util/every.js";
import { callback, options, wholeNumber } from "../../engine/util/options.js";

export interface AutoSnapshotOptions extends EveryOptions {
  /** How many automatic ones are kept; those of other kinds are never touched. */
  readonly keep: number;
  readonly onSnapshot?: (snapshot: Snapshot) => void;
}

/** Stopped, it takes no more; one that is just being taken is there then. */
export type AutoSnapshot = Repeating;

interface Work {
  /** Undefined where nothing has changed since the last. */
  readonly take: () => Promise<Snapshot | undefined>;
  readonly prune: (keep: number) => Promise<void>;
  readonly stopped: () => void;
}

export function autoSnapshot(given: AutoSnapshotOptions, { take, prune, stopped }: Work): AutoSnapshot {
  const o = options(given, "agents.autoSnapshot", ["everyMs", "keep", "onSnapshot", "onError"]);
  const keep = wholeNumber(o.keep, "keep", 1, 100_000);
  const onSnapshot = callback(o.onSnapshot, "onSnapshot");
  const run = async (): Promise<void> => {
    const snapshot = await take();
    if (snapshot === undefined) return;
    await prune(keep);
    onSnapshot?.(snapshot);
  };
  return every(o, { run, stopped, failed: "An automatic snapshot could not be taken" });
}
