/**
 * Asking Postgres. Words hold letters, numbers and marks alone (W5): in quotes, nothing of the
 * syntax of tsquery can be made of them.
 */
import { ownScore, Scoring } from "../../../../core/search/match.js";
import type { Phrase, Query } from "../../../../core/search/query.js";
import { type FindOptions, isScoped, MOST_RANKED } from "../../../search-port.js";
import { look } from "../../asks.js";
import type { Ask, Param, Steps } from "../../database.js";
import { bestFirst, type Numbered } from "../../hits.js";
import { asksByWords, asksOneByOne, asksSize } from "./scoped.js";

/** What is looked for, for the policy of the words. */
const looksFor = (words: string): Ask =>
  look("SELECT set_config('holdfast.words', ?, true)", words);

/**
 * Such scans as the index of words needs, and the one of transactions; and no others, whatever is
 * known of a young table.
 */
export const byIndex = look(
  "SELECT set_config('enable_bitmapscan', 'on', true), set_config('enable_seqscan', 'off', true)",
);

/** Said again beside the policy, for roles that are beyond it. */
const isFound = "w.tenant = ? AND w.words @@ CAST(? AS tsquery)";

/** The best first. */
export function* rank(
  tenant: string,
  query: Query,
  options: FindOptions,
): Steps<readonly Numbered[]> {
  return (yield* isScoped(options)
    ? rankInScope(tenant, query, options)
    : rankAll(tenant, query, options)).sort(bestFirst);
}

/** I5: scores take nothing but the text itself. */
function* rankInScope(tenant: string, query: Query, options: FindOptions): Steps<Numbered[]> {
  const isSmall = (yield [...asksSize(tenant, options)]).at(-1)?.[0]?.[0] === 1;
  const words = queryOf(query);
  const often = oftenOf(query);
  const asks = isSmall
    ? asksOneByOne(tenant, words, often, options)
    : [byIndex, asksByWords(tenant, words, often, options)];
  const answers = yield [looksFor(words), ...asks];
  const upTo =
    options.within &&
    new Map([...options.within.lines.values()].map((line) => [line.no, line.upTo]));
  const found: Numbered[] = [];
  for (const [owner, seq, passage, at, length, ...counts] of (answers.at(-1) ??
    []) as readonly number[][]) {
    if (
      upTo !== undefined &&
      (owner as number) > 0 &&
      (seq as number) > (upTo.get(owner as number) ?? 0)
    )
      continue;
    found.push({ owner, seq, passage, at, score: ownScore(counts, length as number) } as Numbered);
  }
  return found;
}

function* rankAll(tenant: string, query: Query, options: FindOptions): Steps<Numbered[]> {
  const corpus = look("SELECT documents, words FROM passage_state WHERE tenant = ?", tenant);
  const counts = query.all.flatMap((phrase) => {
    const words = phraseOf(phrase);
    return [
      looksFor(words),
      look(`SELECT count(*) FROM passage_words w WHERE ${isFound}`, tenant, words),
    ];
  });
  const words = queryOf(query);
  const answers = yield [
    byIndex,
    corpus,
    ...counts,
    looksFor(words),
    asked(tenant, words, query, options),
  ];
  const [documents = 0, total = 0] = (answers[1]?.[0] ?? []) as number[];
  const holds = query.all.map((_, i) => answers[3 + 2 * i]?.[0]?.[0] as number);
  const scoring = new Scoring({ documents, words: total }, holds);
  return ((answers.at(-1) ?? []) as readonly number[][]).map(
    ([owner, seq, passage, at, length, ...often]) =>
      ({ owner, seq, passage, at, score: scoring.score(often, length as number) }) as Numbered,
  );
}

/** How often each phrase is in the words `w`. */
function oftenOf({ all }: Query): { readonly text: string; readonly params: readonly Param[] } {
  const params: Param[] = [];
  const often = all.map(({ words: own, prefix }) => {
    // A word alone is the common case, and counted in a tenth of the time.
    if (own.length === 1 && !prefix) {
      params.push(own[0] as string);
      return "(SELECT cardinality(u.positions) FROM unnest(w.words) AS u WHERE u.lexeme = ?)";
    }
    params.push(arrayOf(own));
    return `occurs(w.words, CAST(? AS text[]), ${prefix})`;
  });
  return { text: often.join(", "), params };
}

function asked(
  tenant: string,
  words: string,
  query: Query,
  { tag, role, since, until }: FindOptions,
): Ask {
  const often = oftenOf(query);
  const params: Param[] = [tenant, words, ...often.params, tenant];
  const wheres: string[] = ["d.tenant = ?"];
  const filter = (where: string, ...values: Param[]) => {
    wheres.push(where);
    params.push(...values);
  };
  // A line that nobody owns is looked at by who asks.
  const orNobodys = "(d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL)";
  if (tag !== undefined)
    filter(
      `(EXISTS (SELECT 1 FROM tag t WHERE t.tenant = ? AND t.tag = ? AND t.session = s.no) OR ${orNobodys})`,
      tenant,
      tag,
    );
  if (role !== undefined) filter("d.role = ?", role);
  if (since !== undefined) filter("d.at >= ?", since);
  if (until !== undefined) filter("d.at < ?", until);
  const sessions =
    tag !== undefined
      ? "LEFT JOIN line l ON l.no = d.owner LEFT JOIN session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END"
      : "";
  // First by the words, whatever a planner thinks: it may know nothing of them yet.
  return look(
    `WITH w AS MATERIALIZED (SELECT w.no, w.words FROM passage_words w WHERE ${isFound})
      SELECT d.owner, d.seq, d.part, d.at, d.length, ${often.text} FROM w JOIN passage d ON d.no = w.no ${sessions} WHERE ${wheres.join(" AND ")} ORDER BY d.no DESC LIMIT ${MOST_RANKED}`,
    ...params,
  );
}

const queryOf = ({ all, none }: Query): string =>
  [...all.map(phraseOf), ...none.map((phrase) => `!(${phraseOf(phrase)})`)].join(" & ");

const phraseOf = ({ words, prefix }: Phrase): string =>
  `(${words.map((word, i) => `'${word}'${prefix && i === words.length - 1 ? ":*" : ""}`).join(" <-> ")})`;

/** Of words or numbers: nothing in them needs to be escaped. */
export const arrayOf = (values: readonly string[]): string =>
  `{${values.map((value) => `"${value}"`).join(",")}}`;
