/** Going over the rows of sessions. */
import type { SessionRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";

interface Which {
  readonly agent?: string | undefined;
  readonly before?: number | undefined;
}

/** All sessions, those of an agent, or those before a number, newest first; read in pages. */
export async function* sessionRows(
  store: Store,
  { agent, before: first }: Which = {},
  limit = 500,
): AsyncGenerator<SessionRow> {
  const of = agent === undefined ? { limit } : { agent, limit };
  for (let before = first; ; ) {
    const rows: readonly SessionRow[] = await store.sessions(
      before === undefined ? of : { ...of, before },
    );
    yield* rows;
    before = rows.at(-1)?.no;
    if (rows.length < limit) return;
  }
}
