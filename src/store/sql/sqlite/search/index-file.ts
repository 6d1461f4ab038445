/**
 * The file of an index for search, beside the store's own: `<file>-search`, or with a digest of the
 * tenant's name behind it. Filling it takes neither the store's lock nor its syncs, whoever deletes
 * it has it made again, and a backup need not carry it.
 *
 * SEARCHFILE-1  a file that is not such an index (another program's, a link, a directory) is moved
 *               aside, and never opened.
 * SEARCHFILE-2  one of ours that is damaged, of another version or another store, or that somebody
 *               changed, is removed and made anew.
 * SEARCHFILE-3  files are created for their owner alone. What is lost in a power cut is taken in
 *               again: it is synced only as far as it needs to be not to be damaged.
 */
import { createHash, randomBytes } from "node:crypto";
import { closeSync, lstatSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { WORDS_VERSION } from "../../../../core/search/words.js";
import { identityOf } from "../../../presence.js";
import { type Driver, type DriverName, failureOf, openDriver } from "../driver/driver.js";

/** "HOLS" */
const APPLICATION_ID = 0x484f4c53;
const FORMAT = 3;
const PAGE_BYTES = 8192;
const BUSY_MS = 5;

/**
 * `doc` is a passage of a message, whose owner is the number of its branch, or a title, whose owner
 * is that of its session below zero. The full-text table keeps no text. What it forgets still
 * counts in its averages, so scores shift a little with what was removed.
 */
const SCHEMA = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
  CREATE TABLE doc (
    no INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    passage INTEGER NOT NULL,
    role INTEGER NOT NULL,
    at INTEGER NOT NULL
  );
  CREATE UNIQUE INDEX doc_by_place ON doc (owner, seq, passage);
  CREATE VIRTUAL TABLE text USING fts5(words, content='', contentless_delete=1, tokenize='ascii');
`;

export interface IndexPlace {
  /** The store's file. */
  readonly store: string;
  readonly tenant: string;
  readonly driver: DriverName;
}

/** An open index: one connection that writes, and one that searches and sees the store too. */
export class IndexFile {
  readonly writer: Driver;
  readonly reader: Driver;
  readonly #path: string;
  readonly #inode: string;

  private constructor(path: string, writer: Driver, reader: Driver) {
    this.#path = path;
    this.writer = writer;
    this.reader = reader;
    this.#inode = identityOf(path);
  }

  /** Opens it, or makes it. `identity` says whose it must be. */
  static open({ store, tenant, driver }: IndexPlace, identity: string, anew: boolean): IndexFile {
    const path = pathOf(store, tenant);
    if (anew) remove(path);
    for (let tries = 0; ; tries++) {
      let writer: Driver | undefined;
      try {
        putAside(path);
        closeSync(openSync(path, "a", 0o600));
        writer = openDriver(path, driver);
        setUp(writer, identity);
        return new IndexFile(path, writer, readerOf(path, store, driver));
      } catch (error) {
        writer?.close();
        const isOurs = error instanceof NotThisIndex || failureOf(error) === "corrupt";
        if (!isOurs || tries > 0) throw error;
        remove(path);
      }
    }
  }

  /** Removes one that is kept up for nobody, if there is one. */
  static discard({ store, tenant }: IndexPlace): void {
    const path = pathOf(store, tenant);
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile() && isIndex(path)) remove(path);
  }

  /** Whether it is still the one that others use. */
  isThere(): boolean {
    return identityOf(this.#path) === this.#inode;
  }

  close(): void {
    for (const db of [this.reader, this.writer]) {
      try {
        db.close();
      } catch {
        // A connection that failed may not close any more either.
      }
    }
  }

  /** SEARCHFILE-2 */
  remove(): void {
    this.close();
    if (this.isThere()) remove(this.#path);
  }
}

class NotThisIndex extends Error {}

function pathOf(store: string, tenant: string): string {
  const name =
    tenant === "" ? "" : `-${createHash("sha256").update(tenant).digest("hex").slice(0, 16)}`;
  return `${store}-search${name}`;
}

function remove(path: string): void {
  for (const suffix of ["", "-wal", "-shm", "-journal"])
    rmSync(path + suffix, { force: true, recursive: false });
}

/** SEARCHFILE-1 */
function putAside(path: string): void {
  for (const suffix of ["-wal", "-shm", "-journal", ""]) {
    const found = lstatSync(path + suffix, { throwIfNoEntry: false });
    if (
      found === undefined ||
      (found.isFile() && (suffix !== "" || found.size === 0 || isIndex(path)))
    )
      continue;
    renameSync(path + suffix, `${path}${suffix}.aside-${randomBytes(4).toString("hex")}`);
  }
}

function isIndex(path: string): boolean {
  const header = Buffer.alloc(100);
  const fd = openSync(path, "r");
  try {
    readSync(fd, header, 0, header.length, 0);
  } finally {
    closeSync(fd);
  }
  return (
    header.toString("latin1", 0, 16) === "SQLite format 3\0" &&
    header.readInt32BE(68) === APPLICATION_ID
  );
}

function setUp(db: Driver, identity: string): void {
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16000`,
  );
  const own = `${FORMAT} ${WORDS_VERSION} ${identity}`;
  if (pragma(db, "page_count") === 0) {
    // The id with the first page: a file without it is not ours.
    db.exec(
      `PRAGMA page_size = ${PAGE_BYTES}; PRAGMA journal_mode = MEMORY; PRAGMA application_id = ${APPLICATION_ID}`,
    );
  }
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  if (entriesOf(db).length === 0) {
    db.exec("BEGIN IMMEDIATE");
    try {
      // Another process may have been quicker.
      if (entriesOf(db).length === 0) {
        db.exec(SCHEMA);
        db.prepare("INSERT INTO meta (key, value) VALUES ('identity', ?)").run(own);
      }
      db.exec("COMMIT");
    } catch (error) {
      if (db.inTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
  const found = entriesOf(db);
  const expected = expectedEntries(db.name);
  if (found.length !== expected.length || found.some((entry, i) => entry !== expected[i]))
    throw new NotThisIndex();
  if (db.prepare("SELECT value FROM meta WHERE key = 'identity'").get()?.[0] !== own)
    throw new NotThisIndex();
}

function readerOf(path: string, store: string, driver: DriverName): Driver {
  const db = openDriver(path, driver, { store });
  db.exec(
    `PRAGMA busy_timeout = ${BUSY_MS}; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -32000`,
  );
  db.prepare("ATTACH DATABASE ? AS store").run(store);
  db.exec("PRAGMA store.synchronous = FULL; PRAGMA query_only = ON");
  return db;
}

const pragma = (db: Driver, name: string): unknown => db.prepare(`PRAGMA ${name}`).get()?.[0];

const entriesOf = (db: Driver): string[] =>
  db
    .prepare("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
    .all()
    .map(([entry]) => String(entry));

let known: readonly string[] | undefined;

function expectedEntries(driver: DriverName): readonly string[] {
  if (known === undefined) {
    const db = openDriver(":memory:", driver);
    db.exec(SCHEMA);
    known = entriesOf(db);
    db.close();
  }
  return known;
}
