/**
 * Every statement that both databases know, once. Values are always parameters; the only text put
 * together here is our own.
 */
import { AGENT, SNAPSHOT } from "../port/documents.js";
import { TURN_MESSAGES, WAITS } from "../port/inbox.js";
import type { Dialect } from "./database.js";

/**
 * Not a bare parameter: SQLite looks at the value of one in LIMIT while planning, and then plans
 * the statement anew at every call.
 */
const most = "CAST(? AS bigint)";
/**
 * Of more notes than these for an index, all are dropped with it: a store must not grow for one
 * that nobody keeps up.
 */
const MOST_NOTED = 100_000;

const sessionColumns =
  "s.no, s.id, s.status, s.agent, s.branch, s.due, s.head, s.epoch, s.until, s.lease, s.version, s.archived, s.tags, s.label";
const branchColumns = "l.no, l.id, l.session IS NOT NULL, s.id, l.fork_branch, l.fork_seq, l.body";

const docColumns = "no, kind, id, whose, version, text";

/** How many columns a statement that asks for both answers of each. */
export const columnsOf = {
  session: sessionColumns.split(",").length,
  branch: branchColumns.split(",").length,
};

/** The columns of a save behind its branch and number, in the order of `saveParams`. */
export const saveColumns = "head, mark, note, items, state";
export const savePlaceholders = saveColumns.replace(/\w+/g, "?");

const bytes =
  "coalesce(octet_length(items), 0) + coalesce(octet_length(state), 0) + coalesce(octet_length(mark), 0)";
const branches = "branch l LEFT JOIN session s ON s.no = l.session";

/**
 * From when on a claim finds a session: when its head is due, or the first of its an inbox message
 * that waits, whichever comes first.
 */
const waits = `status IN (${WAITS.map((status) => `'${status}'`).join(", ")})`;
const isTurn = `substr(m.id, 1, ${TURN_MESSAGES.length}) = '${TURN_MESSAGES}'`;
const firstMessage = `(SELECT min(m.due) FROM inbox m WHERE m.session = session.no AND m.drained = 0 AND NOT (${waits} AND ${isTurn}))`;
const wakes = `CASE WHEN due <= ${firstMessage} THEN due ELSE coalesce(${firstMessage}, due) END`;

const hasten =
  "UPDATE session SET wake = ? WHERE tenant = ? AND id = ? AND (wake IS NULL OR wake > ?)";

/**
 * The number a branch ends at: that of its last save, or its fork point's where it has none.
 * Parameters: branch, fork point's number.
 */
export const tail =
  "coalesce((SELECT seq FROM save WHERE branch = ? ORDER BY seq DESC LIMIT 1), ?)";

export type Statements = ReturnType<typeof statementsIn>;

