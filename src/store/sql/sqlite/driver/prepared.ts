/** The statements of one connection, each prepared once. */
import type { Driver, Statement } from "./driver.js";

export class Prepared {
  readonly #db: Driver;
  readonly #statements = new Map<string, Statement>();

  constructor(db: Driver) {
    this.#db = db;
  }

  of(text: string): Statement {
    let statement = this.#statements.get(text);
    if (statement === undefined) {
      statement = this.#db.prepare(text);
      this.#statements.set(text, statement);
    }
    return statement;
  }
}
