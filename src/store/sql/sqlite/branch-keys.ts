/**
 * What this process knows of branches, so that it need not look again: their numbers, and where
 * those it writes end.
 */
import type { Driver } from "./driver/driver.js";
import type { Prepared } from "./driver/prepared.js";

export interface BranchKey {
  readonly no: number;
  readonly forkSeq: number;
  /**
   * Where the branch ended after this process's last save on it, by which session and epoch. As
   * long as that epoch stands nobody else can have added to it, so the next save need not look.
   */
  end:
    | {
        readonly id: string;
        readonly session: number;
        readonly epoch: number;
        readonly seq: number;
      }
    | undefined;
}

const branchKey = "SELECT no, fork_seq FROM branch WHERE tenant = ? AND id = ?";
const MAX_KEYS = 50_000;

export class BranchKeys {
  readonly #db: Driver;
  readonly #statements: Prepared;
  readonly #tenant: string;
  readonly #keys = new Map<string, BranchKey>();

  constructor(db: Driver, statements: Prepared, tenant: string) {
    this.#db = db;
    this.#statements = statements;
    this.#tenant = tenant;
  }

  /** Undefined where there is no such branch. Throws what the driver throws. */
  of(id: string): BranchKey | undefined {
    const known = this.#keys.get(id);
    if (known) return known;
    const row = this.#statements.of(branchKey).get(this.#tenant, id);
    if (row === undefined) return undefined;
    const key: BranchKey = { no: row[0] as number, forkSeq: row[1] as number, end: undefined };
    // Inside a transaction the branch may yet be taken back.
    if (!this.#db.inTransaction) this.remember(id, key);
    return key;
  }

  remember(id: string, key: BranchKey): void {
    if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
    this.#keys.set(id, key);
  }

  /** Says where a branch ends now, or, with undefined, that it must be looked up. */
  endsAt(id: string, end: BranchKey["end"]): void {
    const key = this.#keys.get(id);
    if (key !== undefined) key.end = end;
  }

  forget(id: string): void {
    this.#keys.delete(id);
  }
}
