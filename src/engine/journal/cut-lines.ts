/** Free what no session needs of lines whose session is gone. */
import { type LineNode, reach } from "../../core/retention/retention.js";
import type { LineId } from "../../core/values/ids.js";
import { oneLine } from "../../store/port/queries.js";
import type { LineRow } from "../../store/port/rows.js";
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
 * Frees what nobody needs of lines whose session is gone. `family` holds these lines and all that
 * began on them.
 */
export async function cutLines(
  { store }: StoreContext,
  lines: readonly LineNode[],
  family: readonly LineNode[],
  { dryRun, signal, idle, onCut }: CutOptions,
): Promise<void> {
  // Without it, they stay.
  const { reclaim } = store;
  if (reclaim === undefined) return;
  const needed = reach(family);
  const sizes = store.traits.inBulk ? fixed(IN_BULK.saves) : { least: 32, most: 2_000, first: 64 };
  const timeSlice = new TimeSlice(store, { ...sizes, rests: !dryRun, signal, idle });
  for (const { id } of lines) {
    const after = needed.get(id) ?? -1;
    const cut = async (limit: number): Promise<boolean> => {
      const freed = await reclaim.cut(
        id as LineId,
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

/** Frees what nobody needs of lines that belong to nobody. */
export async function freeLines(ctx: StoreContext, ids: readonly LineId[]): Promise<void> {
  const loose: LineRow[] = [];
  for (const id of ids) {
    const row = (await ctx.store.branches(oneLine(id)))[0];
    if (row !== undefined && !row.owned) loose.push(row);
  }
  const family = await descendants(ctx, loose);
  const all = family.filter(({ owned }) => !owned).toSorted((a, b) => b.no - a.no);
  if (all.length > 0) await cutLines(ctx, all, family, { dryRun: false });
}
