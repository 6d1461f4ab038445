/**
 * A session's row and its branches, as they stand in its session.json; and of a deleted one, what
 * must be remembered.
 */
import type { BranchId, Place } from "../../../core/values/ids.js";
import type { BranchRow, Head, Label, LeaseRow, SessionRow } from "../../port/rows.js";
import { sealedText, unsealed } from "../files/checksummed-json.js";

export interface BranchDoc {
  readonly no: number;
  readonly id: BranchId;
  readonly forkPoint: Place | null;
  /**
   * The session it belongs to, or null. Its journal stays in the directory it was begun in, whoever
   * owns it.
   */
  readonly owner: string | null;
  readonly text: string;
}

export interface SessionDoc {
  /** Rises with every change: saves that came with one count from then on. */
  readonly version: number;
  readonly id: string;
  /** The number of the session, or of the last one that had this id; 0 where there was none yet. */
  readonly no: number;
  /**
   * These three are null where there is no such session: then only its branches are left, or were
   * brought in before it.
   */
  readonly head: Head | null;
  readonly label: Label | null;
  readonly lease: LeaseRow | null;
  /** The epoch that a deleted session of this id had. */
  readonly buried: number;
  /** The highest number that any of its branches ever had. */
  readonly lastBranch: number;
  readonly branches: readonly BranchDoc[];
  /** An inbox message that was taken in, until its files have been moved. */
  readonly drained: readonly string[];
  /** Branches that were cut: where they ended is no loss. */
  readonly cut: readonly BranchId[];
}

export const newDoc = (id: string): SessionDoc => ({
  version: 0,
  id,
  no: 0,
  head: null,
  label: null,
  lease: null,
  buried: 0,
  lastBranch: 0,
  branches: [],
  drained: [],
  cut: [],
});

export const docText = (doc: SessionDoc): string => sealedText(doc);

/** The file's contents, or undefined where they are damaged, or another session's. */
export function docOf(text: string, id: string | undefined): SessionDoc | undefined {
  const doc = unsealed<SessionDoc>(text);
  return doc === undefined || (id !== undefined && doc.id !== id) ? undefined : upToDate(doc);
}

/** A session as it is written now: files of the first format do not say when it is due. */
export const upToDate = (doc: SessionDoc): SessionDoc =>
  doc.head === null || doc.head.due !== undefined
    ? doc
    : { ...doc, head: { ...(doc.head as Head), due: null } };

export function sessionRow({ no, id, head, label, lease }: SessionDoc): SessionRow | undefined {
  return head === null || label === null || lease === null
    ? undefined
    : { no, id, head, label, lease };
}

export const branchRow = ({ no, id, forkPoint, owner, text }: BranchDoc): BranchRow => ({
  no,
  id,
  forkPoint,
  text,
  owned: owner !== null,
  session: owner,
});