export function statementsIn(dialect: Dialect) {
  const {
    fresh,
    spend,
    text,
    savesWithin,
    lastSave,
    lastSaveNo,
    lastOfEach,
    messages,
    clock,
    claimable,
    claiming,
    locking,
  } = dialect;
  /**
   * That something refers to a blob `b`. By the blob first, in SQLite too: it would go over all
   * branches of the tenant for each blob.
   */
  const isReferred = (b: string) =>
    `EXISTS (SELECT 1 FROM ref r CROSS JOIN branch l WHERE r.digest = ${b}.digest AND l.no = r.branch AND l.tenant = ${b}.tenant)`;
  const indexed = "EXISTS (SELECT 1 FROM meta WHERE key = ?)";
  const noteOf = (order: "ASC" | "DESC") =>
    `SELECT no FROM unindexed WHERE tenant = ? ORDER BY no ${order} LIMIT 1`;

  /**
   * Saves that hold any of the records from..to. Parameters: branch, from, to, branch, to, limit.
   */
  const saves = (items: boolean, state: boolean, order: "ASC" | "DESC") => {
    const none = "CAST(NULL AS bytea)";
    return savesWithin(
      `head, mark, note, ${items ? "items" : none}, ${state ? "state" : none}`,
      order,
      most,
    );
  };
  const presentColumns = `${sessionColumns}, ${branchColumns.replace("s.id", "CASE WHEN l.session = s.no THEN s.id END")}, v.seq, v.head, ${text("v.mark")}, v.note`;
  const savesBy = (items: boolean, state: boolean) => ({
    oldestFirst: saves(items, state, "ASC"),
    newestFirst: saves(items, state, "DESC"),
  });

  return {
    /** Columns of the session, of its branch, and of the branch's last save, in this order. */
    present: `SELECT ${presentColumns}
      FROM session s LEFT JOIN branch l ON l.tenant = s.tenant AND l.id = s.branch ${lastSave.join}
      WHERE s.tenant = ? AND s.id = ? ${lastSave.order}`,
    session: `SELECT ${sessionColumns} FROM session s WHERE s.tenant = ? AND s.id = ?`,
    /**
     * The same, and what a deleted one of this id has left: a row with its epoch, and else nothing.
     */
    sessionOrBuried: `SELECT ${sessionColumns} FROM session s WHERE s.tenant = ? AND s.id = ?
      UNION ALL SELECT b.epoch${", NULL".repeat(columnsOf.session - 1)} FROM buried b WHERE b.tenant = ? AND b.id = ?`,
    sessionsFrom: `SELECT ${sessionColumns} FROM session s WHERE s.tenant = ? AND s.id >= ? AND s.id < ? ORDER BY s.id LIMIT ${most}`,
    sessionByNo: sessionWith(""),
    sessionsAfter: `SELECT ${sessionColumns} FROM session s WHERE s.tenant = ? AND s.no > ? ORDER BY s.no LIMIT ${most}`,
    buriedEpoch: "SELECT epoch FROM buried WHERE tenant = ? AND id = ?",
    bury: `INSERT INTO buried (tenant, id, epoch) SELECT tenant, id, epoch FROM session WHERE no = ?
      ON CONFLICT (tenant, id) DO UPDATE SET epoch = excluded.epoch`,

    insertSession: `INSERT INTO session (no, tenant, id, status, agent, branch, due, wake, head, epoch, until, lease, version, archived, tags, label)
      VALUES (${fresh("session")}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING no`,
    spendSession: spend("session"),
    deleteSession: "DELETE FROM session WHERE no = ?",
    updateHead:
      "UPDATE session SET status = ?, agent = ?, branch = ?, due = ?, head = ? WHERE no = ?",
    /**
     * After its head has changed, or an inbox message was taken in. A row is written only where
     * that makes a difference.
     */
    updateWake: `UPDATE session SET wake = ${wakes} WHERE no = ? AND wake IS DISTINCT FROM ${wakes}`,
    /**
     * After an inbox message was posted. Parameters: its time, tenant, session, and its time again.
     */
    hasten,
    /** The same for an inbox message that a session which waits for somebody has no use for. */
    hastenUnlessWaits: `${hasten} AND NOT ${waits}`,
    updateLease: "UPDATE session SET epoch = ?, until = ?, lease = ? WHERE no = ?",
    updateLabel: "UPDATE session SET version = ?, archived = ?, tags = ?, label = ? WHERE no = ?",
    deleteTags: "DELETE FROM tag WHERE session = ?",
    insertTag: "INSERT INTO tag (tag, session) VALUES (?, ?) ON CONFLICT DO NOTHING",

    branch: `SELECT ${branchColumns} FROM ${branches} WHERE l.tenant = ? AND l.id = ?`,
    /**
     * A branch and so many that it goes back to. The limit also ends it where damage has made a
     * circle. SQLite keeps to the order of a CROSS JOIN. Otherwise it goes over all branches of the
     * tenant, and looks for each among those of the past. Parameters: tenant, branch, tenant,
     * limit, tenant.
     */
    past: `WITH RECURSIVE past (id, place) AS (
        SELECT id, 1 FROM branch WHERE tenant = ? AND id = ?
        UNION ALL SELECT o.fork_branch, p.place + 1 FROM past p CROSS JOIN branch o
        WHERE o.tenant = ? AND o.id = p.id AND o.fork_branch IS NOT NULL AND p.place < ${most})
      SELECT ${branchColumns} FROM past CROSS JOIN branch l LEFT JOIN session s ON s.no = l.session
      WHERE l.tenant = ? AND l.id = past.id ORDER BY past.place`,
    branchesFrom: `SELECT ${branchColumns} FROM ${branches} WHERE l.tenant = ? AND l.id >= ? AND l.id < ? ORDER BY l.id LIMIT ${most}`,
    branchesOfSession: `SELECT ${branchColumns} FROM session s JOIN branch l ON l.session = s.no WHERE s.tenant = ? AND s.id = ? ORDER BY l.no DESC`,
    branchesOfForkPoint: `SELECT ${branchColumns} FROM ${branches} WHERE l.tenant = ? AND l.fork_branch = ? ORDER BY l.no DESC`,
    oldestOfForkPoint: `SELECT ${branchColumns} FROM ${branches} WHERE l.tenant = ? AND l.fork_branch = ? AND l.no > ? ORDER BY l.no LIMIT ${most}`,
    allBranches: `SELECT ${branchColumns} FROM ${branches} WHERE l.tenant = ? AND l.no < ? ORDER BY l.no DESC LIMIT ${most}`,
    branchKey: "SELECT no, fork_seq FROM branch WHERE tenant = ? AND id = ?",
    insertBranch: `INSERT INTO branch (no, tenant, id, session, fork_branch, fork_seq, body) VALUES (${fresh("branch")}, ?, ?, ?, ?, ?, ?) RETURNING no`,
    spendBranch: spend("branch"),
    claimBranch: "UPDATE branch SET session = ? WHERE tenant = ? AND id = ? AND session IS NULL",
    disownBranches: "UPDATE branch SET session = NULL WHERE session = ?",
    deleteBranch:
      "DELETE FROM branch WHERE no = ? AND session IS NULL AND NOT EXISTS (SELECT 1 FROM save WHERE branch = ?)",
    noteCut: "INSERT INTO cut_branch (tenant, id) VALUES (?, ?) ON CONFLICT DO NOTHING",
    lastForkPoint:
      "SELECT coalesce(max(fork_seq), 0) FROM branch WHERE tenant = ? AND fork_branch = ?",
    forkedSince: "SELECT 1 FROM branch WHERE tenant = ? AND fork_branch = ? AND no > ? LIMIT 1",

    tailOf: `SELECT ${tail}`,
    insertSave: `INSERT INTO save (branch, seq, ${saveColumns}) VALUES (?, ?, ${savePlaceholders})`,
    headAt: "SELECT head FROM save WHERE branch = ? AND seq = ?",
    /** Whether a branch may begin there: at a checkpoint, or at a place that a document pins. */
    forkPointAt: `SELECT 1 FROM save v JOIN branch l ON l.no = v.branch WHERE l.tenant = ? AND l.id = ? AND v.seq = ?
      AND (v.mark IS NOT NULL OR EXISTS (SELECT 1 FROM pin p WHERE p.tenant = l.tenant AND p.branch = l.id AND p.seq = v.seq))`,
    saveAt:
      "SELECT 1 FROM save v JOIN branch l ON l.no = v.branch WHERE l.tenant = ? AND l.id = ? AND v.seq = ?",
    saves: {
      both: savesBy(true, true),
      items: savesBy(true, false),
      state: savesBy(false, true),
      neither: savesBy(false, false),
    },
    /** Enough of the saves in a range to tell whether they are those that were read. */
    shapes:
      "SELECT seq, head, note, items IS NULL, state IS NULL, mark IS NULL FROM save WHERE branch = ? AND seq BETWEEN ? AND ? ORDER BY seq",
    updateSave: {
      both: updateSave(true, true),
      items: updateSave(true, false),
      state: updateSave(false, true),
      neither: updateSave(false, false),
    },
    deleteSaves: "DELETE FROM save WHERE branch = ? AND seq BETWEEN ? AND ?",
    deleteRefs: "DELETE FROM ref WHERE branch = ? AND seq BETWEEN ? AND ?",
    lastSaves: `SELECT seq, ${bytes} FROM save WHERE branch = ? AND seq > ? ORDER BY seq DESC LIMIT ${most}`,
    /** The same from the other end, for counting them a stretch at a time. */
    nextSaves: `SELECT seq, ${bytes} FROM save WHERE branch = ? AND seq > ? ORDER BY seq LIMIT ${most}`,

    insertBlob: "INSERT INTO blob (tenant, digest, bytes) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    insertRef: "INSERT INTO ref (branch, seq, digest) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
    blob: "SELECT bytes FROM blob WHERE tenant = ? AND digest = ?",
    /** Some blobs behind one, and whether anything refers to each. */
    someBlobs: `SELECT digest, octet_length(bytes), ${isReferred("b")}
      FROM blob b WHERE b.tenant = ? AND b.digest > ? ORDER BY b.digest LIMIT ${most}`,
    deleteBlob: `DELETE FROM blob WHERE tenant = ? AND digest = ? AND NOT ${isReferred("blob")}`,

    /**
     * Sessions that a claim may take, in its order, behind a place in that order. Parameters:
     * tenant, agent, time, place, limit.
     */
    due: `SELECT s.no, s.id, s.wake FROM session s
      WHERE s.tenant = ? AND s.agent = ? AND s.wake <= ? AND (s.wake, s.no) > (?, ?)${claimable} ORDER BY s.wake, s.no LIMIT ${most}`,
    /** One of them, if it still is. Parameters: those of the clock, number, tenant, agent, time. */
    dueNow: `SELECT ${clock.column}, ${sessionColumns} FROM session s
      WHERE s.no = ? AND s.tenant = ? AND s.agent = ? AND s.wake <= ?${claimable}${claiming}`,

    post: `INSERT INTO inbox (session, id, body, drained, due) SELECT no, ?, ?, 0, CAST(? AS bigint) FROM session WHERE tenant = ? AND id = ?
      ON CONFLICT DO NOTHING`,
    messageBody:
      "SELECT m.body, m.drained FROM inbox m JOIN session s ON m.session = s.no WHERE s.tenant = ? AND s.id = ? AND m.id = ?",
    /**
     * The plus keeps it on the index that has the order of their coming: what waits for later is
     * passed over on the way.
     */
    inbox: `SELECT m.id, m.body, m.due FROM inbox m JOIN session s ON m.session = s.no
      WHERE s.tenant = ? AND s.id = ? AND m.drained = 0 AND +m.due <= ? ORDER BY m.no LIMIT ${most}`,
    waitingBody: "SELECT body FROM inbox WHERE session = ? AND id = ? AND drained = 0",
    /** Parameters: what is kept of its text, session, id. */
    drain: "UPDATE inbox SET drained = 1, body = ? WHERE session = ? AND id = ?",
    reword: "UPDATE inbox SET body = ? WHERE session = ? AND id = ? AND drained = 0",
    forgetDrained: "UPDATE inbox SET body = '' WHERE session = ? AND drained = 1 AND body <> ''",
    deleteInbox: "DELETE FROM inbox WHERE session = ?",

    doc: `SELECT ${docColumns}, body FROM doc WHERE tenant = ? AND kind = ? AND id = ?`,
    /** The same for whoever is about to change it. */
    docToChange: `SELECT ${docColumns}, body FROM doc WHERE tenant = ? AND kind = ? AND id = ?${locking}`,
    /** Answers nothing where another was quicker. */
    insertDoc: `INSERT INTO doc (no, tenant, kind, id, whose, version, text, body) VALUES (${fresh("doc")}, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING RETURNING no`,
    updateDoc: "UPDATE doc SET whose = ?, version = ?, text = ?, body = ? WHERE no = ?",
    spendDoc: spend("doc"),
    deleteDoc: "DELETE FROM doc WHERE no = ?",
    insertPin:
      "INSERT INTO pin (tenant, branch, seq, doc) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
    deletePins: "DELETE FROM pin WHERE doc = ?",
    pins: "SELECT seq, doc FROM pin WHERE tenant = ? AND branch = ?",
    pinnedSince: "SELECT 1 FROM pin WHERE tenant = ? AND branch = ? AND doc > ? LIMIT 1",
    lastPin: "SELECT coalesce(max(seq), 0) FROM pin WHERE tenant = ? AND branch = ?",
    /** Where sessions of an agent stand, the oldest first. Parameters: tenant, agent, limit. */
    presents: `SELECT ${presentColumns} FROM session s LEFT JOIN branch l ON l.tenant = s.tenant AND l.id = s.branch ${lastOfEach}
      WHERE s.tenant = ? AND s.agent = ? ORDER BY s.no LIMIT ${most}`,
    sessionsOfAgent: `SELECT id FROM session WHERE tenant = ? AND agent = ? ORDER BY no LIMIT ${most}`,

    /**
     * Notes for an index, where there is one: texts that are gone, or another; a session whose
     * title may be. The last parameter names it.
     */
    noteGone: `INSERT INTO unindexed (tenant, branch, first, last, ceiling)
      SELECT CAST(? AS text), CAST(? AS bigint), CAST(? AS bigint), CAST(? AS bigint), ${lastSaveNo} WHERE ${indexed}`,
    /** The same for all that stood behind what is left of a branch. */
    noteCutTexts: `INSERT INTO unindexed (tenant, branch, first, last, ceiling)
      SELECT CAST(? AS text), CAST(? AS bigint), 1 + coalesce((SELECT seq FROM save WHERE branch = ? ORDER BY seq DESC LIMIT 1), 0), CAST(? AS bigint), ${lastSaveNo}
      WHERE ${indexed}`,
    noteSession: `INSERT INTO unindexed (tenant, session) SELECT CAST(? AS text), CAST(? AS bigint) WHERE ${indexed}`,
    /**
     * An index is given up where nobody has taken in its notes for too long. Parameters: what names
     * it, and the tenant, three times.
     */
    giveUpIndex: `DELETE FROM meta WHERE key = ? AND (${noteOf("DESC")}) - (${noteOf("ASC")}) >= ${MOST_NOTED}
      AND EXISTS (${noteOf("ASC")} OFFSET ${MOST_NOTED})`,
    dropNotes: `DELETE FROM unindexed WHERE tenant = ? AND NOT ${indexed}`,
    /** The name of an index that notes are taken for: another each time one is begun. */
    indexName: "SELECT value FROM meta WHERE key = ?",
    beginIndex: "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING",

    generation: "SELECT value FROM meta WHERE key = 'generation'",
    beginGeneration:
      "INSERT INTO meta (key, value) VALUES ('generation', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",

    sessionCounts: `SELECT count(*), (SELECT count(*) FROM (SELECT agent FROM session WHERE tenant = ? AND agent IS NOT NULL
      UNION SELECT id FROM doc WHERE tenant = ? AND kind = '${AGENT}') a) FROM session WHERE tenant = ?`,
    snapshotCount: `SELECT count(*) FROM doc WHERE tenant = ? AND kind = '${SNAPSHOT}'`,
    blobBytes: "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob WHERE tenant = ?",
    /**
     * Where a stretch of so many saves ends that begins behind a place. Parameters: branch, number,
     * how many less one.
     */
    stretchEnd:
      "SELECT branch, seq FROM save WHERE (branch, seq) > (?, ?) ORDER BY branch, seq LIMIT 1 OFFSET ?",
    /** Counts of a stretch. Parameters: the tenant, behind which place, up to which. */
    saveCounts: `SELECT count(v.mark), coalesce(sum(CASE WHEN v.items IS NOT NULL THEN ${messages("v.head")} ELSE 0 END), 0),
        coalesce(sum(${bytes.replace(/\b(items|state|mark)\b/g, "v.$1")}), 0)
      FROM save v CROSS JOIN branch l WHERE l.no = v.branch AND l.tenant = ? AND (v.branch, v.seq) > (?, ?) AND (v.branch, v.seq) <= (?, ?)`,
  } as const;
}

