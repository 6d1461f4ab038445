/** Changing documents, and what they pin, as procedures. */
import type { Refusal } from "../port/changes.js";
import type { DocChange, StoreDocuments } from "../port/documents.js";
import type { Access } from "./access.js";
import type { Procedure } from "./database.js";
import { change, look, row } from "./procedure.js";
import { docRow, docWithBody } from "./rows.js";
import { docsBy, type Statements } from "./statements.js";
import type { Writer } from "./writer.js";

export class Docs {
  readonly #sql: Statements;
  readonly #tenant: string;

  constructor(sql: Statements, tenant: string) {
    this.#sql = sql;
    this.#tenant = tenant;
  }

  *apply({ kind, id, when, put, remove }: DocChange): Procedure<Refusal | undefined> {
    const there = yield* row(this.#sql.docToChange, this.#tenant, kind, id);
    if (when.absent && there !== undefined) return "exists";
    if (!when.absent && there === undefined) return "absent";
    if (when.version !== undefined && there?.[VERSION] !== when.version) return "version";
    if (remove && there !== undefined) {
      const { spendDoc, deletePins, deleteDoc } = this.#sql;
      yield [spendDoc, deletePins, deleteDoc].flatMap((text) =>
        text ? change(text, there[0] as number) : [],
      );
    }
    if (put === undefined) return undefined;
    const { of, version, text, body, pins } = put;
    if (there !== undefined && !remove) {
      yield [change(this.#sql.updateDoc, of, version, text, body, there[0] as number)];
      return undefined;
    }
    const places =
      pins.length === 0
        ? []
        : yield pins.map(({ branch, seq }) => look(this.#sql.saveAt, this.#tenant, branch, seq));
    if (places.some((found) => found.length === 0)) return "forkPoint";
    const made = yield* row(this.#sql.insertDoc, this.#tenant, kind, id, of, version, text, body);
    if (made === undefined) return "exists";
    if (pins.length > 0)
      yield pins.map(({ branch, seq }) =>
        change(this.#sql.insertPin, this.#tenant, branch, seq, made[0] as number),
      );
    return undefined;
  }

  *isDone({ kind, id, put, remove }: DocChange): Procedure<boolean> {
    const there = yield* row(this.#sql.doc, this.#tenant, kind, id);
    if (put !== undefined) return there?.[TEXT] === put.text;
    // Without either it was only a condition.
    return remove !== true || there === undefined;
  }
}

export const documentsOf = (store: Access, writer: Writer): StoreDocuments => ({
  async get(kind, id) {
    const row = (await store.read(store.sql.doc, store.tenant, kind, id))[0];
    return row && docWithBody(row);
  },
  async list({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }) {
    const filters = of === undefined ? [] : [of];
    const statement = docsBy({ of: of !== undefined });
    return (await store.read(statement, store.tenant, kind, ...filters, before, limit)).map(docRow);
  },
  async pins(branch) {
    return (await store.read(store.sql.pins, store.tenant, branch)).map(([seq, doc]) => ({
      seq: seq as number,
      doc: doc as number,
    }));
  },
  capture: (query, decide) =>
    store.write(
      writer.capture(query, decide, store.db.lockAll, ({ changes }, begun) =>
        store.db.applied(changes, begun),
      ),
    ),
});

/** In the order of the statement's columns. */
const VERSION = 4;
const TEXT = 5;
