/**
 * What a search could not look into: sessions whose journals have holes, or saves that cannot be
 * read.
 */
import { firstSeq, type Save } from "../../core/journal/save.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { BranchId, Place } from "../../core/values/ids.js";
import type { Journal } from "../../engine/journal/journal.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { hole } from "../../engine/journal/walk.js";
import type { Damaged } from "../../engine/util/validate.js";
import type { BranchRow } from "../../store/port/rows.js";
import type { DamagedPlace } from "../../store/search-port.js";
import type { OwnerLookup } from "./owner-lookup.js";
import { textsIn } from "./search-texts.js";

/** So many places are looked at again for one search. */
const MOST = 100;

/** Collects damage, one entry for each session. */
export class DamageReport {
  readonly #ctx: StoreContext;
  readonly #owners: OwnerLookup;
  readonly #found = new Map<string, Damaged>();

  constructor(ctx: StoreContext, owners: OwnerLookup) {
    this.#ctx = ctx;
    this.#owners = owners;
  }

  get entries(): readonly Damaged[] {
    return [...this.#found.values()];
  }

  /** Notes what is damaged there by now: an index may have noted what was mended since. */
  async look(places: readonly DamagedPlace[]): Promise<void> {
    for (const { branch, seq } of places.slice(0, MOST))
      await this.tell(branch, seq, () => this.#check(branch, seq));
  }

  /** Runs something about a record. Notes the damage it meets, and answers undefined then. */
  async tell<T>(branch: BranchRow, seq: number, ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
      const id = await this.#owners.ofRecord(branch, seq);
      if (id !== undefined && !this.#found.has(id))
        this.#found.set(id, { id, message: error.message });
      return undefined;
    }
  }

  async #check(branch: BranchRow, seq: number): Promise<void> {
    const save = await saveHolding(this.#ctx, { branch: branch.id, seq });
    if (save !== undefined) for await (const _text of textsIn(this.#ctx.journal, save));
    else if (branch.session !== null) await this.#ctx.journal.tail(branch.id);
  }
}

/**
 * The save that holds a record, with its items; undefined where it was cut from the end of its
 * branch. Throws where it is missing.
 */
async function saveHolding(
  { journal }: StoreContext,
  { branch, seq }: Place,
): Promise<Save | undefined> {
  const save = await journal.saves.holding(branch, seq, { items: true });
  if (save !== undefined && firstSeq(save) <= seq) return save;
  await journal.checkAbsent({ branch, seq });
  return undefined;
}

/** Throws where the record of a hit is missing, and was not taken away. */
export async function checkHit(
  { journal }: StoreContext,
  branch: BranchRow,
  seq: number,
  save: Save | undefined,
): Promise<void> {
  if (save !== undefined && firstSeq(save) > seq) throw hole(branch.id, seq);
  if (save !== undefined || branch.session === null) return;
  await journal.checkAbsent({ branch: branch.id, seq });
  await journal.tail(branch.id);
}

/** Whether an anchor knows that a branch went further than its last save. */
export async function isCutShort(
  journal: Journal,
  { branch, seq }: { readonly branch: BranchId; readonly seq: number },
): Promise<boolean> {
  if (!(await journal.isBehindAnchor(branch, seq))) return false;
  try {
    await journal.tail(branch);
    return false;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return true;
    throw error;
  }
}
