/**
 * Turn what is staged into a save, with a base where one pays, and a checkpoint at its end where
 * one is wanted.
 */

import { baseRefs } from "../../core/journal/blob-refs.js";
import {
  type Checkpoint,
  type CheckpointOptions,
  checkpointFrom,
  type Mark,
  markText,
} from "../../core/journal/checkpoint.js";
import { record } from "../../core/journal/record.js";
import { seal } from "../../core/journal/seal-save.js";
import type { StateFold } from "../../core/journal/session-state.js";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId, SessionId } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import type { NewSave } from "../../store/port/changes.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import type { Staging } from "./staging.js";

/** Where the save goes. */
interface Place {
  readonly session: SessionId;
  readonly branch: BranchId;
  /** The digest of the save before. */
  readonly end: Digest;
  readonly past: Past;
}

interface SealedStage {
  readonly save: NewSave;
  readonly digest: Digest;
  readonly checkpoint: Checkpoint | undefined;
}

/** Seals it. The staging is empty afterwards, and the fold stands behind the save. */
export function sealStaged(
  ctx: StoreContext,
  fold: StateFold,
  staging: Staging,
  { session, branch, end, past }: Place,
  wanted: CheckpointOptions | undefined,
): SealedStage {
  // Before anything is taken from what is staged: the hook may throw.
  const given = wanted && (ctx.redactor?.mark(wanted) ?? wanted);
  const at = ctx.wallMs();
  const row = staging.row;
  const { items, state, nMessages, refs, blobs, ascii } = staging.take(at);
  let allRefs = refs;
  const withBase = fold.basePays();
  if (withBase) {
    const base = fold.toBase((ranges) => past.branchesOf(ranges));
    state.push(record([["base", JSON.stringify(base)]]));
    allRefs = [...refs, ...baseRefs(base)];
  }
  const seq = fold.seq + items.length + state.length + (given === undefined ? 0 : 1);
  const mark = given && nextMark(fold, given);
  const salt = () => ctx.salts.next();
  const { save, digest } = seal({
    branch,
    after: fold.seq,
    at,
    prior: fold.prior,
    base: withBase ? seq : fold.base,
    prev: end,
    items,
    nMessages,
    state,
    mark: mark === undefined ? null : markText(mark, salt),
    salt,
  });
  row.bytes = ascii ? (save.items?.length ?? 0) : textBytes(save.items);
  const stateBytes = textBytes(save.state);
  fold.readBytes += row.bytes + stateBytes;
  if (withBase) fold.markBase(seq, fold.costAfterBase(stateBytes));
  fold.seq = seq;
  const checkpoint =
    mark &&
    checkpointFrom(mark, save, digest, session, (before) => past.knownBranchAt(before) ?? branch);
  fold.inFlight.saveEnds();
  if (checkpoint !== undefined) fold.prior = seq;
  return { save: { save, refs: allRefs, blobs }, digest, checkpoint };
}

/** What a checkpoint here says. The fold counts its step. */
function nextMark(fold: StateFold, given: CheckpointOptions): Mark {
  fold.step = given.step ?? fold.step + 1;
  fold.tasks = given.tasksCompleted ?? fold.tasks;
  const mark: { -readonly [K in keyof Mark]: Mark[K] } = {
    step: fold.step,
    messages: fold.messageCount,
    bytes: fold.sizeBytes,
  };
  if (given.kind !== undefined && given.kind !== "manual") mark.kind = given.kind;
  if (given.label !== undefined) mark.label = given.label;
  if (given.description !== undefined) mark.description = given.description;
  if (fold.status !== "in-progress") mark.status = fold.status;
  if (fold.reason !== undefined) mark.reason = fold.reason;
  if (given.tokenCount !== undefined) mark.tokens = given.tokenCount;
  else if (fold.tokens > 0) mark.tokens = fold.tokens;
  if (fold.tasks !== undefined) mark.tasks = fold.tasks;
  if (given.metadata !== undefined) mark.metadata = given.metadata;
  return mark;
}
