/** A real driver whose n-th call fails, shaped as SQLite's failures are. */
import type { Param } from "../../../src/store/sql/database.js";
import type { Driver, Statement } from "../../../src/store/sql/sqlite/driver/driver.js";

export interface Fault {
  readonly name: string;
  readonly code: string | undefined;
  /** SQLite takes the transaction back by itself before it reports some failures. */
  readonly rollsBack: boolean;
  /** The call does its work and then reports the failure. */
  readonly after: boolean;
  /** Every call from the n-th on fails, too. */
  readonly forever: boolean;
}

const fault = (name: string, code: string | undefined, how: Partial<Fault> = {}): Fault => ({
  name,
  code,
  rollsBack: false,
  after: false,
  forever: false,
  ...how,
});

export const faults: readonly Fault[] = [
  fault("busy once", "SQLITE_BUSY"),
  fault("busy for ever", "SQLITE_BUSY", { forever: true }),
  fault("full, rolled back", "SQLITE_FULL", { rollsBack: true }),
  fault("full, transaction standing", "SQLITE_FULL"),
  fault("full for ever", "SQLITE_FULL", { rollsBack: true, forever: true }),
  fault("sync failed, rolled back", "SQLITE_IOERR_FSYNC", { rollsBack: true }),
  fault("sync failed, transaction standing", "SQLITE_IOERR_FSYNC"),
  fault("sync failed after the work", "SQLITE_IOERR_FSYNC", { after: true }),
  fault("sync failed for ever", "SQLITE_IOERR_FSYNC", { forever: true }),
  fault("damaged page", "SQLITE_CORRUPT"),
  fault("plain error", undefined),
  fault("plain error after the work", undefined, { after: true }),
  fault("plain error for ever", undefined, { forever: true }),
];

/** Calls are counted from `arm` on. */
export class FaultyDriver implements Driver {
  readonly name;
  readonly #db: Driver;
  readonly #liesAboutTransactions: boolean;
  #fault: Fault | undefined;
  #left = 0;
  /** Calls since it was armed, and what they were. */
  calls: string[] = [];
  /** Calls that reached the database after the failure. */
  after: string[] = [];
  fired = false;

  constructor(db: Driver, { liesAboutTransactions = false } = {}) {
    this.#db = db;
    this.name = db.name;
    this.#liesAboutTransactions = liesAboutTransactions;
  }

  arm(n: number, what: Fault | undefined): void {
    this.#left = n;
    this.#fault = what;
    this.calls = [];
    this.after = [];
    this.fired = false;
  }

  disarm(): void {
    this.#fault = undefined;
  }

  #call<T>(what: string, run: () => T): T {
    this.calls.push(what);
    if (this.#fault === undefined) {
      if (this.fired) this.after.push(what);
      return run();
    }
    this.#left -= 1;
    if (this.#left > 0 || (this.#left < 0 && !this.#fault.forever)) {
      if (this.fired) this.after.push(what);
      return run();
    }
    const { code, after, rollsBack } = this.#fault;
    // Taking back needs no lock: it is never busy.
    if (code === "SQLITE_BUSY" && what === "run ROLLBACK") return run();
    this.fired = true;
    if (after) run();
    if (rollsBack && this.#db.inTransaction) this.#db.exec("ROLLBACK");
    throw Object.assign(
      new Error(`injected ${code ?? "failure"} at ${what}`),
      code === undefined ? {} : { code },
    );
  }

  prepare(sql: string): Statement {
    const short = sql.trim().slice(0, 30);
    const statement = this.#call(`prepare ${short}`, () => this.#db.prepare(sql));
    return {
      run: (...params: Param[]) => this.#call(`run ${short}`, () => statement.run(...params)),
      all: (...params: Param[]) => this.#call(`all ${short}`, () => statement.all(...params)),
      get: (...params: Param[]) => this.#call(`get ${short}`, () => statement.get(...params)),
    };
  }

  exec(sql: string): void {
    this.#call(`exec ${sql}`, () => this.#db.exec(sql));
  }

  get inTransaction(): boolean {
    return this.#liesAboutTransactions ? false : this.#db.inTransaction;
  }

  copyTo(path: string, pages: number, step: (done: number, of: number) => void): Promise<void> {
    return this.#db.copyTo(path, pages, step);
  }

  close(): void {
    this.#db.close();
  }
}
