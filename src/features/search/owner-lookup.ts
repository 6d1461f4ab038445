/**
 * Which session a text is found in: that which owns its branch, or inherits it
 * (`record-owners.ts`). Looked up once for each search.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { RecordOwners } from "../../engine/journal/record-owners.js";
import { headOf, labelOf } from "../../engine/records/rows.js";
import type { BranchRow, SessionRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import type { Hit } from "../../store/search-port.js";

/** What a session must be. */
export interface Wanted {
  readonly agent?: string;
  readonly tag?: string;
}

export class OwnerLookup {
  readonly #store: Store;
  readonly #wanted: Wanted;
  readonly #sessions = new Map<string, SessionRow | undefined>();
  readonly #recordOwners: RecordOwners;

  constructor(store: Store, wanted: Wanted) {
    this.#store = store;
    this.#recordOwners = new RecordOwners(store);
    this.#wanted = wanted;
  }

  /** Undefined where there is none, or it is not one that was asked for. */
  of(hit: Hit): Promise<string | undefined> {
    return hit.kind === "title"
      ? this.#ifWanted(hit.session.id)
      : this.ofRecord(hit.branch, hit.seq);
  }

  /** The same for a record of a branch. One that no session owns is its heir's. */
  async ofRecord({ id, session }: BranchRow, seq: number): Promise<string | undefined> {
    return this.#ifWanted(session ?? (await this.#recordOwners.of(id, seq)));
  }

  async #ifWanted(id: string | undefined): Promise<string | undefined> {
    const { agent, tag } = this.#wanted;
    if (id === undefined || (agent === undefined && tag === undefined)) return id;
    return (await this.wanted(id))?.id;
  }

  /** The row of a session; undefined as above. */
  async wanted(id: string): Promise<SessionRow | undefined> {
    if (!this.#sessions.has(id)) {
      const row = (await this.#store.session(id)).row;
      this.#sessions.set(id, row && isWanted(row, this.#wanted) ? row : undefined);
    }
    return this.#sessions.get(id);
  }
}

/** What is damaged is nobody's that was asked for. */
function isWanted(row: SessionRow, { agent, tag }: Wanted): boolean {
  try {
    return (
      (agent === undefined || headOf(row).agent === agent) &&
      (tag === undefined || labelOf(row).tags.includes(tag))
    );
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return false;
    throw error;
  }
}
