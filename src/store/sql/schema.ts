/**
 * The tables, as numbered migrations. A migration that has been released is never changed again; a change is a new number.
 *
 * `save.id` is the line's number and the record's number in one integer. The row id is what SQLite sorts a table by, so the saves of
 * a line lie side by side and a save is one row in one tree: no second index is written by it.
 */
export const APPLICATION_ID = 0x484f4c44; // "HOLD"

export const migrations: readonly string[] = [
  `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

  CREATE TABLE session (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL,
    agent TEXT,
    head TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    until INTEGER NOT NULL,
    lease TEXT NOT NULL,
    version INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    tags TEXT NOT NULL,
    label TEXT NOT NULL
  );
  CREATE INDEX session_by_status ON session (status, no);
  CREATE INDEX session_by_agent ON session (agent, no);

  CREATE TABLE tag (tag TEXT NOT NULL, session INTEGER NOT NULL, PRIMARY KEY (tag, session)) WITHOUT ROWID;
  CREATE INDEX tag_by_session ON tag (session);

  CREATE TABLE buried (id TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE line (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    session INTEGER,
    origin_line TEXT,
    origin_seq INTEGER NOT NULL,
    body TEXT NOT NULL
  );
  CREATE INDEX line_by_session ON line (session, no);
  CREATE INDEX line_by_origin ON line (origin_line, no);

  CREATE TABLE cut_line (id TEXT PRIMARY KEY) WITHOUT ROWID;

  CREATE TABLE save (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    n_items INTEGER NOT NULL,
    n_state INTEGER NOT NULL,
    n_mark INTEGER NOT NULL,
    n_messages INTEGER NOT NULL,
    prior INTEGER NOT NULL,
    base INTEGER NOT NULL,
    prev TEXT NOT NULL,
    sealed TEXT NOT NULL,
    items_digest TEXT,
    state_digest TEXT,
    mark TEXT,
    note TEXT,
    items TEXT,
    state TEXT
  );

  CREATE TABLE blob (digest TEXT PRIMARY KEY, bytes BLOB NOT NULL);
  CREATE TABLE ref (save INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (save, digest)) WITHOUT ROWID;
  CREATE INDEX ref_by_digest ON ref (digest);

  CREATE TABLE mail (
    no INTEGER PRIMARY KEY AUTOINCREMENT,
    session INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL,
    drained INTEGER NOT NULL,
    UNIQUE (session, id)
  );
  CREATE INDEX mail_waiting ON mail (session, no) WHERE drained = 0;
  `,
];
