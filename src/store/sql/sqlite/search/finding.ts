/**
 * Finding in an open index: the best places, and what stands there in the store, which is attached
 * to it.
 */
import type { Query } from "../../../../core/search/query.js";
import type { FindOptions, Hit, IndexFound } from "../../../search-port.js";
import type { Dialect } from "../../database.js";
import { againOf, hitOf, hitParams, type Numbered } from "../../hits.js";
import { recordOf, sessionWith } from "../../statements.js";
import type { Prepared } from "../driver/prepared.js";
import type { OpenIndex } from "./open-index.js";
import { Ranked } from "./ranking.js";

export class Finding {
  readonly #tenant: string;
  readonly #record: string;
  readonly #title = sessionWith("store.");

  constructor(dialect: Dialect, tenant: string) {
    this.#tenant = tenant;
    this.#record = recordOf(dialect, "store.");
  }

  find(index: OpenIndex, query: Query, options: FindOptions): IndexFound {
    const ranked = index.look((statements) => new Ranked(statements, this.#tenant, query, options));
    return {
      count: ranked.count,
      read: async (offset, limit) =>
        index.look((statements) => this.#hits(statements, ranked.page(statements, offset, limit))),
    };
  }

  #hits(
    statements: Prepared,
    places: readonly (Numbered | undefined)[],
  ): readonly (Hit | undefined)[] {
    const hits: (Hit | undefined)[] = [];
    for (const one of places) hits.push(one && (againOf(hits, one) ?? this.#hit(statements, one)));
    return hits;
  }

  #hit(statements: Prepared, one: Numbered): Hit | undefined {
    const statement = statements.of(one.owner < 0 ? this.#title : this.#record);
    return hitOf(one, statement.get(...hitParams(one, this.#tenant)));
  }
}
