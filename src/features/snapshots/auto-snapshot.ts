/** Take automatic snapshots of an agent from time to time, and keep the newest. */
import { checkName } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { type Snapshot, snapshotOf, snapshotsOf } from "../../engine/records/snapshot-record.js";
import {
  type IntervalOptions,
  type IntervalTask,
  intervalTask,
} from "../../engine/util/interval-task.js";
import { callback, options, wholeNumber } from "../../engine/util/validate.js";
import { type DocRow, SNAPSHOT } from "../../store/port/documents.js";
import { snapshotNow } from "./take-snapshot.js";

export interface AutoSnapshotOptions extends IntervalOptions {
  /** How many automatic ones are kept; those of other kinds are never touched. */
  readonly keep: number;
  readonly onSnapshot?: (snapshot: Snapshot) => void;
}

export function autoSnapshot(
  ctx: StoreContext,
  id: string,
  given: AutoSnapshotOptions,
  stopped: () => void,
): IntervalTask {
  ctx.usable();
  const agent = checkName(id, "agent id");
  const o = options(given, "agents.autoSnapshot", ["everyMs", "keep", "onSnapshot", "onError"]);
  const keep = wholeNumber(o.keep, "keep", 1, 100_000);
  const onSnapshot = callback(o.onSnapshot, "onSnapshot");
  const run = async (): Promise<void> => {
    const snapshot = await takeIfChanged(ctx, agent);
    if (snapshot === undefined) return;
    await removeOlder(ctx, agent, keep);
    onSnapshot?.(snapshot);
  };
  return intervalTask(o, { run, stopped, failed: "An automatic snapshot could not be taken" });
}

/** Undefined where nothing has changed since the last. */
async function takeIfChanged(ctx: StoreContext, agent: string): Promise<Snapshot | undefined> {
  const [newest] = await automatics(ctx, agent);
  return snapshotNow(
    ctx,
    agent,
    { kind: "automatic", metadata: {} },
    { unless: newest && snapshotOf(newest).digest },
  );
}

async function removeOlder(ctx: StoreContext, agent: string, keep: number): Promise<void> {
  for (const row of (await automatics(ctx, agent)).slice(keep))
    await ctx.store.apply([], [{ kind: SNAPSHOT, id: row.id, when: {}, remove: true }]);
}

/** Newest first; one that is damaged is passed over, and stays. */
async function automatics({ store }: StoreContext, agent: string): Promise<readonly DocRow[]> {
  const isAutomatic = (row: DocRow) => {
    try {
      return snapshotOf(row).kind === "automatic";
    } catch {
      return false;
    }
  };
  return (await snapshotsOf(store, agent)).filter(isAutomatic);
}
