/**
 * A store in one SQLite file: what is checked before it is touched, how it is opened, and what stands beside it.
 *
 * F1 (D1)  write-ahead log, synced at every commit; set explicitly, because drivers are built with weaker defaults.
 * F2       a file that is not ours, or from a newer version, is refused before anything is written to it.
 * F3       the schema is exactly the one this version makes: a trigger or a view that somebody added is not run.
 * F4       files are created for their owner alone.
 * F5       rows that damage hides are not passed over in silence: the trees are checked before anything is read from them.
 * F6       a backup that is opened becomes a store of its own, in another incarnation: also a copy that somebody put there by hand.
 */
import { randomBytes, randomInt } from "node:crypto";
import { closeSync, existsSync, lstatSync, mkdirSync, openSync, realpathSync, renameSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { digest } from "../../../core/values/digest.js";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { Anchors } from "../../anchors.js";
import { refuseNetworkFileSystem } from "../../file-system.js";
import { newIncarnation } from "../../incarnation.js";
import { monotonicMs } from "../../machine.js";
import { bytesOf, concernsAbout, filesOf } from "../../place.js";
import { type Anchor, noWitnesses, type Scrubbed } from "../../port.js";
import { identityOf, isMoved, Presence } from "../../presence.js";
import { isFull, noRoomToOpen, Reserve } from "../../reserve.js";
import { SqlStore } from "../store.js";
import { type Medium, SqliteDatabase } from "./database.js";
import { translate } from "./driver/committer.js";
import { checkDriver, type Driver, type DriverName, failureOf, openDriver } from "./driver/driver.js";
import { isOpenHere, stay } from "./driver/open-files.js";
import { APPLICATION_ID, FORMAT, formatOf, PAGE_BYTES, SCHEMA, STAMPS, stampOf, userVersionOf } from "./driver/schema.js";
import { findingsOf, Unreadable } from "./driver/unreadable.js";
import { backup, markedAt } from "./files/backup.js";
import { checkSchema, schemaOf } from "./files/check-schema.js";
import { copiesBeside } from "./files/copies.js";
import { checkIdentity, inspect } from "./files/header.js";
import {
  anchorsForbidden,
  areAnchorsForbidden,
  type Copy,
  copyToLook,
  forbidden,
  isInUse,
  isLookOnly,
  lookOnly,
  notCopied,
  refuseForbidden,
} from "./files/look-only.js";
import { SqliteIndex } from "./search/sqlite-index.js";

export interface SqliteOptions {
  /** How long a busy file is waited for before a call fails with BUSY. */
  readonly busyMs?: number;
  readonly tenant?: string;
  readonly driver?: DriverName;
  /** Whether the trees of a large file are checked, too (F5). */
  readonly checks?: boolean;
}

const BUSY_MS = 5_000;
/**
 * The log holds 8 MB before SQLite moves it into the file. On a full disk the file must grow by so much at most before the log can be emptied,
 * and then there is as much room for a delete.
 */
const RESERVE_BYTES = 10 * 1024 * 1024;
const OLDEST_SQLITE = [3, 53, 2] as const;
const CHECKED_WHOLE_BYTES = 16 * 1024 * 1024;

export async function openSqlite(path: string, options: SqliteOptions = {}): Promise<SqlStore> {
  checkDriver(options.driver);
  const entered = enter(path);
  const { file, leave } = entered;
  if (!isLookOnly(file)) return startByReserve(path, entered, options, reserveOf(file));
  const refuses = lookOnly(file);
  if (isInUse(file)) {
    return start({ ...entered, place: file, refuses }, options).catch((error: unknown) => {
      // The process that had it open has closed it, and taken along the files that a look needs.
      if (isInUse(file)) throw error;
      return openSqlite(path, options);
    });
  }
  const copy = await copyToLook(file, performance.now() + (options.busyMs ?? BUSY_MS)).catch((error: unknown) => {
    leave();
    throw error;
  });
  const key = identityOf(copy.file);
  const left = stay(key);
  const end = (): void => {
    left();
    copy.remove();
    leave();
  };
  return start({ file: copy.file, key, leave: end, place: file, refuses, copy }, options);
}

/** To open a store, SQLite needs some room beside it. On a full disk the reserve lends it, a little at a time (RESERVE-4). */
async function startByReserve(path: string, entered: Entered, options: SqliteOptions, reserve: Reserve): Promise<SqlStore> {
  const { file } = entered;
  try {
    return await start({ ...entered, place: file, reserve }, options);
  } catch (error) {
    if (isFull(error) && reserve.lend()) return startByReserve(path, enter(path), options, reserve);
    reserve.takeBack();
    throw isFull(error) ? noRoomToOpen(file, reserve.isFound ? reserve.path : undefined, error) : error;
  }
}

const reserveOf = (file: string): Reserve =>
  new Reserve(`${file}-reserve`, RESERVE_BYTES, () => bytesOf([file, `${file}-wal`]) >= RESERVE_BYTES);

/** A file to open, and what it is to the caller. */
interface Opening extends Entered {
  /** The store that the caller named. */
  readonly place: string;
  /** The error of each write, where the store can only be looked at. */
  readonly refuses?: HoldfastError;
  readonly copy?: Copy;
  /** Room to delete by, and to open the store by, on a full disk. */
  readonly reserve?: Reserve;
}

async function start(opening: Opening, { busyMs = BUSY_MS, tenant = "", driver, checks = true }: SqliteOptions): Promise<SqlStore> {
  const { file, key, leave, place, refuses, copy } = opening;
  // A copy is ours to write: it is set up as any store, and writes are refused above it.
  const isReadInPlace = refuses !== undefined && copy === undefined;
  let db: Driver | undefined;
  try {
    if (copy === undefined) refuseForbidden(file);
    const deadline = performance.now() + busyMs;
    const opened = await retry(deadline, () => openDriver(file, driver, { named: place }));
    db = opened;
    await retry(deadline, () => checkVersion(opened));
    await retry(deadline, () => (isReadInPlace ? setUpToLook(opened, place) : setUp(opened, place)));
    if (!isReadInPlace) await retry(deadline, () => makeTables(opened, place));
    const storeId = await retry(deadline, () => storeIdOf(opened, place));
    await retry(deadline, () => checkTrees(opened, opening, checks));
    if (!isReadInPlace) await retry(deadline, () => becomeStore(opened, file));
    refuseExchanged(file, key);
    const gone = await retry(deadline, () => isGone(opened, tenant));
    const presence = copy === undefined ? presenceOf(file) : new Presence(() => copy.findChanged());
    const anchors = new Anchors(`${file}-anchors`, storeId, gone, presence, `${place}-anchors`);
    const database = new SqliteDatabase(opened, medium(opened, opening, anchors, tenant, presence), {
      tenant,
      busyMs,
      ...(refuses && { refuses }),
    });
    const cursorKey = tenant === "" ? undefined : `${storeId}\0${tenant}`;
    if (refuses !== undefined) return new SqlStore(database, tenant, undefined, cursorKey);
    return new SqlStore(database, tenant, new SqliteIndex(database, { store: file, tenant, driver: opened.name }, storeId), cursorKey);
  } catch (error) {
    db?.close();
    leave();
    const told = translate(error);
    throw copy !== undefined && (told.code === "IO" || told.code === "DISK_FULL") ? notCopied(place, told) : told;
  }
}

interface Entered {
  readonly file: string;
  /** Device and inode. */
  readonly key: string;
  /** Called once the file is closed. */
  readonly leave: () => void;
}

/** Finds or makes the file, and refuses what is not ours. */
function enter(path: string): Entered {
  let file = resolve(path);
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    // SQLite follows links too: what stands beside a store stands beside the file itself.
    if (lstatSync(file, { throwIfNoEntry: false })) file = realpathSync(file);
    refuseNetworkFileSystem(dirname(file));
    // One that is open here was checked before.
    if (!isOpenHere(file)) {
      inspect(file);
      create(file);
    }
    const key = identityOf(file);
    return { file, key, leave: stay(key) };
  } catch (error) {
    if (error instanceof HoldfastError || error instanceof Unreadable) throw translate(error);
    const { code, path: at = file, message } = error as NodeJS.ErrnoException;
    if (code === "EACCES" && existsSync(at)) throw forbidden(at, error);
    const isFull = code === "ENOSPC" || code === "EDQUOT";
    throw new HoldfastError(isFull ? "DISK_FULL" : "IO", `${quote(file)} cannot be opened (${quote(message)}).`, { path: at }, error);
  }
}

