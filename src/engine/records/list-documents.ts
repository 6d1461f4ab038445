/**
 * List documents by pages, as callers see them. One that is damaged does not hide the others: it is
 * named apart.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { documentsOf } from "../../store/capabilities.js";
import type { DocRow } from "../../store/port/documents.js";
import type { Store } from "../../store/port.js";
import { cursorAt, type Damaged, limitOf, numberOf, type Page } from "../util/validate.js";

interface Asked {
  readonly kind: string;
  readonly of?: string;
  /** As the caller gives them: they are checked here. */
  readonly limit: unknown;
  readonly cursor: unknown;
}

/** Newest first. A document that `show` answers undefined for is left out. */
export async function listDocuments<T>(
  store: Store,
  { limit, cursor, ...of }: Asked,
  show: (row: DocRow) => T | undefined,
): Promise<Page<T> & { readonly damaged?: readonly Damaged[] }> {
  const most = limitOf(limit, "limit");
  const items: T[] = [];
  const damaged: Damaged[] = [];
  const named = () => (damaged.length === 0 ? undefined : { damaged });
  for (let before = cursor === undefined ? undefined : numberOf(cursor, "d", store.cursorKey); ; ) {
    const rows = await documentsOf(store).list({
      ...of,
      ...(before === undefined ? undefined : { before }),
      limit: most + 1,
    });
    for (const row of rows) {
      // One more is there; whether it will be shown is seen when it is asked for.
      if (items.length === most)
        return { items, ...named(), next: cursorAt(before ?? row.no + 1, "d", store.cursorKey) };
      before = row.no;
      try {
        const shown = show(row);
        if (shown !== undefined) items.push(shown);
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
        damaged.push({ id: row.id, message: error.message });
      }
    }
    if (rows.length <= most) return { items, ...named() };
  }
}
