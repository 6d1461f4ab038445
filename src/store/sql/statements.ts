/** Every statement of the SQL store, once. Values are always parameters; the only text put together here is our own. */

/** Not a bare parameter: SQLite looks at the value of one in LIMIT while planning, and then plans the statement anew at every call. */
const most = "(0 + ?)";

const sessionColumns = "s.no, s.id, s.status, s.agent, s.line, s.head, s.epoch, s.until, s.lease, s.version, s.archived, s.tags, s.label";
const lineColumns = "l.no, l.id, l.session IS NOT NULL, s.id, l.origin_line, l.origin_seq, l.body";

/** How many columns a statement that asks for both answers of each. */
export const columnsOf = { session: sessionColumns.split(",").length, line: lineColumns.split(",").length };

const saveValues = "head, mark, note, items, state";
const placeholders = saveValues.replace(/\w+/g, "?");

const bytes = "coalesce(octet_length(items), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(mark), 0)";

/** The number a line ends at: that of its last save, or its origin's where it has none. Parameters: line, origin's number. */
const tail = "coalesce((SELECT seq FROM save WHERE line = ? ORDER BY seq DESC LIMIT 1), ?)";

/** A number that no row has had. AUTOINCREMENT would write a page of its own for it at every insert. */
const fresh = (table: "session" | "line") =>
  `(SELECT 1 + max(coalesce((SELECT max(no) FROM ${table}), 0), coalesce((SELECT no FROM used WHERE what = '${table}'), 0)))`;
const spend = (table: "session" | "line") =>
  `INSERT INTO used (what, no) VALUES ('${table}', ?) ON CONFLICT (what) DO UPDATE SET no = max(no, excluded.no)`;

/** Saves that hold any of the records from..to. Parameters: line, from, line, to, to, limit. */
function saves(sections: { readonly items: boolean; readonly state: boolean }, order: "ASC" | "DESC"): string {
  const columns = saveValues
    .replace(/\bitems\b/, sections.items ? "items" : "NULL")
    .replace(/\bstate\b/, sections.state ? "state" : "NULL");
  return `SELECT seq, ${columns} FROM save
    WHERE line = ? AND seq BETWEEN ? AND coalesce((SELECT seq FROM save WHERE line = ? AND seq >= ? ORDER BY seq LIMIT 1), ?)
    ORDER BY seq ${order} LIMIT ${most}`;
}

const savesBy = (items: boolean, state: boolean) => ({
  oldestFirst: saves({ items, state }, "ASC"),
  newestFirst: saves({ items, state }, "DESC"),
});

