/**
 * What a search could not look into: sessions whose journals have holes, or saves that cannot be
 * read.
 */
import { firstSeq, type Save } from "../../core/journal/save.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { LineId, Place } from "../../core/values/ids.js";
import type { Journal } from "../../engine/journal/journal.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { hole } from "../../engine/journal/walk.js";
import type { Damaged } from "../../engine/util/validate.js";
import type { LineRow } from "../../store/port/rows.js";
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
    for (const { line, seq } of places.slice(0, MOST))
      await this.tell(line, seq, () => this.#check(line, seq));
  }

  /** Runs something about a record. Notes the damage it meets, and answers undefined then. */
  async tell<T>(line: LineRow, seq: number, ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
      const id = await this.#owners.ofRecord(line, seq);
      if (id !== undefined && !this.#found.has(id))
        this.#found.set(id, { id, message: error.message });
      return undefined;
    }
  }

  async #check(line: LineRow, seq: number): Promise<void> {
    const save = await saveHolding(this.#ctx, { line: line.id, seq });
    if (save !== undefined) for await (const _text of textsIn(this.#ctx.journal, save));
    else if (line.session !== null) await this.#ctx.journal.tail(line.id);
  }
}

/**
 * The save that holds a record, with its items; undefined where it was cut from the end of its
 * line. Throws where it is missing.
 */
async function saveHolding(
  { journal }: StoreContext,
  { line, seq }: Place,
): Promise<Save | undefined> {
  const save = await journal.saves.holding(line, seq, { items: true });
  if (save !== undefined && firstSeq(save) <= seq) return save;
  await journal.checkAbsent({ line, seq });
  return undefined;
}

/** Throws where the record of a hit is missing, and was not taken away. */
export async function checkHit(
  { journal }: StoreContext,
  line: LineRow,
  seq: number,
  save: Save | undefined,
): Promise<void> {
  if (save !== undefined && firstSeq(save) > seq) throw hole(line.id, seq);
  if (save !== undefined || line.session === null) return;
  await journal.checkAbsent({ line: line.id, seq });
  await journal.tail(line.id);
}

/** Whether an anchor knows that a line went further than its last save. */
export async function isCutShort(
  journal: Journal,
  { line, seq }: { readonly line: LineId; readonly seq: number },
): Promise<boolean> {
  if (!(await journal.isBehindAnchor(line, seq))) return false;
  try {
    await journal.tail(line);
    return false;
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return true;
    throw error;
  }
}
