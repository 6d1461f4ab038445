/**
 * Check a call of `agents.restore`, and answer it: in a dry run, once under a key, or from its
 * receipt.
 */
import { checkName } from "../../core/values/ids.js";
import { once } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { findAgent, recordOf } from "../../engine/records/agent-record.js";
import { noSnapshot, type Snapshot } from "../../engine/records/snapshot-record.js";
import { callback, flag, options, signalOf } from "../../engine/util/validate.js";
import { documentsOf } from "../../store/capabilities.js";
import { SNAPSHOT } from "../../store/port/documents.js";
import { SnapshotRestore } from "./apply-snapshot.js";
import { getSnapshot } from "./list-snapshots.js";
import type { RestoredKept, RestoreOptions, RestoreReport, Restoring } from "./restore-report.js";
import { newSnapshotId } from "./take-snapshot.js";

export async function restoreSnapshot(
  ctx: StoreContext,
  snapshotId: string,
  o: RestoreOptions | undefined,
): Promise<RestoreReport> {
  const id = checkName(snapshotId, "snapshot id");
  const { takeOver, dryRun, signal, onProgress, key } = options(o, "agents.restore", [
    "takeOver",
    "dryRun",
    "signal",
    "onProgress",
    "key",
  ]);
  const told = callback(onProgress, "onProgress");
  const stop = signalOf(signal);
  const isTaken = flag(takeOver, "takeOver") ?? false;
  const isDry = flag(dryRun, "dryRun") ?? false;
  if (key !== undefined) checkName(key, "key");
  const given = {
    takeOver: isTaken,
    ...(stop && { signal: stop }),
    ...(told && { onProgress: told }),
  };
  const restore = async (): Promise<SnapshotRestore> => {
    const row = await documentsOf(ctx.store).get(SNAPSHOT, id);
    if (row === undefined) throw noSnapshot(id);
    return new SnapshotRestore(ctx, row, given);
  };
  if (isDry) return (await restore()).look();
  return once<RestoredKept, RestoreReport>(
    ctx,
    { key, name: "agents.restore", to: id, args: { takeOver: isTaken } },
    async (receipt) => {
      await ctx.takeInPosted();
      try {
        return await (await restore()).run(() => newSnapshotId(ctx), receipt);
      } catch (error) {
        // A rule may have removed it meanwhile, and what it pointed at may have gone with it.
        if ((await documentsOf(ctx.store).get(SNAPSHOT, id)) === undefined) throw noSnapshot(id);
        throw error;
      }
    },
    (kept) => reportAgain(ctx, id, kept),
  );
}

async function reportAgain(
  ctx: StoreContext,
  id: string,
  kept: RestoredKept,
): Promise<RestoreReport> {
  // The snapshot that was restored, and the one of before, may be deleted since.
  const snapshot = (await getSnapshot(ctx, id)) ?? (kept.snapshot as unknown as Snapshot);
  const recovery = await getSnapshot(ctx, kept.recovery);
  const agent = await findAgent(ctx.store, snapshot.agent);
  const sessions = kept.sessions.map(([session, outcome]) => ({
    id: session,
    outcome: outcome as Restoring,
  }));
  return {
    snapshot,
    ...(recovery && { recovery }),
    ...(agent && { agent: recordOf(agent) }),
    sessions,
  };
}
