/**
 * What the store has noted for its index: texts that are gone, or another, and sessions whose title
 * may be.
 */

import type { Database } from "../../database.js";
import { change } from "../../procedure.js";

export type Note = GoneNote | SessionNote;

interface GoneNote {
  readonly kind: "gone";
  readonly no: number;
  readonly branch: number;
  readonly first: number;
  readonly last: number;
  /** The highest number of a save that was left. */
  readonly ceiling: number;
}

interface SessionNote {
  readonly kind: "session";
  readonly no: number;
  readonly session: number;
}

const notesAfter =
  "SELECT no, branch, first, last, ceiling, session FROM unindexed WHERE tenant = ? AND no > ? ORDER BY no LIMIT CAST(? AS bigint)";
const lastNote = "SELECT coalesce(max(no), 0) FROM unindexed WHERE tenant = ?";
const dropNotes = "DELETE FROM unindexed WHERE tenant = ? AND no <= ?";

export class Notes {
  readonly #db: Database;
  readonly #tenant: string;

  constructor(db: Database, tenant: string) {
    this.#db = db;
    this.#tenant = tenant;
  }

  async after(no: number, limit: number): Promise<readonly Note[]> {
    const rows = (await this.#db.read(notesAfter, [
      this.#tenant,
      no,
      limit,
    ])) as readonly (readonly number[])[];
    return rows.map(
      ([own, branch, first, last, ceiling, session]) =>
        (branch === null
          ? { kind: "session", no: own, session }
          : { kind: "gone", no: own, branch, first, last, ceiling }) as Note,
    );
  }

  async last(): Promise<number> {
    return (await this.#db.read(lastNote, [this.#tenant]))[0]?.[0] as number;
  }

  async drop(upTo: number): Promise<void> {
    const tenant = this.#tenant;
    await this.#db.write({
      locks: [],
      *steps() {
        yield [change(dropNotes, tenant, upTo)];
      },
      refused: () => false,
    });
  }
}
