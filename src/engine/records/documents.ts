/** Going over documents beside the sessions. */
import { documentsOf } from "../../store/capabilities.js";
import type { DocRow } from "../../store/port/documents.js";
import type { Store } from "../../store/port.js";

const AT_ONCE = 500;

/** All documents of a kind, or those of one owner, newest first; read in pages. */
export async function* documents(
  store: Store,
  of: { readonly kind: string; readonly of?: string },
): AsyncGenerator<DocRow> {
  for (let before: number | undefined; ; ) {
    const rows: readonly DocRow[] = await documentsOf(store).list({
      ...of,
      ...(before === undefined ? undefined : { before }),
      limit: AT_ONCE,
    });
    yield* rows;
    before = rows.at(-1)?.no;
    if (rows.length < AT_ONCE) return;
  }
}
