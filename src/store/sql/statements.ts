/**
 * Every statement of the SQL store, once. Values are always parameters; the only text put together here is our own.
 *
 * A save's key is `(line << 32) | seq`, computed by the database: it does not fit a JavaScript number.
 */

const key = "((CAST(? AS BIGINT) << 32) | ?)";
const lineStart = "(CAST(? AS BIGINT) << 32)";
const lineEnd = `(${lineStart} | 4294967295)`;

const sessionColumns = "s.no, s.id, s.status, s.agent, s.head, s.epoch, s.until, s.lease, s.version, s.archived, s.tags, s.label";
const lineColumns = "l.no, l.id, l.session IS NOT NULL, s.id, l.origin_line, l.origin_seq, l.body";

const saveValues =
  "at, n_items, n_state, n_mark, n_messages, prior, base, prev, sealed, items_digest, state_digest, mark, note, items, state";
const placeholders = saveValues.replace(/\w+/g, "?");

const bytes = "coalesce(octet_length(items), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(mark), 0)";

/** The end of a line: its last save, or its origin where it has none. Parameters: line, line, line, origin's number. */
const tail = `coalesce((SELECT id FROM save WHERE id BETWEEN ${lineStart} AND ${lineEnd} ORDER BY id DESC LIMIT 1), ${key})`;

/** Saves that hold any of the records from..to. Parameters: line, from, line, to, line, line, limit. */
function saves(sections: { readonly items: boolean; readonly state: boolean }, order: "ASC" | "DESC"): string {
  const columns = saveValues
    .replace(/\bitems\b/, sections.items ? "items" : "NULL")
    .replace(/\bstate\b/, sections.state ? "state" : "NULL");
  return `SELECT id & 4294967295, ${columns} FROM save
    WHERE id BETWEEN ${key} AND coalesce((SELECT id FROM save WHERE id BETWEEN ${key} AND ${lineEnd} ORDER BY id LIMIT 1), ${lineEnd})
    ORDER BY id ${order} LIMIT ?`;
}

const savesBy = (items: boolean, state: boolean) => ({
  oldestFirst: saves({ items, state }, "ASC"),
  newestFirst: saves({ items, state }, "DESC"),
});

