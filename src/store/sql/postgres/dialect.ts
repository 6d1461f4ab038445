/** How Postgres says what both databases know. */
import { MAX_LEASE_MS } from "../../../core/sessions/lease.js";
import type { Dialect } from "../database.js";

/** Sections are bytes: the server neither reads them nor cares for what a backslash means. */
export function asBytes(text: string | null): Buffer | null {
  return text === null ? null : Buffer.from(text);
}

/** Leases run by the server's clock. */
export const NOW = "floor(extract(epoch FROM clock_timestamp()) * 1000)";

const LAST_SAVE =
  "LEFT JOIN LATERAL (SELECT * FROM save w WHERE w.branch = l.no ORDER BY w.seq DESC LIMIT 1) v ON true";

export const postgresDialect: Dialect = {
  fresh: () => "DEFAULT",
  spend: () => undefined,
  section: asBytes,
  text: (column) => `convert_from(${column}, 'UTF8')`,
  // Sections as they are: texts and bytes look the same where no column is described, and numbers
  // are made texts. Two ends of one range: below a policy, an index is not searched by what another
  // query answers, and the rest of the branch would be read with each page.
  savesWithin: (columns, order, limit) => `SELECT CAST(seq AS text), ${columns} FROM (
      (SELECT * FROM save WHERE branch = ? AND seq >= ? AND seq < ? ORDER BY seq ${order})
      UNION ALL (SELECT * FROM save WHERE branch = ? AND seq >= ? ORDER BY seq LIMIT 1)) s ORDER BY s.seq ${order} LIMIT ${limit}`,
  saveWith: (schema) =>
    `LEFT JOIN LATERAL (SELECT * FROM ${schema}save w WHERE w.branch = l.no AND w.seq >= ? ORDER BY w.seq LIMIT 1) v ON true`,
  lastSaveNo: "0",
  messages: (head) => `CAST(split_part(${head}, ' ', 1) AS bigint)`,
  notesCuts: false,
  // It does not see that there is one branch, and would read all of its saves to sort them.
  lastSave: { join: LAST_SAVE, order: "" },
  lastOfEach: LAST_SAVE,
  tagsOfTenant: " AND t.tenant = s.tenant",
  clock: { column: NOW, params: () => [] },
  // Nobody can tell whether a holder on another machine is dead: its lease has to run out. One that
  // lasts longer than any can is of a time when the clock was wrong.
  claimable: ` AND (s.until <= ${NOW} OR s.until > ${NOW} + ${MAX_LEASE_MS})`,
  // Whoever has locked the row by other means is not waited for either.
  claiming: " FOR UPDATE SKIP LOCKED",
  locking: " FOR UPDATE",
};

const known = new Map<string, string>();

/** `?` is `$1`, `$2`, … here. */
export function numbered(text: string): string {
  let own = known.get(text);
  if (own === undefined) {
    let n = 0;
    own = text.replaceAll("?", () => `$${++n}`);
    known.set(text, own);
  }
  return own;
}