/** Inbox messages of a session that waits, of so many ids. Parameters: tenant, session, ids. */
export const inboxBy = (ids: number): string =>
  `SELECT m.id, m.body, m.due FROM inbox m JOIN session s ON m.session = s.no
    WHERE s.tenant = ? AND s.id = ? AND m.id IN (${Array.from({ length: ids }, () => "?").join(", ")}) AND m.drained = 0 ORDER BY m.no`;

/**
 * Documents of a kind, newest first. Parameters: tenant, kind, whose where that is asked for,
 * before which number, limit.
 */
export const docsBy = (filter: { readonly of: boolean }): string =>
  `SELECT ${docColumns} FROM doc WHERE tenant = ? AND kind = ?${filter.of ? " AND whose = ?" : ""} AND no < ? ORDER BY no DESC LIMIT ${most}`;

/**
 * A save in the place of itself. Sections that stay as they are are not sent, nor written anew.
 * Parameters: as its columns, then its place.
 */
const updateSave = (items: boolean, state: boolean) =>
  `UPDATE save SET head = ?, mark = ?, note = ?${items ? ", items = ?" : ""}${state ? ", state = ?" : ""} WHERE branch = ? AND seq = ?`;

/**
 * Columns of a branch, and of the save that holds a record. Parameters: the record's number,
 * tenant, the branch's number.
 */
