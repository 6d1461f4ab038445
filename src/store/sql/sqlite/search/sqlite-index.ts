/**
 * The index for search of a SQLite store: full text in FTS5, in a file of its own
 * (`index-file.ts`), which is opened, left and made anew here.
 */
import { randomBytes } from "node:crypto";
import type { Query } from "../../../../core/search/query.js";
import type {
  Document,
  FindOptions,
  Fresh,
  IndexFound,
  SearchIndex,
} from "../../../search-port.js";
import type { Database } from "../../database.js";
import { indexKey } from "../../index-notes.js";
import { change } from "../../procedure.js";
import { type Statements, statementsIn } from "../../statements.js";
import { Filling } from "./filling.js";
import { Finding } from "./finding.js";
import { forgetForGood } from "./forgetting.js";
import { IndexFile, type IndexPlace } from "./index-file.js";
import { Notes } from "./notes.js";
import { notOpen, OpenIndex } from "./open-index.js";

interface Open {
  /** The one that the store takes notes for. */
  readonly name: string;
  readonly index: OpenIndex;
  readonly filling: Filling;
}

export class SqliteIndex implements SearchIndex {
  readonly #db: Database;
  readonly #sql: Statements;
  readonly #place: IndexPlace;
  readonly #storeId: string;
  readonly #notes: Notes;
  readonly #finding: Finding;
  #open: Open | undefined;
  #beginning: Promise<void> | undefined;
  #isKept: boolean | undefined;
  #closed = false;

  constructor(db: Database, place: IndexPlace, storeId: string) {
    this.#db = db;
    this.#sql = statementsIn(db.dialect);
    this.#place = place;
    this.#storeId = storeId;
    this.#notes = new Notes(db, place.tenant);
    this.#finding = new Finding(db.dialect, place.tenant);
  }

  /** Looked up once: who begins one later keeps it up, too. */
  async exists(): Promise<boolean> {
    this.#isKept ??= (await this.#name()) !== undefined;
    if (this.#isKept) await this.begin(false);
    return this.#isKept;
  }

  begin(anew: boolean): Promise<void> {
    if (!anew && this.#open?.index.isThere) return Promise.resolve();
    const begun = (this.#beginning ?? Promise.resolve())
      .catch(() => {})
      .then(() => this.#begin(anew))
      .finally(() => {
        if (this.#beginning === begun) this.#beginning = undefined;
      });
    this.#beginning = begun;
    return begun;
  }

  async #begin(anew: boolean): Promise<void> {
    if (this.#closed || (!anew && this.#open?.index.isThere)) return;
    this.#leave();
    // From here on the store notes what goes.
    if ((await this.#name()) === undefined) await this.#noteFromNowOn();
    this.#isKept = true;
    const { filling } = await this.#enter(anew);
    if (!(await filling.isOfAnotherTime())) return;
    this.#leave();
    await this.#enter(true);
  }

  async #enter(anew: boolean): Promise<Open> {
    const [born] = await this.#db.read(this.#sql.generation, []);
    const name = String(await this.#name());
    const note = await this.#notes.last();
    const index = new OpenIndex(
      this.#place,
      `${this.#storeId} ${String(born?.[0] ?? "")} ${name}`,
      anew,
      note,
    );
    this.#open = {
      name,
      index,
      filling: new Filling(this.#db, this.#place.tenant, this.#notes, index),
    };
    return this.#open;
  }

  async #name(): Promise<string | undefined> {
    return (await this.#db.read(this.#sql.indexName, [indexKey(this.#place.tenant)]))[0]?.[0] as
      | string
      | undefined;
  }

  /**
   * One that was given up, for more was noted than anybody took in, is made anew: nobody knows what
   * it should have forgotten.
   */
  async #renew(): Promise<void> {
    if (this.#open === undefined || this.#open.name === (await this.#name())) return;
    this.#leave();
    await this.begin(false);
  }

  async #noteFromNowOn(): Promise<void> {
    const begins = change(
      this.#sql.beginIndex,
      indexKey(this.#place.tenant),
      randomBytes(8).toString("hex"),
    );
    await this.#db.write({
      locks: [],
      *steps() {
        yield [begins];
      },
      refused: () => false,
    });
  }

  async behind(): Promise<number> {
    return this.#opened().filling.behind();
  }

  async missing(): Promise<number> {
    return this.#opened().filling.missing();
  }

  async next(limit: number): Promise<Fresh> {
    await this.#renew();
    return this.#opened().filling.next(limit);
  }

  async put(fresh: Fresh, documents: readonly Document[], done: boolean): Promise<boolean> {
    return this.#opened().filling.put(fresh, documents, done);
  }

  async find(query: Query, options: FindOptions): Promise<IndexFound> {
    return this.#finding.find(this.#opened().index, query, options);
  }

  async purge(): Promise<void> {
    // Asked anew: another process may have begun it.
    if ((await this.#name()) === undefined) {
      this.#leave();
      return IndexFile.discard(this.#place);
    }
    await this.#renew();
    await this.begin(false);
    await forgetForGood(this.#opened().index, this.#notes);
  }

  #opened(): Open {
    if (!this.#open?.index.isOpen) throw notOpen();
    return this.#open;
  }

  #leave(): void {
    this.#open?.index.close();
    this.#open = undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#beginning?.catch(() => {});
    this.#leave();
  }
}
