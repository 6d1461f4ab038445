/**
 * Finding in an open index: the best places, and what stands there in the store, which is attached
 * to it. What people wrote never reaches the syntax of FTS5: words hold inbox messages, numbers and
 * marks alone (WORD-5), and stand in quotes.
 */
import type { Phrase, Query } from "../../../../core/search/query.js";
import {
  type FindOptions,
  type Hit,
  type IndexFound,
  isScoped,
  MOST_RANKED,
} from "../../../search-port.js";
import type { Dialect, Param, Row } from "../../database.js";
import { againOf, hitOf, hitParams, isFoundWithin } from "../../hits.js";
import { filtersOf } from "../../search-filters.js";
import { recordOf, sessionWith } from "../../statements.js";
import type { Prepared } from "../driver/prepared.js";
import type { OpenIndex } from "./open-index.js";

const docAt = "SELECT owner, seq, passage FROM doc WHERE no = ?";

interface Ranked {
  readonly no: number;
  readonly score: number;
}

export class Finding {
  readonly #tenant: string;
  readonly #record: string;
  readonly #title = sessionWith("store.");

  constructor(dialect: Dialect, tenant: string) {
    this.#tenant = tenant;
    this.#record = recordOf(dialect, "store.");
  }

  find(index: OpenIndex, query: Query, options: FindOptions): IndexFound {
    const ranked = index.look((statements) => this.#ranked(statements, query, options));
    return {
      count: ranked.length,
      read: async (offset, limit) =>
        index.look((statements) => this.#hits(statements, ranked.slice(offset, offset + limit))),
    };
  }

  /** The best first, and of equals the newer: documents are numbered as they come. */
  #ranked(statements: Prepared, query: Query, options: FindOptions): Ranked[] {
    const { text, params } = documentsWith(this.#tenant, options);
    const all = (rest: string): Row[] => statements.of(text + rest).all(matchOf(query), ...params);
    // Upwards is a sixth faster than downwards; only where there are too many does it matter which
    // are left out.
    let rows = all(` LIMIT ${MOST_RANKED + 1}`);
    if (rows.length > MOST_RANKED) rows = all(` ORDER BY text.rowid DESC LIMIT ${MOST_RANKED}`);
    const isFound = isFoundWithin(options);
    return rows
      .filter(([, , owner, seq]) => isFound(owner as number, seq as number))
      .map(([no, rank]) => ({ no: no as number, score: 0 - (rank as number) }))
      .sort((a, b) => b.score - a.score || b.no - a.no);
  }

  #hits(statements: Prepared, ranked: readonly Ranked[]): readonly (Hit | undefined)[] {
    const hits: (Hit | undefined)[] = [];
    for (const { no, score } of ranked) {
      const doc = statements.of(docAt).get(no) as readonly [number, number, number] | undefined;
      const one = doc && { owner: doc[0], seq: doc[1], passage: doc[2], score };
      hits.push(
        one &&
          (againOf(hits, one) ??
            hitOf(
              one,
              statements
                .of(one.owner < 0 ? this.#title : this.#record)
                .get(...hitParams(one, this.#tenant)),
            )),
      );
    }
    return hits;
  }
}

/**
 * Documents that hold certain words: their numbers and scores, and in a scope their places. The
 * words are the first parameter.
 */
export function documentsWith(
  tenant: string,
  options: FindOptions,
): { readonly text: string; readonly params: readonly Param[] } {
  const { joins, wheres, params } = filtersOf(tenant, options, {
    schema: "store.",
    isIn: (owners) => ["d.owner IN (SELECT value FROM json_each(?))", [JSON.stringify(owners)]],
  });
  const docs = wheres === "" ? "" : ` CROSS JOIN doc d ON d.no = text.rowid${joins}`;
  // INDEX-5: `rank` is over the texts of all.
  const columns = isScoped(options) ? "0, d.owner, d.seq" : "text.rank";
  const text = `SELECT text.rowid, ${columns} FROM text${docs} WHERE text MATCH ?${wheres}`;
  return { text, params };
}

function matchOf({ all, none }: Query): string {
  return `(${all.map(phraseOf).join(" AND ")})${none.map((phrase) => ` NOT ${phraseOf(phrase)}`).join("")}`;
}

const phraseOf = ({ words, prefix }: Phrase): string => `"${words.join(" ")}"${prefix ? "*" : ""}`;
