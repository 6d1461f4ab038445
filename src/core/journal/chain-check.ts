/**
 * Whether a save follows what came before it on its branch: digests, numbers, pointers, and what
 * its records say of themselves. Pure, and the same for what leaves a store and for what comes in
 * from one that nobody knows.
 */
import { onNewBranch, type SessionStatus } from "../sessions/status.js";
import type { Digest } from "../values/digest.js";
import { HoldfastError } from "../values/errors.js";
import { refsOf } from "./blob-refs.js";
import { checkLimits } from "./check-record.js";
import { isPlainMark, markOf } from "./checkpoint.js";
import { open } from "./open-save.js";
import type { Base, JournalRecord } from "./record.js";
import { firstSeq, type Save } from "./save.js";
import { isGap } from "./save-note.js";
import { isPlain } from "./save-section.js";

/** Where a branch stands, as far as what comes next depends on it. */
export interface BranchEnd {
  readonly seq: number;
  /**
   * What the next save's `prev` begins with: a whole digest, or, behind a gap, the beginning of
   * one.
   */
  readonly follows: string;
  /**
   * Where the next save may say that the newest checkpoint is. Undefined, like the two below, where
   * it is not known.
   */
  readonly priors: readonly number[] | undefined;
  readonly base: number | undefined;
  readonly status: string | undefined;
}

export const rootEnd = (follows: Digest): BranchEnd => ({
  seq: 0,
  follows,
  priors: [0],
  base: 0,
  status: "in-progress",
});

/** Where a branch begins of whose fork point only the number is known. */
export const unknownEnd = (seq: number, follows: Digest): BranchEnd => ({
  seq,
  follows,
  priors: undefined,
  base: undefined,
  status: undefined,
});

/**
 * The same place as the beginning of another branch: what was waited for or in doubt stays behind
 * (see `Fold.leaveLine`).
 */
export const begunAt = (end: BranchEnd): BranchEnd =>
  end.status === undefined ? end : { ...end, status: onNewBranch(end.status as SessionStatus) };

/**
 * Where a branch begins that has its fork point at this save, which has been verified. Sessions are
 * put back to places without a checkpoint, too.
 */
export const forkPointEnd = (save: Save, digest: Digest): BranchEnd => ({
  seq: save.seq,
  follows: digest,
  priors: [save.nMark > 0 ? save.seq : save.prior],
  base: save.base,
  status: save.mark === null ? undefined : statusOf(save.mark),
});

export interface Followed {
  readonly end: BranchEnd;
  /** The blobs its records refer to, each once. */
  readonly refs: readonly Digest[];
  /**
   * The branches that its base names. That its branch goes back to them is for the caller to see.
   */
  readonly branches: Base["branches"];
  /** What it says. That blobs are what these take them for is for the caller to see. */
  readonly records: readonly JournalRecord[];
}

/** Verifies a save as the next one on its branch. Whatever does not fit is CORRUPT. */
export function checkChain(before: BranchEnd, save: Save): Followed {
  try {
    return next(before, save);
  } catch (error) {
    // Sealed text that is no JSON, or other JSON than a record: no runtime has written it.
    throw error instanceof HoldfastError ? error : unfit(save, "holds what cannot be read", error);
  }
}

function next(before: BranchEnd, save: Save): Followed {
  if (firstSeq(save) !== before.seq + 1 || !save.prev.startsWith(before.follows))
    throw unfit(
      save,
      "does not follow the one before it: something in between is missing or was exchanged",
    );
  const { seq, prior, base } = save;
  const gap = isGap(save);
  const newest = before.base ?? base;
  if (
    (!gap && before.priors?.includes(prior) === false) ||
    (base !== newest && (gap ? base < newest : base !== seq))
  )
    throw unfit(save, "points to a place that is not the newest");
  // A gap says what the last save in it said: the newest checkpoint before what follows is one that
  // went with it, or the one that said.
  if (gap)
    return {
      end: { seq, follows: save.check, priors: [prior, seq], base, status: undefined },
      refs: [],
      branches: undefined,
      records: [],
    };
  const { digest, items, state } = open(save, {
    items: save.items !== null,
    state: save.state !== null,
    mark: true,
  });
  // What was dropped may have changed it.
  let status = save.nItems > 0 && save.items === null ? undefined : before.status;
  let messages = 0;
  let hasBase = false;
  let branches: Base["branches"];
  const refs = new Set<Digest>();
  const records = [...items, ...state];
  for (const record of records) {
    status = record.status ?? record.base?.status ?? status;
    if (record.append !== undefined || record.item !== undefined) messages += 1;
    if (record.base !== undefined) {
      hasBase = true;
      branches = record.base.branches;
    }
    for (const name of refsOf(record)) refs.add(name);
  }
  if (save.nMessages > save.nItems || (save.items !== null && messages !== save.nMessages))
    throw unfit(save, "miscounts its messages");
  if (save.state !== null && hasBase !== (base === seq))
    throw unfit(save, "points to a base that is not there");
  checkSave(save, items, state);
  if (save.mark !== null) {
    const said = statusOf(save.mark);
    if (status !== undefined && status !== said)
      throw unfit(save, `has a checkpoint that says ${said}, and its records say ${status}`);
    status = said;
  }
  return {
    end: { seq, follows: digest, priors: [save.nMark > 0 ? seq : prior], base, status },
    refs: [...refs],
    branches,
    records,
  };
}

/**
 * Throws where the records of a save that was opened say what no program could have given, or are
 * not written as a store writes them.
 */
export function checkSave(
  save: Save,
  items: readonly JournalRecord[],
  state: readonly JournalRecord[],
): void {
  try {
    for (const record of items) checkLimits(record);
    for (const record of state) checkLimits(record);
  } catch (error) {
    throw unfit(
      save,
      `holds a record that cannot be: ${(error as Error).message.replace(/\.$/, "")}`,
      error,
    );
  }
  if (
    (save.items !== null && !isPlain(save.items, items)) ||
    (save.state !== null && !isPlain(save.state, state))
  )
    throw unfit(save, "has a section that is not written as a store writes it");
  if (save.mark !== null && !isPlainMark(save.mark))
    throw unfit(save, "has a checkpoint that is not written as a store writes it");
}

const statusOf = (mark: string): string => markOf(mark).status ?? "in-progress";

function unfit(save: Save, what: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The save at ${save.branch}-${save.seq} ${what}.`,
    { branch: save.branch, seq: save.seq },
    cause,
  );
}
