/**
 * Searching what one agent, or one session, has (I5). The texts of a scope that is small are gone
 * over one by one, so that the work says nothing of other texts. One that is larger is found by its
 * words: then texts of others that hold them are passed over, which takes time.
 */
import { ownScore } from "../../../../core/search/match.js";
import type { Query } from "../../../../core/search/query.js";
import { type FindOptions, MOST_RANKED } from "../../../search-port.js";
import type { Row } from "../../database.js";
import type { Prepared } from "../driver/prepared.js";
import { Phrases } from "./phrases.js";
import { scopeStatements } from "./scope-statements.js";

/** The numbers of documents that were found, with their scores. `match` is what FTS5 is asked. */
export function scoredInScope(
  statements: Prepared,
  tenant: string,
  query: Query,
  match: string,
  options: FindOptions,
) {
  const { isLarge, oneByOne, byWords, newestByWords } = scopeStatements(tenant, options);
  const isSmall = statements.of(isLarge.text).get(...isLarge.params)?.[0] !== 1;
  let rows: readonly Row[];
  if (isSmall) rows = statements.of(oneByOne.text).all(...oneByOne.params);
  else {
    rows = statements.of(byWords.text).all(match, ...byWords.params);
    if (rows.length > MOST_RANKED)
      rows = statements.of(newestByWords.text).all(match, ...newestByWords.params);
  }
  const phrases = new Phrases(statements, query);
  const upTo =
    options.within &&
    new Map([...options.within.lines.values()].map((line) => [line.no, line.upTo]));
  const scored: { no: number; score: number }[] = [];
  for (const [no, owner, seq, words] of rows) {
    if (
      upTo !== undefined &&
      (owner as number) > 0 &&
      (seq as number) > (upTo.get(owner as number) ?? 0)
    )
      continue;
    const counted = phrases.count(words as Uint8Array);
    if (counted !== undefined)
      scored.push({ no: no as number, score: ownScore(counted.frequencies, counted.length) });
  }
  return scored;
}
