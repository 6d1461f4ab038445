/** Snapshots that are taken by themselves. */
import { HoldfastError } from "../../core/errors.js";
import { callback, options, wholeNumber } from "../options.js";
import type { Snapshot } from "./snapshot.js";

export interface AutoSnapshotOptions {
  readonly everyMs: number;
  /** How many automatic ones are kept; those of other kinds are never touched. */
  readonly keep: number;
  readonly onSnapshot?: (snapshot: Snapshot) => void;
  /** Told of what went wrong; by default it is a warning of the process. It is tried again at the next time. */
  readonly onError?: (error: unknown) => void;
}

export interface AutoSnapshot extends AsyncDisposable {
  /** Takes no more. Resolves when one that is just being taken is there. */
  stop(): Promise<void>;
}

interface Work {
  /** Undefined where nothing has changed since the last. */
  readonly take: () => Promise<Snapshot | undefined>;
  readonly prune: (keep: number) => Promise<void>;
  readonly stopped: () => void;
}

/** Longer than that, timers of the system run out at once. */
const MAX_EVERY_MS = 2 ** 31 - 1;

export function autoSnapshot(given: AutoSnapshotOptions, { take, prune, stopped }: Work): AutoSnapshot {
  const o = options(given, "agents.autoSnapshot", ["everyMs", "keep", "onSnapshot", "onError"]);
  const everyMs = wholeNumber(o.everyMs, "everyMs", 10, MAX_EVERY_MS);
  const keep = wholeNumber(o.keep, "keep", 1, 100_000);
  const onSnapshot = callback(o.onSnapshot, "onSnapshot");
  const onError = callback(o.onError, "onError") ?? warn;
  let isOver = false;
  let running: Promise<void> | undefined;

  const once = async () => {
    try {
      const snapshot = await take();
      if (snapshot === undefined) return;
      await prune(keep);
      onSnapshot?.(snapshot);
    } catch (error) {
      if (!isOver) report(onError, error);
    }
  };
  const tick = () => {
    // One that takes longer than the time between two is not run into.
    if (isOver || running !== undefined) return;
    running = once().finally(() => {
      running = undefined;
    });
  };
  // Never the reason that a process stays alive.
  const timer = setInterval(tick, everyMs).unref();
  tick();

  const stop = async () => {
    isOver = true;
    clearInterval(timer);
    stopped();
    await running;
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
  process.emitWarning(`An automatic snapshot could not be taken (${said}).`, "HoldfastWarning");
}
