/**
 * What becomes of each session when a snapshot is restored, and the change that does it. Nothing is
 * read or written here.
 */
import { freeLease, type Lease, releaseLease } from "../../core/sessions/lease.js";
import type { SessionStatus } from "../../core/sessions/status.js";
import type { BranchId, SessionId } from "../../core/values/ids.js";
import { equal } from "../../core/values/json.js";
import {
  type HeadDoc,
  headOf,
  headRow,
  type LabelDoc,
  labelOf,
  labelRow,
  leaseRow,
  newBranch,
  rootDigest,
} from "../../engine/records/rows.js";
import type { Entry } from "../../engine/records/snapshot-record.js";
import type { Change } from "../../store/port/changes.js";
import type { Present } from "../../store/port/rows.js";
import type { Restoring } from "./restore-report.js";

/** What the journal says at a place where a session is to go on. */
export interface Verified {
  readonly entry: Entry;
  readonly status: SessionStatus;
  readonly reason: string | undefined;
}

/** What a session gets that goes on from a snapshot. */
export interface OnNewBranch {
  readonly branch: BranchId;
  /**
   * The store that restores: the session goes on in it, even if the store was put back from a copy.
   */
  readonly generation: string;
}

/** What becomes of each session: those that are there, and those that a snapshot has. */
export function outcomesOf(
  sessions: readonly Present[],
  verified: ReadonlyMap<string, Verified>,
): ReadonlyMap<string, Restoring> {
  const outcomes = new Map<string, Restoring>();
  for (const present of sessions) {
    const was = verified.get(present.row.id)?.entry;
    const label = labelOf(present.row);
    if (was === undefined) outcomes.set(present.row.id, label.archived ? "same" : "archived");
    else if (!isAt(present, was)) outcomes.set(present.row.id, "moved");
    else outcomes.set(present.row.id, isLabelled(label, was) ? "same" : "labelled");
  }
  for (const id of verified.keys()) if (!outcomes.has(id)) outcomes.set(id, "made");
  return outcomes;
}

export function moved(
  { row }: Present,
  { entry, status, reason }: Verified,
  lease: Lease,
  on: OnNewBranch,
): Change {
  const { reason: _reason, due: _due, generation: _before, ...rest } = headOf(row);
  const head: HeadDoc = { ...rest, ...begunAs(on, status, reason) };
  const label = labelOf(row);
  return {
    session: row.id,
    when: { epoch: lease.epoch },
    branch: branchFor(entry, on),
    head: headRow(head),
    lease: leaseRow(head.id, releaseLease(lease)),
    ...(isLabelled(label, entry)
      ? undefined
      : { label: labelRow({ ...entry.label, id: head.id, version: label.version + 1 }) }),
  };
}

/** RESTORE-3: deleted, it is there again, from the part that the snapshot has kept. */
export function made(
  { entry, status, reason }: Verified,
  agent: string,
  buried: number,
  on: OnNewBranch,
): Change {
  const id = entry.id as SessionId;
  const head: HeadDoc = { id, agent, ...entry.head, ...begunAs(on, status, reason) };
  return {
    session: id,
    when: { absent: true, buried },
    branch: branchFor(entry, on),
    head: headRow(head),
    label: labelRow({ ...entry.label, id, version: 1 }),
    lease: leaseRow(id, { ...freeLease, epoch: buried + 1 }),
  };
}

export function relabelled({ row }: Present, was: Entry | undefined): Change {
  const before = labelOf(row);
  const next: LabelDoc = {
    ...(was === undefined ? { ...before, archived: true } : was.label),
    id: before.id,
    version: before.version + 1,
  };
  return { session: row.id, when: { version: before.version }, label: labelRow(next) };
}

const begunAs = (
  { branch, generation }: OnNewBranch,
  status: SessionStatus,
  reason: string | undefined,
) => ({
  branch,
  status,
  ...(reason === undefined ? undefined : { reason }),
  ...(generation === "" ? undefined : { generation }),
});

const branchFor = ({ place, digest }: Entry, { branch }: OnNewBranch) =>
  newBranch({ id: branch, forkPoint: place, prev: digest ?? rootDigest(branch) });

const isAt = ({ row, end, branch }: Present, { place, digest }: Entry): boolean =>
  end === undefined
    ? place === null
      ? branch?.forkPoint === null
      : branch?.forkPoint?.branch === place.branch && branch.forkPoint.seq === place.seq
    : place !== null &&
      digest !== null &&
      end.branch === place.branch &&
      end.seq === place.seq &&
      row.head.branch === place.branch;

function isLabelled(label: LabelDoc, { label: was }: Entry): boolean {
  const { id: _id, version: _version, ...own } = label;
  return equal(own, was);
}