export const statements = {
  /** Columns of the session, of its line, and of the line's last save, in this order. */
  present: `SELECT ${sessionColumns}, ${lineColumns.replace("s.id", "CASE WHEN l.session = s.no THEN s.id END")}, v.seq, v.head, v.mark, v.note
    FROM session s LEFT JOIN line l ON l.id = s.line LEFT JOIN save v ON v.line = l.no WHERE s.id = ? ORDER BY v.seq DESC LIMIT 1`,
  session: `SELECT ${sessionColumns} FROM session s WHERE s.id = ?`,
  buriedEpoch: "SELECT epoch FROM buried WHERE id = ?",
  bury: "INSERT INTO buried (id, epoch) SELECT id, epoch FROM session WHERE no = ? ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch",

  insertSession: `INSERT INTO session (no, id, status, agent, line, head, epoch, until, lease, version, archived, tags, label)
    VALUES (${fresh("session")}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no`,
  spendSession: spend("session"),
  deleteSession: "DELETE FROM session WHERE no = ?",
  updateHead: "UPDATE session SET status = ?, agent = ?, line = ?, head = ? WHERE no = ?",
  updateLease: "UPDATE session SET epoch = ?, until = ?, lease = ? WHERE no = ?",
  updateLabel: "UPDATE session SET version = ?, archived = ?, tags = ?, label = ? WHERE no = ?",
  deleteTags: "DELETE FROM tag WHERE session = ?",
  insertTag: "INSERT INTO tag (tag, session) VALUES (?, ?) ON CONFLICT DO NOTHING",

  line: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session WHERE l.id = ?`,
  linesOfSession: `SELECT ${lineColumns} FROM session s JOIN line l ON l.session = s.no WHERE s.id = ? ORDER BY l.no DESC`,
  linesOfOrigin: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session WHERE l.origin_line = ? ORDER BY l.no DESC`,
  allLines: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session ORDER BY l.no DESC`,
  lineKey: "SELECT no, origin_seq FROM line WHERE id = ?",
  insertLine: `INSERT INTO line (no, id, session, origin_line, origin_seq, body) VALUES (${fresh("line")}, ?, ?, ?, ?, ?) RETURNING no`,
  spendLine: spend("line"),
  disownLines: "UPDATE line SET session = NULL WHERE session = ?",
  deleteLine: "DELETE FROM line WHERE no = ? AND session IS NULL AND NOT EXISTS (SELECT 1 FROM save WHERE line = ?)",
  noteCut: "INSERT INTO cut_line (id) VALUES (?) ON CONFLICT DO NOTHING",
  wasCut: "SELECT 1 FROM cut_line WHERE id = ?",
  lastOrigin: "SELECT coalesce(max(origin_seq), 0) FROM line WHERE origin_line = ?",
  forkedSince: "SELECT 1 FROM line WHERE origin_line = ? AND no > ? LIMIT 1",

  /** One save, if the session's epoch and the line's end are as expected. */
  appendIf: `INSERT INTO save (line, seq, ${saveValues})
    SELECT ?, ?, ${placeholders} WHERE (SELECT epoch FROM session WHERE id = ?) = ? AND ${tail} = ?`,
  /** One save on a line whose end is known, if the session's epoch is as expected. */
  appendNext: `INSERT INTO save (line, seq, ${saveValues}) SELECT ?, ?, ${placeholders} WHERE (SELECT epoch FROM session WHERE no = ?) = ?`,
  append: `INSERT INTO save (line, seq, ${saveValues}) SELECT ?, ?, ${placeholders} WHERE ${tail} = ?`,
  insertSave: `INSERT INTO save (line, seq, ${saveValues}) VALUES (?, ?, ${placeholders})`,
  headAt: "SELECT head FROM save WHERE line = ? AND seq = ?",
  markAt: "SELECT 1 FROM save WHERE line = ? AND seq = ? AND mark IS NOT NULL",
  saves: { both: savesBy(true, true), items: savesBy(true, false), state: savesBy(false, true), neither: savesBy(false, false) },
  /** Enough of the saves in a range to tell whether they are those that were read. */
  shapes:
    "SELECT seq, head, note, items IS NULL, state IS NULL, mark IS NULL FROM save WHERE line = ? AND seq BETWEEN ? AND ? ORDER BY seq",
  deleteSaves: "DELETE FROM save WHERE line = ? AND seq BETWEEN ? AND ?",
  deleteRefs: "DELETE FROM ref WHERE line = ? AND seq BETWEEN ? AND ?",
  lastSaves: `SELECT seq, ${bytes} FROM save WHERE line = ? AND seq > ? ORDER BY seq DESC LIMIT ${most}`,

  insertBlob: "INSERT INTO blob (digest, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING",
  insertRef: "INSERT INTO ref (line, seq, digest) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
  blob: "SELECT bytes FROM blob WHERE digest = ?",
  unusedBlobs: `SELECT digest, octet_length(bytes) FROM blob b WHERE NOT EXISTS (SELECT 1 FROM ref r WHERE r.digest = b.digest) LIMIT ${most}`,
  deleteBlob: "DELETE FROM blob WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM ref WHERE ref.digest = blob.digest)",

  post: "INSERT INTO mail (session, id, body, drained) SELECT no, ?, ?, 0 FROM session WHERE id = ? ON CONFLICT DO NOTHING",
  mailBody: "SELECT m.body FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.id = ?",
  inbox: `SELECT m.id, m.body FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.drained = 0 ORDER BY m.no LIMIT ${most}`,
  drain: "UPDATE mail SET drained = 1 WHERE session = ? AND id = ?",
  deleteMail: "DELETE FROM mail WHERE session = ?",

  sessionCounts: "SELECT count(*), count(DISTINCT agent) FROM session",
  blobBytes: "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob",
  /** Counts of a stretch of rows. Parameters: the row after which it begins, how many rows. Answers where it ends, first. */
  saveCounts: `SELECT max(no), sum(mark IS NOT NULL), sum(CASE WHEN items IS NULL THEN 0 ELSE CAST(head AS INTEGER) END), sum(${bytes})
    FROM (SELECT no, head, mark, items, state FROM save WHERE no > ? ORDER BY no LIMIT ${most})`,
} as const;

/** Sessions, newest first, by the filters that are given. */
export function sessionsBy(filter: {
  readonly agent: boolean;
  readonly status: boolean;
  readonly tag: boolean;
  readonly archived: boolean | undefined;
}): string {
  const from = filter.tag ? "tag t JOIN session s ON s.no = t.session" : "session s";
  const wheres = [
    filter.tag && "t.tag = ?",
    filter.agent && "s.agent = ?",
    filter.status && "s.status = ?",
    // Not `= 0`: whatever else damage makes of it, a session must not be passed over.
    filter.archived !== undefined && `s.archived ${filter.archived ? "=" : "IS NOT"} 1`,
    "s.no < ?",
  ].filter((part) => part !== false);
  return `SELECT ${sessionColumns} FROM ${from} WHERE ${wheres.join(" AND ")} ORDER BY ${filter.tag ? "t.session" : "s.no"} DESC LIMIT ${most}`;
}
