/**
 * Searching what one agent, or one session, has (I5). The texts of a scope that is small are gone
 * over one by one, so that the work says nothing of other texts. One that is larger is found by its
 * words: then texts of others that hold them are passed over, which takes time.
 */
import { type FindOptions, MOST_GONE_OVER, MOST_RANKED } from "../../../search-port.js";
import { look } from "../../asks.js";
import type { Ask, Param } from "../../database.js";
import { filtersOf, type Sql } from "../../search-filters.js";

/**
 * By the owner of a text and then its number, and by nothing that is kept by words: those may be
 * others'.
 */
const byOwner = look(
  "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)",
);

/** Asks whether a scope is small: 1, or 0. The answer is the last. */
export function asksSize(tenant: string, options: FindOptions): readonly Ask[] {
  const { text, params } = ownersOf(tenant, options);
  const some = `SELECT 1 FROM (${text}) AS o JOIN passage d ON d.tenant = ? AND d.owner = o.owner LIMIT ${MOST_GONE_OVER + 1}`;
  return [
    byOwner,
    look(
      `SELECT CAST(count(*) <= ${MOST_GONE_OVER} AS integer) FROM (${some}) AS few`,
      ...params,
      tenant,
    ),
  ];
}

/** Asks for the texts of a small scope. `often` says how often each phrase is in the words `w`. */
export function asksOneByOne(
  tenant: string,
  words: string,
  often: Sql,
  options: FindOptions,
): readonly Ask[] {
  const owners = ownersOf(tenant, options);
  const filters = filtersOf(options);
  return [
    byOwner,
    look(
      `WITH o AS MATERIALIZED (${owners.text}),
        d AS MATERIALIZED (SELECT d.* FROM o JOIN passage d ON d.tenant = ? AND d.owner = o.owner${filters.text})
        SELECT d.owner, d.seq, d.part, d.at, d.length, ${often.text} FROM d JOIN passage_words w ON w.no = d.no
        WHERE w.tenant = ? AND w.words @@ CAST(? AS tsquery)`,
      ...owners.params,
      tenant,
      ...filters.params,
      ...often.params,
      tenant,
      words,
    ),
  ];
}

/** Asks for the texts of a large one, by their words. Of more than are ranked the newest. */
export function asksByWords(tenant: string, words: string, often: Sql, options: FindOptions): Ask {
  const { within, agent = "", tag } = options;
  const filters = filtersOf(options);
  const scope: Sql =
    within === undefined
      ? {
          text: `((s.agent = ?${tagged(tag)}) OR (d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL AND EXISTS (WITH RECURSIVE later (id, session) AS (
            SELECT l.id, l.session UNION SELECT c.id, c.session FROM later p JOIN line c ON c.tenant = ? AND c.origin_line = p.id)
            SELECT 1 FROM later JOIN session h ON h.no = later.session WHERE h.agent = ?)))`,
          params: [agent, ...(tag === undefined ? [] : [tenant, tag]), tenant, agent],
        }
      : { text: "d.owner = ANY(CAST(? AS bigint[]))", params: [ownersWithin(within)] };
  return look(
    `WITH w AS MATERIALIZED (SELECT w.no, w.words FROM passage_words w WHERE w.tenant = ? AND w.words @@ CAST(? AS tsquery))
      SELECT d.owner, d.seq, d.part, d.at, d.length, ${often.text} FROM w JOIN passage d ON d.no = w.no
      LEFT JOIN line l ON l.no = d.owner LEFT JOIN session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END
      WHERE d.tenant = ?${filters.text} AND ${scope.text} ORDER BY d.no DESC LIMIT ${MOST_RANKED}`,
    tenant,
    words,
    ...often.params,
    tenant,
    ...filters.params,
    ...scope.params,
  );
}

/**
 * Lines of the agent's sessions, the sessions for their titles, and lines that no session owns and
 * such a session goes back to.
 */
function ownersOf(tenant: string, { within, agent = "", tag }: FindOptions): Sql {
  if (within !== undefined)
    return { text: "SELECT unnest(CAST(? AS bigint[])) AS owner", params: [ownersWithin(within)] };
  const own: Param[] = [tenant, agent, ...(tag === undefined ? [] : [tenant, tag])];
  const lines = `session s JOIN line l ON l.session = s.no WHERE s.tenant = ? AND s.agent = ?${tagged(tag)}`;
  return {
    text: `SELECT l.no AS owner FROM ${lines}
      UNION ALL SELECT -s.no FROM session s WHERE s.tenant = ? AND s.agent = ?${tagged(tag)}
      UNION ALL SELECT no FROM (WITH RECURSIVE past (id) AS (
        SELECT l.origin_line FROM ${lines} AND l.origin_line IS NOT NULL
        UNION SELECT l.origin_line FROM past p JOIN line l ON l.tenant = ? AND l.id = p.id
          WHERE l.session IS NULL AND l.origin_line IS NOT NULL)
        SELECT l.no FROM past JOIN line l ON l.tenant = ? AND l.id = past.id WHERE l.session IS NULL) AS nobodys`,
    params: [...own, ...own, ...own, tenant, tenant],
  };
}

const tagged = (tag: string | undefined): string =>
  tag === undefined
    ? ""
    : " AND EXISTS (SELECT 1 FROM tag t WHERE t.tenant = ? AND t.tag = ? AND t.session = s.no)";

const ownersWithin = ({ no, lines }: NonNullable<FindOptions["within"]>): string =>
  `{${[-no, ...[...lines.values()].map((line) => line.no)].join(",")}}`;
