/** Asking FTS5. What people wrote never reaches its syntax: words hold letters, numbers and marks alone (W5), and stand in quotes. */
import { rounded } from "../../../../core/search/match.js";
import type { Phrase, Query } from "../../../../core/search/query.js";
import { type FindOptions, MOST_RANKED } from "../../../search-port.js";
import type { Param } from "../../database.js";
import { bestFirst, type Numbered } from "../../hits.js";
import type { Prepared } from "../prepared.js";

const docAt = "SELECT owner, seq, passage, at FROM doc WHERE no = ?";

/** The best, from the `offset`th on, and whether there are more. */
export function rank(
  statements: Prepared,
  query: Query,
  options: FindOptions,
): { readonly best: readonly Numbered[]; readonly more: boolean } {
  const { text, params } = asked(query, options);
  // Upwards is a sixth faster than downwards; only where there are too many does it matter which are left out.
  let rows = statements.of(`${text} LIMIT ${MOST_RANKED + 1}`).all(...params);
  if (rows.length > MOST_RANKED) rows = statements.of(`${text} ORDER BY text.rowid DESC LIMIT ${MOST_RANKED}`).all(...params);
  const { within, offset, limit } = options;
  if (within !== undefined) {
    const upTo = new Map([...within.lines.values()].map((line) => [line.no, line.upTo]));
    rows = rows.filter(([, , owner, seq]) => (owner as number) < 0 || (seq as number) <= (upTo.get(owner as number) ?? 0));
  }
  const scored = rows.map(([no, score]) => ({ no: no as number, score: rounded(-(score as number)) })).sort((a, b) => b.score - a.score);
  // Those with the same score as the first or the last are of the page too, until it is known which of them come first.
  let first = Math.min(offset, scored.length);
  let last = Math.min(offset + limit, scored.length);
  while (first > 0 && scored[first - 1]?.score === scored[first]?.score) first -= 1;
  while (last > 0 && last < scored.length && scored[last]?.score === scored[last - 1]?.score) last += 1;
  const found = scored.slice(first, last).map(({ no, score }) => {
    const [owner, seq, passage, at] = statements.of(docAt).get(no) as number[];
    return { owner, seq, passage, at, score } as Numbered;
  });
  return { best: found.sort(bestFirst).slice(offset - first, offset - first + limit), more: scored.length > offset + limit };
}

function asked(query: Query, { within, agent, tag, role, since, until }: FindOptions): { readonly text: string; readonly params: Param[] } {
  const params: Param[] = [matchOf(query)];
  const wheres = ["text MATCH ?"];
  const filter = (where: string, ...values: Param[]) => {
    wheres.push(where);
    params.push(...values);
  };
  const ofSession = agent !== undefined || tag !== undefined;
  // A line that nobody owns is looked at by who asks.
  const orNobodys = "(d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL)";
  if (within !== undefined) {
    const owners = JSON.stringify([...within.lines.values()].map(({ no }) => no));
    filter("(d.owner IN (SELECT value FROM json_each(?)) OR d.owner < 0)", owners);
  }
  if (agent !== undefined) filter(`(s.agent = ? OR ${orNobodys})`, agent);
  if (tag !== undefined) filter(`(EXISTS (SELECT 1 FROM store.tag t WHERE t.tag = ? AND t.session = s.no) OR ${orNobodys})`, tag);
  if (role !== undefined) filter("d.role = ?", role);
  if (since !== undefined) filter("d.at >= ?", since);
  if (until !== undefined) filter("d.at < ?", until);
  const docs = wheres.length > 1 ? " CROSS JOIN doc d ON d.no = text.rowid" : "";
  const sessions = ofSession
    ? " LEFT JOIN store.line l ON l.no = d.owner LEFT JOIN store.session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END"
    : "";
  return {
    text: `SELECT text.rowid, text.rank${docs && ", d.owner, d.seq"} FROM text${docs}${sessions} WHERE ${wheres.join(" AND ")}`,
    params,
  };
}

function matchOf({ all, none }: Query): string {
  return `(${all.map(phraseOf).join(" AND ")})${none.map((phrase) => ` NOT ${phraseOf(phrase)}`).join("")}`;
}

const phraseOf = ({ words, prefix }: Phrase): string => `"${words.join(" ")}"${prefix ? "*" : ""}`;
