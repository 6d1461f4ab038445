/**
 * Set up a connection: its settings, the tables of a new store, and what is checked before anything
 * is read (SQLITE-1 to SQLITE-6).
 */
import { randomBytes, randomInt } from "node:crypto";
import { existsSync, renameSync } from "node:fs";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { newGeneration } from "../../generation.js";
import type { Driver } from "./driver/driver.js";
import {
  APPLICATION_ID,
  FORMAT,
  formatOf,
  PAGE_BYTES,
  SCHEMA,
  STAMPS,
  stampOf,
  userVersionOf,
} from "./driver/schema.js";
import { findingsOf } from "./driver/unreadable.js";
import { markedAt } from "./files/backup.js";
import { checkSchema, schemaOf } from "./files/check-schema.js";
import { checkIdentity } from "./files/inspect-file.js";

const OLDEST_SQLITE = [3, 53, 2] as const;
const CHECKED_WHOLE_BYTES = 16 * 1024 * 1024;

export function checkVersion(db: Driver): void {
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

export function setUp(db: Driver, file: string): void {
  db.exec("PRAGMA busy_timeout = 20");
  // HEADER-1, HEADER-2: until there is a log, page 1 is written without a journal beside it. Only its first
  // hundred bytes change (the rest of a new one is zeros), so a write of it that is cut short
  // leaves the old page or the new one.
  if (pragma(db, "journal_mode") !== "wal") db.exec("PRAGMA journal_mode = MEMORY");
  if (pragma(db, "page_count") === 0) begin(db);
  // Again, and now with what was in the log. In one transaction: another process may be making the
  // tables between two looks.
  transaction(db, "BEGIN", () => {
    const userVersion = pragma(db, "user_version") as number;
    checkIdentity(file, pragma(db, "application_id") as number, userVersion);
    if (formatOf(userVersion) === 0 && schemaOf(db).length > 0)
      throw new HoldfastError(
        "NOT_A_STORE",
        `${quote(file)} has our id and tables of another program. It was left untouched.`,
      );
    checkSchema(db, file);
  });
  db.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST",
  );
  if (pragma(db, "synchronous") !== 2 || pragma(db, "journal_mode") !== "wal") {
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(file)}: this file system does not allow a write-ahead log. Use a local disk.`,
    );
  }
}

/**
 * Sets up a connection that only reads. The process that has the store open has brought it up to
 * date.
 */
export function setUpToLook(db: Driver, file: string): void {
  db.exec("PRAGMA busy_timeout = 20; PRAGMA query_only = ON; PRAGMA cache_size = -16000");
  const userVersion = pragma(db, "user_version") as number;
  checkIdentity(file, pragma(db, "application_id") as number, userVersion);
  if (formatOf(userVersion) === 0)
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(file)} is a store without tables, and this process may not write them. Open it once where it can be written.`,
      { path: file },
    );
  checkSchema(db, file);
}

/** Writes the first page of a new store, with all that it is known by (HEADER-1). */
function begin(db: Driver): void {
  db.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  transaction(db, "BEGIN", () => {
    // Where each page is pointed to from is noted, so that pages can be moved to the front a few at
    // a time (reclaim-space.ts). It is said before the first page is made, and makes it: in a
    // transaction of its own, a kill behind it would leave a page that is not known to be ours.
    db.exec("PRAGMA auto_vacuum = INCREMENTAL");
    // Read again under the lock: another process may have been here in between.
    if (pragma(db, "application_id") !== 0 || schemaOf(db).length > 0) return;
    db.exec(
      `PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${userVersionOf(randomInt(STAMPS), 0)}`,
    );
  });
}

/** Makes the tables of a new store. */
export function makeTables(db: Driver, file: string): void {
  if (formatOf(pragma(db, "user_version") as number) !== 0) return;
  transaction(db, "BEGIN IMMEDIATE", () => {
    // Under the lock: another process may have been here in between.
    checkSchema(db, file);
    const userVersion = pragma(db, "user_version") as number;
    if (formatOf(userVersion) !== 0) return;
    db.exec(SCHEMA);
    db.exec(`PRAGMA user_version = ${userVersionOf(stampOf(userVersion), FORMAT)}`);
    db.prepare("INSERT INTO meta (key, value) VALUES ('store', ?) ON CONFLICT DO NOTHING").run(
      randomBytes(12).toString("base64url"),
    );
  });
}

export function storeIdOf(db: Driver, file: string): string {
  const storeId = db.prepare("SELECT value FROM meta WHERE key = 'store'").get()?.[0];
  if (typeof storeId !== "string")
    throw new HoldfastError("CORRUPT", `${quote(file)} has lost its id.`, { path: file });
  return storeId;
}

/** SQLITE-6 */
export function becomeStore(db: Driver, file: string): void {
  if (markedAt(db) === undefined) return;
  transaction(db, "BEGIN IMMEDIATE", () => {
    // Another process may have been here in between.
    if (db.prepare("DELETE FROM meta WHERE key = 'backup'").run() === 0) return;
    const generation = newGeneration();
    // How far the store had come that stood here says nothing of this one. A kill behind this loses
    // a tail anchor, and nothing else.
    const anchors = `${file}-anchors`;
    if (existsSync(anchors)) renameSync(anchors, `${anchors}.before-${generation}`);
    db.prepare(
      "INSERT INTO meta (key, value) VALUES ('generation', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    ).run(generation);
  });
}

function transaction(db: Driver, begin: "BEGIN" | "BEGIN IMMEDIATE", run: () => void): void {
  db.exec(begin);
  try {
    run();
    db.exec("COMMIT");
  } catch (error) {
    if (db.inTransaction) db.exec("ROLLBACK");
    throw error;
  }
}

/**
 * SQLITE-5. A large file would take too long: there, only the tables that say what else there is are
 * checked, and not even those unless `isThorough`; `verify` checks the rest.
 */
export function checkTrees(
  db: Driver,
  { file, place }: { readonly file: string; readonly place: string },
  isThorough: boolean,
): void {
  const small = (pragma(db, "page_count") as number) * PAGE_BYTES < CHECKED_WHOLE_BYTES;
  if (!small && !isThorough) return;
  for (const checked of small
    ? [""]
    : ["('session')", "('branch')", "('tag')", "('inbox')", "('doc')", "('pin')"]) {
    const [said = ""] = findingsOf(db.prepare(`PRAGMA integrity_check${checked}`).all(), file);
    if (said !== "ok")
      throw new HoldfastError(
        "CORRUPT",
        `${quote(place)} is damaged (${quote(said)}). Restore a backup.`,
        { path: place },
      );
  }
}

const pragma = (db: Driver, name: string): unknown => db.prepare(`PRAGMA ${name}`).get()?.[0];