export const statements = {
  session: `SELECT ${sessionColumns} FROM session s WHERE s.id = ?`,
  buriedEpoch: "SELECT epoch FROM buried WHERE id = ?",
  bury: "INSERT INTO buried (id, epoch) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch",

  insertSession:
    "INSERT INTO session (id, status, agent, head, epoch, until, lease, version, archived, tags, label) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no",
  deleteSession: "DELETE FROM session WHERE no = ?",
  updateHead: "UPDATE session SET status = ?, agent = ?, head = ? WHERE no = ?",
  updateLease: "UPDATE session SET epoch = ?, until = ?, lease = ? WHERE no = ?",
  updateLabel: "UPDATE session SET version = ?, archived = ?, tags = ?, label = ? WHERE no = ?",
  deleteTags: "DELETE FROM tag WHERE session = ?",
  insertTag: "INSERT INTO tag (tag, session) VALUES (?, ?) ON CONFLICT DO NOTHING",

  line: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session WHERE l.id = ?`,
  linesOfSession: `SELECT ${lineColumns} FROM session s JOIN line l ON l.session = s.no WHERE s.id = ? ORDER BY l.no DESC`,
  linesOfOrigin: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session WHERE l.origin_line = ? ORDER BY l.no DESC`,
  allLines: `SELECT ${lineColumns} FROM line l LEFT JOIN session s ON s.no = l.session ORDER BY l.no DESC`,
  lineKey: "SELECT no, origin_seq FROM line WHERE id = ?",
  insertLine: "INSERT INTO line (id, session, origin_line, origin_seq, body) VALUES (?, ?, ?, ?, ?)",
  disownLines: "UPDATE line SET session = NULL WHERE session = ?",
  deleteLine: `DELETE FROM line WHERE no = ? AND session IS NULL AND NOT EXISTS (SELECT 1 FROM save WHERE id BETWEEN ${lineStart} AND ${lineEnd})`,
  noteCut: "INSERT INTO cut_line (id) VALUES (?) ON CONFLICT DO NOTHING",
  wasCut: "SELECT 1 FROM cut_line WHERE id = ?",
  lastOrigin: "SELECT coalesce(max(origin_seq), 0) FROM line WHERE origin_line = ?",
  forkedSince: "SELECT 1 FROM line WHERE origin_line = ? AND no > ? LIMIT 1",

  /** One save, if the session's epoch and the line's end are as expected. Answers whether mail waits. */
  appendIf: `INSERT INTO save (id, ${saveValues})
    SELECT ${key}, ${placeholders}
    WHERE (SELECT epoch FROM session WHERE id = ?) = ? AND ${tail} = ${key}
    RETURNING (SELECT EXISTS (SELECT 1 FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.drained = 0))`,
  append: `INSERT INTO save (id, ${saveValues}) SELECT ${key}, ${placeholders} WHERE ${tail} = ${key}`,
  insertSave: `INSERT INTO save (id, ${saveValues}) VALUES (${key}, ${placeholders})`,
  checkAt: `SELECT sealed FROM save WHERE id = ${key}`,
  markAt: `SELECT 1 FROM save WHERE id = ${key} AND mark IS NOT NULL`,
  saves: { both: savesBy(true, true), items: savesBy(true, false), state: savesBy(false, true), neither: savesBy(false, false) },
  deleteSaves: `DELETE FROM save WHERE id BETWEEN ${key} AND ${key}`,
  deleteRefs: `DELETE FROM ref WHERE save BETWEEN ${key} AND ${key}`,
  lastSaves: `SELECT id & 4294967295, ${bytes} FROM save WHERE id > ${key} AND id <= ${lineEnd} ORDER BY id DESC LIMIT ?`,

  insertBlob: "INSERT INTO blob (digest, bytes) VALUES (?, ?) ON CONFLICT DO NOTHING",
  insertRef: `INSERT INTO ref (save, digest) VALUES (${key}, ?) ON CONFLICT DO NOTHING`,
  blob: "SELECT bytes FROM blob WHERE digest = ?",
  unusedBlobs: "SELECT digest, octet_length(bytes) FROM blob b WHERE NOT EXISTS (SELECT 1 FROM ref r WHERE r.digest = b.digest) LIMIT ?",
  deleteBlob: "DELETE FROM blob WHERE digest = ? AND NOT EXISTS (SELECT 1 FROM ref WHERE ref.digest = blob.digest)",

  post: "INSERT INTO mail (session, id, body, drained) SELECT no, ?, ?, 0 FROM session WHERE id = ? ON CONFLICT DO NOTHING",
  mailBody: "SELECT m.body FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.id = ?",
  inbox: "SELECT m.id, m.body FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.drained = 0 ORDER BY m.no LIMIT ?",
  mailWaits: "SELECT EXISTS (SELECT 1 FROM mail m JOIN session s ON m.session = s.no WHERE s.id = ? AND m.drained = 0)",
  drain: "UPDATE mail SET drained = 1 WHERE session = ? AND id = ?",
  deleteMail: "DELETE FROM mail WHERE session = ?",

  sessionCounts: "SELECT count(*), count(DISTINCT agent) FROM session",
  blobBytes: "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob",
  /** Counts of a stretch of rows. Parameters: the line and number after which it begins, how many rows. Answers where it ends, first. */
  saveCounts: `SELECT max(id) >> 32, max(id) & 4294967295, sum(mark IS NOT NULL), sum(CASE WHEN items IS NULL THEN 0 ELSE n_messages END),
      sum(${bytes})
    FROM (SELECT id, mark, items, state, n_messages FROM save WHERE id > ${key} ORDER BY id LIMIT ?)`,
} as const;

/** Sessions, newest first, by the filters that are given. */
export function sessionsBy(filter: {
  readonly agent: boolean;
  readonly status: boolean;
  readonly tag: boolean;
  readonly archived: boolean;
}): string {
  const from = filter.tag ? "tag t JOIN session s ON s.no = t.session" : "session s";
  const wheres = [
    filter.tag && "t.tag = ?",
    filter.agent && "s.agent = ?",
    filter.status && "s.status = ?",
    filter.archived && "s.archived = ?",
    "s.no < ?",
  ].filter((part) => part !== false);
  return `SELECT ${sessionColumns} FROM ${from} WHERE ${wheres.join(" AND ")} ORDER BY ${filter.tag ? "t.session" : "s.no"} DESC LIMIT ?`;
}