/** A backup was put in its place while it was being opened: its log would be taken for that of the other. */
function refuseExchanged(file: string, key: string): void {
  if (identityOf(file) !== key) throw new HoldfastError("BUSY", `${quote(file)} was replaced while it was being opened. Open it again.`);
}

/**
 * SQLite deletes the log and its index when the last connection is closed, and makes new ones at the next open. While this connection is
 * open, all three files stay the same: VACUUM, checkpoints and backups write into them, or beside them.
 */
function presenceOf(file: string): Presence {
  const watched = (paths: readonly string[]) => {
    const opened = paths.map((path) => ({ path, identity: identityOf(path) }));
    return () => opened.find(({ path, identity }) => isMoved(path, identity))?.path;
  };
  // What was written stands in the first two. The third tells processes of each other, and without it they damage the log.
  return new Presence(watched([file, `${file}-wal`]), watched([file, `${file}-wal`, `${file}-shm`]));
}

function create(file: string): void {
  if (existsSync(file)) return;
  try {
    closeSync(openSync(file, "ax", 0o600));
  } catch (error) {
    // Another process was quicker.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
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
  db.exec("PRAGMA busy_timeout = 20");
  // H1, H2: until there is a log, page 1 is written without a journal beside it. Only its first hundred bytes change (the rest of a new
  // one is zeros), so a write of it that is cut short leaves the old page or the new one.
  if (pragma(db, "journal_mode") !== "wal") db.exec("PRAGMA journal_mode = MEMORY");
  if (pragma(db, "page_count") === 0) begin(db);
  // Again, and now with what was in the log. In one transaction: another process may be making the tables between two looks.
  transaction(db, "BEGIN", () => {
    const userVersion = pragma(db, "user_version") as number;
    checkIdentity(file, pragma(db, "application_id") as number, userVersion);
    if (formatOf(userVersion) === 0 && schemaOf(db).length > 0)
      throw new HoldfastError("NOT_A_STORE", `${quote(file)} has our id and tables of another program. It was left untouched.`);
    checkSchema(db, file);
  });
  db.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON; PRAGMA cache_size = -16000; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = FAST",
  );
  if (pragma(db, "synchronous") !== 2 || pragma(db, "journal_mode") !== "wal") {
    throw new HoldfastError("UNSUPPORTED", `${quote(file)}: this file system does not allow a write-ahead log. Use a local disk.`);
  }
}

