/**
 * What there is on a branch, from the heads of its saves alone: checkpoints, its end, and who
 * begins on it.
 */
import { markOf } from "../../core/journal/checkpoint.js";
import type { Save } from "../../core/journal/save.js";
import { priorOf } from "../../core/journal/save-note.js";
import type { Dated } from "../../core/retention/policy.js";
import { highest } from "../../core/values/highest.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import type { Past, Segment } from "../../engine/journal/past.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { TimeSlice } from "../../engine/util/time-slice.js";
import { documentsOf } from "../../store/capabilities.js";
import type { KnownNeeds } from "../../store/port/reclaim.js";
import type { BranchRow } from "../../store/port/rows.js";

/** A place that loads, and the save with the newest base at or before it. */
interface PlaceAt {
  readonly seq: number;
  readonly base: number;
}

/** A checkpoint on a branch. */
export interface MarkAt extends PlaceAt, Dated {}

export interface BranchScan {
  readonly branch: BranchId;
  /** The branch and those it goes back to. */
  readonly past: Past;
  /** The branch's own part of it. */
  readonly own: Segment;
  /** The number of its first record. */
  readonly from: number;
  /** By rising number. */
  readonly marks: readonly MarkAt[];
  /** Where a list goes on that has come to the branch's beginning. */
  readonly priorToAll: number;
  readonly end: Save | undefined;
  /**
   * Branches that begin on it, newest first, looked at before the checkpoints were; and where they
   * begin.
   */
  readonly forks: readonly BranchRow[];
  /**
   * Places that documents pin, and where branches begin, by rising number: they load also where
   * there is no checkpoint.
   */
  readonly pinned: readonly PlaceAt[];
  /** The newest branch and document that were known of when the rest was looked at. */
  readonly known: KnownNeeds;
  readonly forkPoints: ReadonlySet<number>;
}

export async function scanBranch(
  { store, journal }: StoreContext,
  branch: BranchId,
  signal?: AbortSignal,
): Promise<BranchScan> {
  // In this order: a branch that began where something was pinned is there before the pin can be
  // gone.
  const pins = await documentsOf(store).pins(branch);
  const forks = await store.branches({ kind: "forks", of: branch });
  const forkPoints = new Set(forks.flatMap(({ forkPoint }) => forkPoint?.seq ?? []));
  const others = new Set([...pins.map(({ seq }) => seq), ...forkPoints]);
  const docs = pins.map(({ doc }) => doc);
  const known = { branch: forks[0]?.no ?? 0, doc: highest(0, docs) };
  const past = journal.past(branch);
  const own = (await past.downTo(MAX_SEQ))[0] as Segment;
  const { from } = own;
  const timeSlice = new TimeSlice(store, {
    least: 20,
    most: 1_000,
    first: 100,
    rests: false,
    signal,
  });
  const marks: MarkAt[] = [];
  const pinned: PlaceAt[] = [];
  let end: Save | undefined;
  let priorToAll: number | undefined;
  let rows = 0;
  const pages = journal.saves.walk([own], { rows: () => rows });
  const look = async (limit: number): Promise<boolean> => {
    rows = limit;
    const { value: page = [] } = await pages.next();
    for (const { save, digest } of page) {
      end = save;
      priorToAll ??= priorOf(save);
      if (digest === undefined) continue;
      if (save.mark !== null) marks.push(markAt(save, save.mark));
      if (others.has(save.seq)) pinned.push({ seq: save.seq, base: save.base });
    }
    return page.length > 0;
  };
  while (await timeSlice.step(look));
  return {
    branch,
    past,
    own,
    from,
    marks,
    priorToAll: priorToAll ?? 0,
    end,
    forks,
    pinned,
    known,
    forkPoints,
  };
}

function markAt({ seq, at, base }: Save, text: string): MarkAt {
  const { kind = "manual", label } = markOf(text);
  return { seq, at, base, kind, labelled: label !== undefined };
}
