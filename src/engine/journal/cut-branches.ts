/** Free what no session needs of branches whose session is gone. */
import { type BranchNode, reach } from "../../core/retention/retention.js";
import type { BranchId } from "../../core/values/ids.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow } from "../../store/port/rows.js";
import { fixed, IN_BULK, TimeSlice } from "../util/time-slice.js";
import { descendants } from "./descendants.js";
import type { StoreContext } from "./store-context.js";

export interface CutOptions {
  readonly dryRun: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly idle?: boolean;
  readonly onCut?:
    | ((freed: { readonly count: number; readonly bytes: number }) => void)
    | undefined;
}

/**
 * Frees what nobody needs of branches whose session is gone. `family` holds these branches and all
 * that began on them.
 */
export async function cutBranches(
  { store }: StoreContext,
  branches: readonly BranchNode[],
  family: readonly BranchNode[],
  { dryRun, signal, idle, onCut }: CutOptions,
): Promise<void> {
  // Without it, they stay.
  const { reclaim } = store;
  if (reclaim === undefined) return;
  const needed = reach(family);
  const sizes = store.traits.inBulk ? fixed(IN_BULK.saves) : { least: 32, most: 2_000, first: 64 };
  const timeSlice = new TimeSlice(store, { ...sizes, rests: !dryRun, signal, idle });
  for (const { id } of branches) {
    const after = needed.get(id) ?? -1;
    const cut = async (limit: number): Promise<boolean> => {
      const freed = await reclaim.cut(
        id as BranchId,
        after,
        dryRun ? Number.MAX_SAFE_INTEGER : limit,
        dryRun,
      );
      if (freed.count > 0) onCut?.(freed);
      // Some stores take fewer, so as not to tear what was written together.
      return (
        !dryRun && (freed.count === limit || (store.traits.inBulk === true && freed.count > 0))
      );
    };
    while (await timeSlice.step(cut));
  }
}

/** Frees what nobody needs of branches that belong to nobody. */
export async function freeBranches(ctx: StoreContext, ids: readonly BranchId[]): Promise<void> {
  const loose: BranchRow[] = [];
  for (const id of ids) {
    const row = (await ctx.store.branches(oneBranch(id)))[0];
    if (row !== undefined && !row.owned) loose.push(row);
  }
  const family = await descendants(ctx, loose);
  const all = family.filter(({ owned }) => !owned).toSorted((a, b) => b.no - a.no);
  if (all.length > 0) await cutBranches(ctx, all, family, { dryRun: false });
}
