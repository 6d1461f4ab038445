/** What every part of an open SQL store reads and writes the rows of its tenant by. */
import { storeClosed } from "../refusals.js";
import type { Database, Job, Param, Row } from "./database.js";
import type { Statements } from "./statements.js";

export class Access {
  readonly gone?: AbortSignal;
  readonly db: Database;
  readonly sql: Statements;
  readonly tenant: string;
  protected isClosed = false;

  constructor(db: Database, sql: Statements, tenant: string) {
    this.db = db;
    if (db.gone) this.gone = db.gone;
    this.sql = sql;
    this.tenant = tenant;
  }

  read(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.isClosed ? Promise.reject(storeClosed()) : this.db.read(statement, params);
  }

  /** It goes over much of the store, and may take its time. */
  readLong(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.isClosed ? Promise.reject(storeClosed()) : this.db.read(statement, params, "long");
  }

  async write<T>(job: Job<T>): Promise<T> {
    this.checkOpen();
    return this.db.write(job);
  }

  checkOpen(): void {
    if (this.isClosed) throw storeClosed();
    this.gone?.throwIfAborted();
  }
}
