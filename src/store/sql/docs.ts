/** Changing documents, and what they pin, as steps. */
import type { Refusal } from "../port/changes.js";
import type { DocChange } from "../port/documents.js";
import { change, look, row } from "./asks.js";
import type { Steps } from "./database.js";
import type { Statements } from "./statements.js";

export class Docs {
  readonly #sql: Statements;
  readonly #tenant: string;

  constructor(sql: Statements, tenant: string) {
    this.#sql = sql;
    this.#tenant = tenant;
  }

  *apply({ kind, id, when, put, remove }: DocChange): Steps<Refusal | undefined> {
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
        : yield pins.map(({ line, seq }) => look(this.#sql.saveAt, this.#tenant, line, seq));
    if (places.some((found) => found.length === 0)) return "origin";
    const made = yield* row(this.#sql.insertDoc, this.#tenant, kind, id, of, version, text, body);
    if (made === undefined) return "exists";
    if (pins.length > 0)
      yield pins.map(({ line, seq }) =>
        change(this.#sql.insertPin, this.#tenant, line, seq, made[0] as number),
      );
    return undefined;
  }

  *isDone({ kind, id, put, remove }: DocChange): Steps<boolean> {
    const there = yield* row(this.#sql.doc, this.#tenant, kind, id);
    if (put !== undefined) return there?.[TEXT] === put.text;
    // Without either it was only a condition.
    return remove !== true || there === undefined;
  }
}

/** In the order of the statement's columns. */
const VERSION = 4;
const TEXT = 5;
