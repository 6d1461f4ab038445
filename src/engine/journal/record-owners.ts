/**
 * Whose a record is that stands on a branch which no session owns: its session was deleted, or the
 * branch came with a fork. It belongs to the session of the oldest branch that goes on from it.
 * Where there is none, it belongs to no session.
 */
import type { Store } from "../../store/port.js";

const ROWS = 50;

/** What is known of a branch: up to which record each session inherits it, by rising number. */
interface Known {
  readonly steps: { readonly upTo: number; readonly session: string }[];
  /** The number of the last branch that was looked at. */
  after: number;
  isWhole: boolean;
}

/**
 * Looks at the branches that go on from another, oldest first, and at no more of them than the
 * answer takes. Made anew for each question.
 */
export class RecordOwners {
  readonly #store: Store;
  readonly #without: ReadonlySet<string>;
  readonly #known = new Map<string, Known>();

  /** `without`: sessions that are about to go, and inherit nothing. */
  constructor(store: Store, without: ReadonlySet<string> = new Set()) {
    this.#store = store;
    this.#without = without;
  }

  async of(branch: string, seq: number): Promise<string | undefined> {
    const known = this.#known.get(branch) ?? { steps: [], after: 0, isWhole: false };
    this.#known.set(branch, known);
    for (;;) {
      const step = known.steps.find(({ upTo }) => seq <= upTo);
      if (step !== undefined || known.isWhole) return step?.session;
      await this.#more(branch, known);
    }
  }

  async #more(branch: string, known: Known): Promise<void> {
    const rows = await this.#store.branches({
      kind: "later-forks",
      of: branch,
      after: known.after,
      limit: ROWS,
    });
    known.isWhole = rows.length < ROWS;
    for (const { id, no, forkPoint, session } of rows) {
      known.after = no;
      const upTo = forkPoint?.seq ?? 0;
      // An older one inherits as much.
      if (upTo <= (known.steps.at(-1)?.upTo ?? 0)) continue;
      const heir = session !== null && !this.#without.has(session) ? session : await this.of(id, 0);
      if (heir !== undefined) known.steps.push({ upTo, session: heir });
    }
  }
}
