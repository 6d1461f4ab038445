/** How SQLite says what both databases know. */
import type { Dialect } from "../database.js";
import { asText } from "./append.js";

/** `now` is the machine's clock, which SQLite does not know. */
export const sqliteDialect = (now: () => number): Dialect => ({
  // AUTOINCREMENT would write a page of its own for it at every insert.
  fresh: (table) =>
    `(SELECT 1 + max(coalesce((SELECT max(no) FROM ${table}), 0), coalesce((SELECT no FROM used WHERE what = '${table}'), 0)))`,
  spend: (table) =>
    `INSERT INTO used (what, no) VALUES ('${table}', ?) ON CONFLICT (what) DO UPDATE SET no = max(no, excluded.no)`,
  section: asText,
  text: (column) => column,
  savesWithin: (
    columns,
    order,
    limit,
  ) => `SELECT seq, ${columns} FROM save WHERE branch = ? AND seq >= ?
      AND seq <= max(?, coalesce((SELECT seq FROM save WHERE branch = ? AND seq >= ? ORDER BY seq LIMIT 1), 0)) ORDER BY seq ${order} LIMIT ${limit}`,
  saveWith: (schema) =>
    `LEFT JOIN ${schema}save v ON v.no = (SELECT w.no FROM ${schema}save w WHERE w.branch = l.no AND w.seq >= ? ORDER BY w.seq LIMIT 1)`,
  lastSaveNo: "(SELECT coalesce(max(no), 0) FROM save)",
  messages: (head) => `CAST(${head} AS INTEGER)`,
  notesCuts: true,
  lastSave: { join: "LEFT JOIN save v ON v.branch = l.no", order: "ORDER BY v.seq DESC LIMIT 1" },
  lastOfEach:
    "LEFT JOIN save v ON v.branch = l.no AND v.seq = (SELECT w.seq FROM save w WHERE w.branch = l.no ORDER BY w.seq DESC LIMIT 1)",
  tagsOfTenant: "",
  // Whoever claims can tell whether a holder on this machine is dead, however long its lease lasts.
  claimable: "",
  claiming: "",
  locking: "",
  clock: { column: "CAST(? AS bigint)", params: () => [now()] },
});