export const recordOf = ({ text, saveWith }: Dialect, schema: string): string =>
  `SELECT ${branchColumns}, v.seq, v.head, ${text("v.mark")}, v.note, ${text("v.items")}
    FROM ${schema}branch l LEFT JOIN ${schema}session s ON s.no = l.session ${saveWith(schema)} WHERE l.tenant = ? AND l.no = ?`;

export const sessionWith = (schema: string): string =>
  `SELECT ${sessionColumns} FROM ${schema}session s WHERE s.tenant = ? AND s.no = ?`;

/**
 * Sessions, newest first, by the filters that are given. Parameters: the tenant first, then in the
 * order of the filters.
 */
export function sessionsBy(
  { tagsOfTenant }: Dialect,
  filter: {
    readonly agent: boolean;
    readonly status: boolean;
    readonly tag: boolean;
    readonly archived: boolean | undefined;
  },
): string {
  const from = filter.tag ? `tag t JOIN session s ON s.no = t.session${tagsOfTenant}` : "session s";
  const wheres = [
    "s.tenant = ?",
    filter.tag && "t.tag = ?",
    filter.agent && "s.agent = ?",
    filter.status && "s.status = ?",
    // Not `= 0`: whatever else damage makes of it, a session must not be passed over.
    filter.archived !== undefined && `s.archived ${filter.archived ? "=" : "IS DISTINCT FROM"} 1`,
    "s.no < ?",
  ].filter((part) => part !== false);
  return `SELECT ${sessionColumns} FROM ${from} WHERE ${wheres.join(" AND ")} ORDER BY ${filter.tag ? "t.session" : "s.no"} DESC LIMIT ${most}`;
}
