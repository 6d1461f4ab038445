/**
 * Asking FTS5. What people wrote never reaches its syntax: words hold letters, numbers and marks
 * alone (W5), and stand in quotes.
 */
import { rounded } from "../../../../core/search/match.js";
import type { Phrase, Query } from "../../../../core/search/query.js";
import { type FindOptions, isScoped, MOST_RANKED } from "../../../search-port.js";
import type { Param } from "../../database.js";
import { bestFirst, type Numbered } from "../../hits.js";
import type { Prepared } from "../driver/prepared.js";
import { scoredInScope } from "./scoped.js";

const docAt = "SELECT owner, seq, passage, at FROM doc WHERE no = ?";

interface Scored {
  readonly no: number;
  readonly score: number;
}

/**
 * The documents that were found, by their scores. Where they are of is only looked up for those
 * that somebody wants to see.
 */
export class Ranked {
  readonly #scored: readonly Scored[];
  /** Where those up to `#known` are of, as far as anybody has asked. */
  readonly #places: Numbered[] = [];
  #known: number | undefined;

  constructor(statements: Prepared, tenant: string, query: Query, options: FindOptions) {
    const scored = isScoped(options)
      ? scoredInScope(statements, tenant, query, matchOf(query), options)
      : ranked(statements, query, options);
    this.#scored = scored.sort((a, b) => b.score - a.score);
  }

  get count(): number {
    return this.#scored.length;
  }

  /** Pages are asked for in their order. Undefined: it is not there any more. */
  page(statements: Prepared, offset: number, limit: number): readonly (Numbered | undefined)[] {
    const end = Math.min(offset + limit, this.count);
    this.#known ??= this.#firstOfEquals(offset);
    while (this.#known < end) this.#known = this.#order(statements, this.#known);
    return Array.from({ length: Math.max(0, end - offset) }, (_, i) => this.#places[offset + i]);
  }

  #firstOfEquals(offset: number): number {
    let first = Math.min(offset, this.count);
    while (first > 0 && this.#scored[first - 1]?.score === this.#scored[first]?.score) first -= 1;
    return first;
  }

  /**
   * Those with the score of this one, from the first of them on, in the order of where they are of.
   * Answers where they end.
   */
  #order(statements: Prepared, first: number): number {
    const score = this.#scored[first]?.score;
    const equals: Numbered[] = [];
    let end = first;
    for (; this.#scored[end]?.score === score && end < this.count; end++) {
      const found = statements.of(docAt).get((this.#scored[end] as Scored).no) as
        | readonly number[]
        | undefined;
      if (found === undefined) continue;
      const [owner, seq, passage, at] = found;
      equals.push({ owner, seq, passage, at, score } as Numbered);
    }
    for (const [i, place] of equals.sort(bestFirst).entries()) this.#places[first + i] = place;
    return end;
  }
}

function ranked(statements: Prepared, query: Query, options: FindOptions): Scored[] {
  const { text, params } = asked(query, options);
  // Upwards is a sixth faster than downwards; only where there are too many does it matter which
  // are left out.
  let rows = statements.of(`${text} LIMIT ${MOST_RANKED + 1}`).all(...params);
  if (rows.length > MOST_RANKED)
    rows = statements.of(`${text} ORDER BY text.rowid DESC LIMIT ${MOST_RANKED}`).all(...params);
  return rows.map(([no, score]) => ({ no: no as number, score: rounded(-(score as number)) }));
}

function asked(
  query: Query,
  { tag, role, since, until }: FindOptions,
): { readonly text: string; readonly params: Param[] } {
  const params: Param[] = [matchOf(query)];
  const wheres = ["text MATCH ?"];
  const filter = (where: string, ...values: Param[]) => {
    wheres.push(where);
    params.push(...values);
  };
  // A line that nobody owns is looked at by who asks.
  const orNobodys = "(d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL)";
  if (tag !== undefined)
    filter(
      `(EXISTS (SELECT 1 FROM store.tag t WHERE t.tag = ? AND t.session = s.no) OR ${orNobodys})`,
      tag,
    );
  if (role !== undefined) filter("d.role = ?", role);
  if (since !== undefined) filter("d.at >= ?", since);
  if (until !== undefined) filter("d.at < ?", until);
  const docs = wheres.length > 1 ? " CROSS JOIN doc d ON d.no = text.rowid" : "";
  const sessions =
    tag === undefined
      ? ""
      : " LEFT JOIN store.line l ON l.no = d.owner LEFT JOIN store.session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END";
  return {
    text: `SELECT text.rowid, text.rank FROM text${docs}${sessions} WHERE ${wheres.join(" AND ")}`,
    params,
  };
}

function matchOf({ all, none }: Query): string {
  return `(${all.map(phraseOf).join(" AND ")})${none.map((phrase) => ` NOT ${phraseOf(phrase)}`).join("")}`;
}

const phraseOf = ({ words, prefix }: Phrase): string => `"${words.join(" ")}"${prefix ? "*" : ""}`;
