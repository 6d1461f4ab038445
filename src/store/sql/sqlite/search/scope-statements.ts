/**
 * The statements of a search in a scope. Each answers the number, the owner and the place of a
 * document, and its words.
 */
import { type FindOptions, MOST_GONE_OVER, MOST_RANKED } from "../../../search-port.js";
import type { Param } from "../../database.js";
import { filtersOf, type Sql } from "../../search-filters.js";

interface ScopeStatements {
  /** 1 where there are more texts than are gone over one by one. */
  readonly isLarge: Sql;
  readonly oneByOne: Sql;
  /**
   * By what FTS5 is asked, which is the first parameter. Upwards is faster; of more than are ranked
   * the newest are wanted.
   */
  readonly byWords: Sql;
  readonly newestByWords: Sql;
}

export function scopeStatements(tenant: string, options: FindOptions): ScopeStatements {
  const owners = ownersOf(tenant, options);
  const filters = filtersOf(options);
  const sessions = sessionsOf(tenant, options);
  const params = [...filters.params, ...sessions.params];
  const columns = "d.no, d.owner, d.seq, w.words";
  const found = `text CROSS JOIN doc d ON d.no = text.rowid CROSS JOIN doc_words w ON w.no = d.no${sessions.joins} WHERE text MATCH ?${filters.text}${sessions.text}`;
  return {
    isLarge: {
      text: `SELECT count(*) > ${MOST_GONE_OVER} FROM (SELECT 1 FROM (SELECT ${owners.text}) o CROSS JOIN doc d WHERE d.owner = o.owner LIMIT ${MOST_GONE_OVER + 1}) many`,
      params: owners.params,
    },
    oneByOne: {
      text: `SELECT ${columns} FROM (SELECT ${owners.text}) o CROSS JOIN doc d CROSS JOIN doc_words w WHERE d.owner = o.owner AND w.no = d.no${filters.text}`,
      params: [...owners.params, ...filters.params],
    },
    byWords: { text: `SELECT ${columns} FROM ${found} LIMIT ${MOST_RANKED + 1}`, params },
    newestByWords: {
      text: `SELECT ${columns} FROM ${found} ORDER BY text.rowid DESC LIMIT ${MOST_RANKED}`,
      params,
    },
  };
}

/**
 * Lines of the agent's sessions, the sessions for their titles, and lines that no session owns and
 * such a session goes back to.
 */
function ownersOf(tenant: string, { within, agent = "", tag }: FindOptions): Sql {
  if (within !== undefined)
    return { text: "value AS owner FROM json_each(?)", params: [ownersWithin(within)] };
  const own: Param[] = [tenant, agent, ...(tag === undefined ? [] : [tag])];
  const lines = `store.session s CROSS JOIN store.line l WHERE s.tenant = ? AND s.agent = ?${tagged(tag)} AND l.session = s.no`;
  return {
    text: `l.no AS owner FROM ${lines}
      UNION ALL SELECT -s.no FROM store.session s WHERE s.tenant = ? AND s.agent = ?${tagged(tag)}
      UNION ALL SELECT no FROM (WITH RECURSIVE earlier (id) AS (
        SELECT l.origin_line FROM ${lines} AND l.origin_line IS NOT NULL
        UNION SELECT l.origin_line FROM earlier e CROSS JOIN store.line l
          WHERE l.tenant = ? AND l.id = e.id AND l.session IS NULL AND l.origin_line IS NOT NULL)
        SELECT l.no FROM earlier CROSS JOIN store.line l WHERE l.tenant = ? AND l.id = earlier.id AND l.session IS NULL)`,
    params: [...own, ...own, ...own, tenant, tenant],
  };
}

/** The same for a document `d` that was found by its words. */
function sessionsOf(
  tenant: string,
  { within, agent = "", tag }: FindOptions,
): Sql & { readonly joins: string } {
  if (within !== undefined)
    return {
      joins: "",
      text: " AND d.owner IN (SELECT value FROM json_each(?))",
      params: [ownersWithin(within)],
    };
  return {
    joins:
      " LEFT JOIN store.line l ON l.no = d.owner LEFT JOIN store.session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END",
    text: ` AND ((s.agent = ?${tagged(tag)}) OR (d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL AND EXISTS (
      WITH RECURSIVE later (id, session) AS (SELECT l.id, l.session
        UNION SELECT c.id, c.session FROM later e CROSS JOIN store.line c WHERE c.tenant = ? AND c.origin_line = e.id)
      SELECT 1 FROM later CROSS JOIN store.session h WHERE h.no = later.session AND h.agent = ?)))`,
    params: [agent, ...(tag === undefined ? [] : [tag]), tenant, agent],
  };
}

const tagged = (tag: string | undefined): string =>
  tag === undefined
    ? ""
    : " AND EXISTS (SELECT 1 FROM store.tag t WHERE t.tag = ? AND t.session = s.no)";

const ownersWithin = ({ no, lines }: NonNullable<FindOptions["within"]>): string =>
  JSON.stringify([-no, ...[...lines.values()].map((line) => line.no)]);
