/**
 * The tables of format 1. ARCHITECTURE.md, "Format versions", says how a format changes once it is
 * released.
 *
 * Saves are rows in the order of their coming, found by branch and number through one small index.
 * Sorting the table itself by branch was measured to be five in a hundred faster for a single
 * session, and eight times slower for many that save at once: every session then has a page of its
 * own to write.
 *
 * Every column that a list of sessions can be filtered by, or a claim goes by, has an index: the
 * check of the trees when a store is opened compares the two, so that no changed bit makes a list
 * or a claim pass over a session.
 */
export const APPLICATION_ID = 0x484f4c44; // "HOLD"

/**
 * The number that SQLite keeps for us on a file's first page: the format in the low byte (0 until
 * the tables are made), and above it one drawn when the store was made. The first page is in nearly
 * every log too, so that the log of another store is told by it.
 */
export const formatOf = (userVersion: number): number => userVersion & 255;
export const stampOf = (userVersion: number): number => userVersion >>> 8;
export const userVersionOf = (stamp: number, format: number): number => stamp * 256 + format;
export const STAMPS = 2 ** 23;

/** Rows of two messages pack badly into less, and more makes the slowest saves slower. */
export const PAGE_BYTES = 8192;

/** The format that this version reads and writes. */
export const FORMAT = 1;

export const SCHEMA = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

  -- The highest number of a session, and of a branch, that was deleted: none is given twice.
  CREATE TABLE used (what TEXT PRIMARY KEY, no INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE session (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    status TEXT NOT NULL,
    agent TEXT,
    branch TEXT NOT NULL,
    head TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    until INTEGER NOT NULL,
    lease TEXT NOT NULL,
    version INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    tags TEXT NOT NULL,
    label TEXT NOT NULL,
    due INTEGER,
    wake INTEGER,
    UNIQUE (tenant, id)
  );
  CREATE INDEX session_of_tenant ON session (tenant, no);
  CREATE INDEX session_by_status ON session (tenant, status, no);
  CREATE INDEX session_by_agent ON session (tenant, agent, no) WHERE agent IS NOT NULL;
  CREATE INDEX session_archived ON session (tenant, no) WHERE archived = 1;
  -- due is the time of the head; wake is the first of it and of the times of the inbox messages that wait. A claim reads due sessions
  -- along this index in the order it gives them, and passes neither ended sessions nor the messages of other agents.
  CREATE INDEX session_by_wake ON session (tenant, agent, wake, no) WHERE wake IS NOT NULL;

  CREATE TABLE tag (tag TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (tag, session)) WITHOUT ROWID;
  CREATE INDEX tag_by_session ON tag (session);

  CREATE TABLE buried (tenant TEXT NOT NULL, id TEXT NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (tenant, id)) WITHOUT ROWID;

  CREATE TABLE branch (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    session INTEGER,
    fork_branch TEXT,
    fork_seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tenant, id)
  );
  CREATE INDEX branch_by_session ON branch (session, no);
  -- gc reads the branches of a tenant by their numbers. Without this index one statement reads the branches of all tenants: 20 ms at 450,000.
  CREATE INDEX branch_of_tenant ON branch (tenant, no);
  -- Begins with the tenant, because SQLite has no statistics here and would look for forks of a branch among all branches of the tenant.
  CREATE INDEX branch_by_fork_point ON branch (tenant, fork_branch, no) WHERE fork_branch IS NOT NULL;

  CREATE TABLE cut_branch (tenant TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tenant, id)) WITHOUT ROWID;

  CREATE TABLE save (
    no INTEGER PRIMARY KEY,
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    head TEXT NOT NULL,
    mark TEXT,
    note TEXT,
    items TEXT,
    state TEXT
  );
  CREATE UNIQUE INDEX save_by_place ON save (branch, seq);

  CREATE TABLE blob (tenant TEXT NOT NULL, digest TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (tenant, digest));
  CREATE TABLE ref (branch INTEGER NOT NULL, seq INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (branch, seq, digest)) WITHOUT ROWID;
  CREATE INDEX ref_by_digest ON ref (digest);

  CREATE TABLE inbox (
    no INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    drained INTEGER NOT NULL,
    due INTEGER NOT NULL,
    UNIQUE (session, id)
  );
  CREATE INDEX mail_waiting ON inbox (session, no) WHERE drained = 0;
  CREATE INDEX mail_by_due ON inbox (session, due) WHERE drained = 0;

  -- Documents beside the sessions, and the places that they keep.
  CREATE TABLE doc (
    no INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    whose TEXT,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    body TEXT,
    UNIQUE (tenant, kind, id)
  );
  CREATE INDEX doc_by_kind ON doc (tenant, kind, no);
  CREATE INDEX doc_by_whose ON doc (tenant, kind, whose, no) WHERE whose IS NOT NULL;
  CREATE TABLE pin (
    tenant TEXT NOT NULL,
    branch TEXT NOT NULL,
    seq INTEGER NOT NULL,
    doc INTEGER NOT NULL,
    PRIMARY KEY (tenant, branch, seq, doc)
  ) WITHOUT ROWID;
  CREATE INDEX pin_by_doc ON pin (doc);

  -- What an index for search must forget: the texts of records of a branch, and, in case the numbers of saves that went are given again, the
  -- highest that was left. Or what it must read again: the title of a session. Written only if there is such an index.
  CREATE TABLE unindexed (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    branch INTEGER,
    first INTEGER,
    last INTEGER,
    ceiling INTEGER,
    session INTEGER
  );
  CREATE INDEX unindexed_by_tenant ON unindexed (tenant, no);
`;
