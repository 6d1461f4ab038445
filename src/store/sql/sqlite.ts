/**
 * A store in one SQLite file: what is checked before it is touched, how it is opened, and what stands beside it.
 *
 * F1 (D1)  write-ahead log, synced at every commit; set explicitly, because drivers are built with weaker defaults.
 * F2       a file that is not ours, or from a newer version, is refused before anything is written to it.
 * F3       the schema is exactly the one this version makes: a trigger or a view that somebody added is not run.
 * F4       files are created for their owner alone.
 */
import { randomBytes } from "node:crypto";
import { closeSync, mkdirSync, openSync, readSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../../core/errors.js";
import { Anchors } from "../anchors.js";
import { monotonicMs } from "../machine.js";
import { translate } from "./committer.js";
import { type Driver, type DriverName, failureOf, openDriver } from "./driver.js";
import { APPLICATION_ID, migrations } from "./schema.js";
import { type Medium, SqlStore } from "./store.js";

export interface SqliteOptions {
  /** How long a busy file is waited for before a call fails with BUSY. */
  readonly busyMs?: number;
  readonly driver?: DriverName;
}

const OLDEST_SQLITE = [3, 53, 2] as const;
const PAGE_BYTES = 8192;

export async function openSqlite(path: string, { busyMs = 5_000, driver }: SqliteOptions = {}): Promise<SqlStore> {
  const file = resolve(path);
  prepareFile(file);
  const deadline = performance.now() + busyMs;
  const db = await retry(deadline, () => openDriver(file, driver));
  try {
    checkVersion(db);
    await retry(deadline, () => setUp(db, file));
    const storeId = await retry(deadline, () => migrate(db, file));
    checkSchema(db, file);
    return new SqlStore(db, medium(db, new Anchors(`${file}-anchors`, storeId)), busyMs);
  } catch (error) {
    db.close();
    throw translate(error);
  }
}

function prepareFile(file: string): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    refuseNetworkFileSystem(dirname(file));
    closeSync(openSync(file, "ax", 0o600));
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    if ((error as NodeJS.ErrnoException).code !== "EEXIST")
      throw new HoldfastError("IO", `${quote(file)} cannot be created (${(error as Error).message}).`, {}, error);
  }
  checkHeader(file);
}

/** Looks at the first hundred bytes without SQLite, which would change some foreign files by opening them. */
function checkHeader(file: string): void {
  if (!statSync(file).isFile()) throw new HoldfastError("NOT_A_STORE", `${quote(file)} is not a file.`);
  const header = Buffer.alloc(100);
  let read: number;
  try {
    const fd = openSync(file, "r");
    try {
      read = readSync(fd, header);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw new HoldfastError("IO", `${quote(file)} cannot be read (${(error as Error).message}).`, {}, error);
  }
  if (read === 0) return;
  if (read < 100 || header.toString("latin1", 0, 16) !== "SQLite format 3\0") {
    throw new HoldfastError("NOT_A_STORE", `${quote(file)} is not a Holdfast store, or its beginning is damaged. It was left untouched.`);
  }
  // A store whose making was cut short has no id yet; whether it is empty is checked once it is open.
  checkIdentity(file, header.readInt32BE(68), header.readInt32BE(60));
}

function checkIdentity(file: string, applicationId: number, version: number): void {
  if (applicationId !== 0 && applicationId !== APPLICATION_ID) {
    throw new HoldfastError("NOT_A_STORE", `${quote(file)} is a database of another program. It was left untouched.`, {
      found: applicationId,
    });
  }
  if (applicationId === APPLICATION_ID && version > migrations.length) {
    throw new HoldfastError(
      "NEWER_FORMAT",
      `${quote(file)} has format ${version}; this Holdfast knows up to ${migrations.length}. Install a newer one. The file was left untouched.`,
      { found: version },
    );
  }
}

// Magic numbers of file systems on which locks or syncs cannot be relied on: NFS, SMB, CIFS, SMB2, AFS, Coda, 9p, Ceph.
const NETWORK: ReadonlySet<number> = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42, 0x5346414f, 0x73757245, 0x01021997, 0x00c36400]);

