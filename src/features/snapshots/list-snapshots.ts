/** Read a snapshot, and list those of an agent. */
import { type CheckpointKind, KINDS } from "../../core/journal/checkpoint.js";
import { checkName } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { listDocuments } from "../../engine/records/list-documents.js";
import { type Snapshot, snapshotOf } from "../../engine/records/snapshot-record.js";
import {
  type Damaged,
  oneOf,
  options,
  type Page,
  type PageOptions,
} from "../../engine/util/validate.js";
import { documentsOf } from "../../store/capabilities.js";
import { SNAPSHOT } from "../../store/port/documents.js";

export interface SnapshotPage extends Page<Snapshot> {
  /**
   * Snapshots of this page that cannot be read, of any kind; absent where there are none. A damaged
   * snapshot in a directory store does not say which agent it is of: it is named with every agent.
   */
  readonly damaged?: readonly Damaged[];
}

export interface SnapshotFilter extends PageOptions {
  readonly kind?: CheckpointKind;
}

export async function getSnapshot(
  { store }: StoreContext,
  snapshotId: string,
): Promise<Snapshot | undefined> {
  const row = await documentsOf(store).get(SNAPSHOT, checkName(snapshotId, "snapshot id"));
  return row && snapshotOf(row);
}

/** Newest first. */
export async function listSnapshots(
  { store }: StoreContext,
  id: string,
  o: SnapshotFilter | undefined,
): Promise<SnapshotPage> {
  const agent = checkName(id, "agent id");
  const { kind, limit, cursor } = options(o, "agents.snapshots", ["kind", "limit", "cursor"]);
  const only = oneOf(kind, "kind", KINDS);
  return listDocuments(store, { kind: SNAPSHOT, of: agent, limit, cursor }, (row) => {
    const snapshot = snapshotOf(row);
    return only === undefined || snapshot.kind === only ? snapshot : undefined;
  });
}