/** Sets up a connection that only reads. The process that has the store open has brought it up to date. */
function setUpToLook(db: Driver, file: string): void {
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

/** Writes the first page of a new store, with all that it is known by (H1). */
function begin(db: Driver): void {
  db.exec(`PRAGMA page_size = ${PAGE_BYTES}`);
  transaction(db, "BEGIN", () => {
    // Where each page is pointed to from is noted, so that pages can be moved to the front a few at a time (room.ts). It is said before the
    // first page is made, and makes it: in a transaction of its own, a kill behind it would leave a page that is not known to be ours.
    db.exec("PRAGMA auto_vacuum = INCREMENTAL");
    // Read again under the lock: another process may have been here in between.
    if (pragma(db, "application_id") !== 0 || schemaOf(db).length > 0) return;
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${userVersionOf(randomInt(STAMPS), 0)}`);
  });
}

/** Makes the tables of a new store. */
function makeTables(db: Driver, file: string): void {
  if (formatOf(pragma(db, "user_version") as number) !== 0) return;
  transaction(db, "BEGIN IMMEDIATE", () => {
    // Under the lock: another process may have been here in between.
    checkSchema(db, file);
    const userVersion = pragma(db, "user_version") as number;
    if (formatOf(userVersion) !== 0) return;
    db.exec(SCHEMA);
    db.exec(`PRAGMA user_version = ${userVersionOf(stampOf(userVersion), FORMAT)}`);
    db.prepare("INSERT INTO meta (key, value) VALUES ('store', ?) ON CONFLICT DO NOTHING").run(randomBytes(12).toString("base64url"));
  });
}

function storeIdOf(db: Driver, file: string): string {
  const storeId = db.prepare("SELECT value FROM meta WHERE key = 'store'").get()?.[0];
  if (typeof storeId !== "string") throw new HoldfastError("CORRUPT", `${quote(file)} has lost its id.`, { path: file });
  return storeId;
}

/** F6 */
function becomeStore(db: Driver, file: string): void {
  if (markedAt(db) === undefined) return;
  transaction(db, "BEGIN IMMEDIATE", () => {
    // Another process may have been here in between.
    if (db.prepare("DELETE FROM meta WHERE key = 'backup'").run() === 0) return;
    const incarnation = newIncarnation();
    // How far the store had come that stood here says nothing of this one. A kill behind this loses a witness, and nothing else.
    const anchors = `${file}-anchors`;
    if (existsSync(anchors)) renameSync(anchors, `${anchors}.before-${incarnation}`);
    db.prepare("INSERT INTO meta (key, value) VALUES ('incarnation', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value").run(
      incarnation,
    );
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
 * F5. A large file would take too long: there, only the tables that say what else there is are checked, and where somebody is in a hurry
 * not even those; `verify` checks the rest.
 */
function checkTrees(db: Driver, { file, place }: Opening, isThorough: boolean): void {
  const small = (pragma(db, "page_count") as number) * PAGE_BYTES < CHECKED_WHOLE_BYTES;
  if (!small && !isThorough) return;
  for (const checked of small ? [""] : ["('session')", "('line')", "('tag')", "('mail')", "('doc')", "('pin')"]) {
    const [said = ""] = findingsOf(db.prepare(`PRAGMA integrity_check${checked}`).all(), file);
    if (said !== "ok")
      throw new HoldfastError("CORRUPT", `${quote(place)} is damaged (${quote(said)}). Restore a backup.`, { path: place });
  }
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

/** Whether a line that this process has written was deleted, or its session was: its end is then no loss. */
function isGone(db: Driver, tenant: string): (witness: string) => boolean {
  const find = db.prepare("SELECT 1 FROM line WHERE tenant = ? AND id = ? AND session IS NOT NULL");
  return (witness) => find.get(tenant, lineOf(witness)) === undefined;
}

/** A line as its anchor names it. One that was brought over from another tenant has the same id in both; their names stay theirs. */
const witnessOf = (tenant: string, line: string): string => (tenant === "" ? line : `${line}@${digest(tenant).slice(0, 16)}`);
const lineOf = (witness: string): string => witness.split("@")[0] as string;

function medium(
  db: Driver,
  { file, place, leave, refuses, reserve }: Opening,
  anchors: Anchors,
  tenant: string,
  presence: Presence,
): Medium {
  reserve?.keep();
  const isWithoutAnchors = () => refuses !== undefined && areAnchorsForbidden(place);
  return {
    place,
    presence,
    ...(reserve && { reserve }),
    async backup(path, o) {
      presence.check();
      // It has a connection of its own, which outlasts the store if that is closed meanwhile.
      const left = stay(identityOf(file));
      try {
        return await backup({ file, place }, db.name, path, o);
      } finally {
        left();
      }
    },
    about() {
      const files = filesOf(place);
      return {
        kind: "sqlite",
        place,
        engine: `SQLite ${String(db.prepare("SELECT sqlite_version()").get()?.[0])} (${db.name})`,
        format: FORMAT,
        diskBytes: bytesOf(files),
        synced: "a write-ahead log, at every commit",
        concerns: [...concernsAbout(dirname(place), files), ...(isWithoutAnchors() ? [anchorsForbidden(place)] : [])],
      };
    },
    traits: { durable: true, oneMachine: true, shared: true },
    now: monotonicMs,
    saved: (line, seq, check) => anchors.note(witnessOf(tenant, line), seq, check),
    async anchors(of) {
      if (isWithoutAnchors()) return noWitnesses;
      const all = await anchors.read(of && new Set([...of].map((line) => witnessOf(tenant, line))));
      const named = (anchor: Anchor): Anchor => ({ ...anchor, line: lineOf(anchor.line) });
      return {
        of(line) {
          const anchor = all.of(witnessOf(tenant, line));
          return anchor && named(anchor);
        },
        *[Symbol.iterator]() {
          for (const anchor of all) if (witnessOf(tenant, lineOf(anchor.line)) === anchor.line) yield named(anchor);
        },
      };
    },
    scrub: async (withinMs) => {
      if (refuses !== undefined) throw refuses;
      const { left } = await scrub(db, performance.now() + withinMs);
      return { left: [...left, ...copiesBeside(place)] };
    },
    async close() {
      reserve?.close();
      await anchors.close();
      presence.close();
      try {
        db.close();
      } finally {
        leave();
        // SQLite has removed what it needed beside the store.
        reserve?.takeBack();
      }
    },
  };
}

function vacuum(db: Driver): void {
  // The copy that it makes is as large as the store: not in memory.
  db.exec("PRAGMA temp_store = FILE");
  try {
    db.exec("VACUUM");
  } finally {
    db.exec("PRAGMA temp_store = MEMORY");
  }
}

/**
 * The file is made anew from what is in it: neither free pages nor gaps inside of pages hold anything else then. The log still does, until
 * it is moved into the file and cut to nothing, which waits for whoever is just reading from it.
 */
async function scrub(db: Driver, deadline: number): Promise<Scrubbed> {
  const left: string[] = [];
  const tries = async (what: string, run: () => boolean): Promise<void> => {
    for (;;) {
      try {
        if (run()) return;
      } catch (error) {
        if (failureOf(error) !== "busy") throw translate(error);
      }
      if (performance.now() > deadline) return void left.push(what);
      await sleep(2 + Math.random() * 18);
    }
  };
  await tries("free pages of the file: others kept it busy. Run it again.", () => {
    vacuum(db);
    return true;
  });
  await tries("the write-ahead log: others were reading from it. Run it again, or close the store everywhere.", () => {
    return pragma(db, "wal_checkpoint(TRUNCATE)") === 0;
  });
  return { left };
}