function refuseNetworkFileSystem(directory: string): void {
  if (process.platform === "linux" && NETWORK.has(statfsSync(directory).type)) {
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(directory)} is on a network file system, where SQLite can lose what it acknowledged. Use a local disk, or Postgres.`,
    );
  }
}

function checkVersion(db: Driver): void {
  const version = String(db.prepare("SELECT sqlite_version()").get()?.[0]);
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const [a, b, c] = OLDEST_SQLITE;
  if (major < a || (major === a && (minor < b || (minor === b && patch < c)))) {
    throw new HoldfastError(
      "UNSUPPORTED",
      `SQLite ${version} can damage a file that several processes share; ${OLDEST_SQLITE.join(".")} or newer is needed. Update ${db.name}.`,
      { found: version },
    );
  }
}

function setUp(db: Driver, file: string): void {
  db.exec("PRAGMA busy_timeout = 20; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
  if (pragma(db, "application_id") === 0) {
    if (Number(db.prepare("SELECT count(*) FROM sqlite_schema").get()?.[0]) > 0) {
      throw new HoldfastError("NOT_A_STORE", `${quote(file)} is a database of another program. It was left untouched.`);
    }
    // The id goes into the file itself, before there is a log it could wait in.
    db.exec(`PRAGMA page_size = ${PAGE_BYTES}; PRAGMA application_id = ${APPLICATION_ID}`);
  }
  db.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; PRAGMA cache_size = -16000",
  );
  if (pragma(db, "synchronous") !== 2 || pragma(db, "journal_mode") !== "wal") {
    throw new HoldfastError("UNSUPPORTED", `${quote(file)}: this file system does not allow a write-ahead log. Use a local disk.`);
  }
}

/** Brings the schema up to date. Answers the store's id. */
function migrate(db: Driver, file: string): string {
  checkIdentity(file, APPLICATION_ID, pragma(db, "user_version") as number);
  if (pragma(db, "user_version") !== migrations.length) {
    db.exec("BEGIN IMMEDIATE");
    try {
      // Read again under the lock: another process may have been here in between.
      for (let version = pragma(db, "user_version") as number; version < migrations.length; version++) {
        db.exec(migrations[version] as string);
        db.exec(`PRAGMA user_version = ${version + 1}`);
      }
      db.prepare("INSERT INTO meta (key, value) VALUES ('store', ?) ON CONFLICT DO NOTHING").run(randomBytes(12).toString("base64url"));
      db.exec("COMMIT");
    } catch (error) {
      if (db.inTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
  const storeId = db.prepare("SELECT value FROM meta WHERE key = 'store'").get()?.[0];
  if (typeof storeId !== "string") throw new HoldfastError("CORRUPT", `${quote(file)} has lost its id.`);
  return storeId;
}

function checkSchema(db: Driver, file: string): void {
  const found = schemaOf(db);
  const expected = expectedSchema(db.name);
  const odd = found.find((entry) => !expected.includes(entry)) ?? expected.find((entry) => !found.includes(entry));
  if (odd !== undefined)
    throw new HoldfastError(
      "CORRUPT",
      `${quote(file)} does not have the tables it should (${quote(odd)}). Somebody changed it; restore a backup.`,
    );
}

const schemaOf = (db: Driver): string[] =>
  db
    .prepare("SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY 1")
    .all()
    .map(([entry]) => String(entry));

let expectedEntries: readonly string[] | undefined;

function expectedSchema(driver: DriverName): readonly string[] {
  if (expectedEntries === undefined) {
    const db = openDriver(":memory:", driver);
    for (const migration of migrations) db.exec(migration);
    expectedEntries = schemaOf(db);
    db.close();
  }
  return expectedEntries;
}

const pragma = (db: Driver, name: string): unknown => db.prepare(`PRAGMA ${name}`).get()?.[0];

async function retry<T>(deadline: number, run: () => T): Promise<T> {
  for (;;) {
    try {
      return run();
    } catch (error) {
      if (failureOf(error) !== "busy" || performance.now() > deadline) throw translate(error);
    }
    await sleep(2 + Math.random() * 18);
  }
}

function medium(db: Driver, anchors: Anchors): Medium {
  return {
    traits: { durable: true, oneMachine: true, shared: true },
    now: monotonicMs,
    saved: (line, seq, check) => anchors.note(line, seq, check),
    anchors: () => anchors.read(),
    async compact() {
      const before = (pragma(db, "page_count") as number) * PAGE_BYTES;
      if ((pragma(db, "freelist_count") as number) * PAGE_BYTES < before / 4) return 0;
      try {
        db.exec("VACUUM");
      } catch (error) {
        // Others are writing: the free pages are used again by the next saves, so nothing is lost by leaving them.
        if (failureOf(error) === "busy") return 0;
        throw translate(error);
      }
      return before - (pragma(db, "page_count") as number) * PAGE_BYTES;
    },
    async close() {
      await anchors.close();
      db.close();
    },
  };
}
