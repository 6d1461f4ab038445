/**
 * Asking Postgres. Words hold inbox messages, numbers and marks alone (WORD-5): in quotes, nothing of
 * the syntax of tsquery can be made of them.
 */
import type { Phrase, Query } from "../../../../core/search/query.js";
import { type FindOptions, MOST_RANKED } from "../../../search-port.js";
import type { Procedure } from "../../database.js";
import { isFoundWithin, type Numbered } from "../../hits.js";
import { look } from "../../procedure.js";
import { filtersOf } from "../../search-filters.js";

/**
 * Such scans as the index of words needs, and the one of transactions; and no others, whatever is
 * known of a young table.
 */
export const byIndex = look(
  "SELECT set_config('enable_bitmapscan', 'on', true), set_config('enable_seqscan', 'off', true)",
);

/** The best first, and of equals the newer. `ts_rank` takes nothing but the text itself (INDEX-5). */
export function* rank(
  tenant: string,
  query: Query,
  options: FindOptions,
): Procedure<readonly Numbered[]> {
  const words = queryOf(query);
  const { joins, wheres, params } = filtersOf(tenant, options, {
    schema: "",
    isIn: (owners) => ["d.owner = ANY(CAST(? AS bigint[]))", [arrayOf(owners.map(String))]],
  });
  const answers = yield [
    byIndex,
    // What is looked for, for the policy of the words. It is said again beside the policy, for
    // roles that are beyond it.
    look("SELECT set_config('holdfast.words', ?, true)", words),
    // First by the words, whatever a planner thinks: it may know nothing of them yet.
    look(
      `WITH w AS MATERIALIZED (SELECT w.no, w.words FROM passage_words w WHERE w.tenant = ? AND w.words @@ CAST(? AS tsquery)),
        newest AS (SELECT d.owner, d.seq, d.part, d.at, d.no, w.words FROM w JOIN passage d ON d.no = w.no${joins}
          WHERE d.tenant = ?${wheres} ORDER BY d.at DESC, d.no DESC LIMIT ${MOST_RANKED})
        SELECT owner, seq, part, CAST(score AS text) FROM (SELECT *, ts_rank(words, CAST(? AS tsquery), 1) AS score FROM newest) AS ranked
          ORDER BY ranked.score DESC, at DESC, no DESC`,
      tenant,
      words,
      tenant,
      ...params,
      words,
    ),
  ];
  const isFound = isFoundWithin(options);
  const rows = (answers.at(-1) ?? []) as readonly (readonly [number, number, number, string])[];
  return rows
    .filter(([owner, seq]) => isFound(owner, seq))
    .map(([owner, seq, passage, score]) => ({ owner, seq, passage, score: Number(score) }));
}

const queryOf = ({ all, none }: Query): string =>
  [...all.map(phraseOf), ...none.map((phrase) => `!(${phraseOf(phrase)})`)].join(" & ");

const phraseOf = ({ words, prefix }: Phrase): string =>
  `(${words.map((word, i) => `'${word}'${prefix && i === words.length - 1 ? ":*" : ""}`).join(" <-> ")})`;

/** Of words or numbers: nothing in them needs to be escaped. */
export const arrayOf = (values: readonly string[]): string =>
  `{${values.map((value) => `"${value}"`).join(",")}}`;
