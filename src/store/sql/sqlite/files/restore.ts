/**
 * A backup put in the place of a store.
 *
 * BACKUP-4  the backup is only read, as bytes; what is opened and checked is a copy of it beside
 *           the target.
 * BACKUP-5  a store that any process has open is not replaced. What stood in its place is kept
 *           under a name that says so, with all that belongs to it; it is a copy from then on, too,
 *           and can be restored like one.
 * BACKUP-6  there is a store at the path at every instant at which there was one before: the copy
 *           takes its place by one rename.
 */
import {
  chmodSync,
  constants,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { copyFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { refuseNetworkFileSystem } from "../../../file-system.js";
import { identityOf } from "../../../presence.js";
import { translate } from "../driver/committer.js";
import {
  checkDriver,
  type Driver,
  type DriverName,
  defaultDriver,
  failureOf,
  openDriver,
} from "../driver/driver.js";
import { isOpenHere } from "../driver/open-files.js";
import { mark, markedAt, restamp } from "./backup.js";
import { checkSchema } from "./check-schema.js";
import { checkFile } from "./check-thread.js";
import { REPLACED } from "./copies.js";
import { checkHeaderOf, checkLengthOf, inspect, kindOf } from "./inspect-file.js";
import { dropDraft, newDraft, putInPlace } from "./temp-files.js";

export interface RestoreOptions {
  /** Whether a store that stands in the place is put aside. */
  readonly force: boolean;
  readonly driver?: DriverName;
}

export interface RestoreBackupReport {
  readonly bytes: number;
  /** When the backup was made. */
  readonly madeAt: string;
  readonly sessions: number;
  /** Sessions that were under way, of all tenants: each opens as in doubt. */
  readonly unfinished: number;
  /** Where the store is that stood there before. */
  readonly setAside?: string;
}

const OWNER_ALONE = 0o600;
const UNDER_WAY = "'in-progress', 'waiting', 'in-doubt'";

export async function restoreSqlite(
  from: string,
  to: string,
  { force, driver = defaultDriver() }: RestoreOptions,
): Promise<RestoreBackupReport> {
  const source = resolve(from);
  let target = resolve(to);
  let draft: string | undefined;
  try {
    refuseSource(source);
    checkDriver(driver);
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    if (lstatSync(target, { throwIfNoEntry: false })) target = realpathSync(target);
    refuseNetworkFileSystem(dirname(target));
    const isTaken = refuseTarget(source, target, force);
    draft = newDraft(target);
    await copyFile(source, draft, constants.COPYFILE_FICLONE);
    // A copy has the mode of its file, which may be one that all can read. What stood there tells
    // who may read it here.
    chmodSync(draft, (statSync(target, { throwIfNoEntry: false })?.mode ?? OWNER_ALONE) & 0o777);
    refuseForeign(draft, source, driver);
    await checkFile(draft, driver);
    const counts = prepare(draft, source, driver);
    const bytes = statSync(draft).size;
    if (!isTaken) {
      await putInPlace(draft, target);
      return { bytes, ...counts };
    }
    return { bytes, ...counts, setAside: await replace(draft, target, driver) };
  } catch (error) {
    if (draft !== undefined) dropDraft(draft);
    throw failed(error, source, target);
  }
}

function refuseSource(source: string): void {
  const found = statSync(source, { throwIfNoEntry: false });
  if (found === undefined)
    throw new HoldfastError("NOT_FOUND", `There is no backup ${quote(source)}.`);
  if (!found.isFile()) throw new HoldfastError("NOT_A_STORE", `${quote(source)} is not a file.`);
  if (isOpenHere(source) || kindOf(source) === "store") throw notABackup(source);
  checkHeaderOf(source);
  checkLengthOf(source, found.size);
}

const notABackup = (source: string): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `${quote(source)} is a store, not a backup, or was opened as one since. Make a backup of it (holdfast backup), and restore that.`,
  );

/** Answers whether something stands there that must be put aside. */
function refuseTarget(source: string, target: string, force: boolean): boolean {
  const there = statSync(target, { throwIfNoEntry: false });
  if (there && !there.isFile())
    throw new HoldfastError(
      "NOT_A_STORE",
      `${quote(target)} is not a file. It was left untouched.`,
    );
  if (there && identityOf(target) === identityOf(source))
    throw new HoldfastError(
      "CONFLICT",
      `${quote(target)} is the backup itself. Restore it to another path.`,
    );
  if (isOpenHere(target)) throw inUse(target);
  const isTaken = (there?.size ?? 0) > 0 || SIDES.some((suffix) => existsSync(target + suffix));
  if (isTaken && !force)
    throw new HoldfastError(
      "CONFLICT",
      `There is a store at ${quote(target)} already. Restore to another path, or force it to be put aside; it is kept beside.`,
    );
  if (there && there.size > 0 && kindOf(target) === "other")
    throw new HoldfastError(
      "NOT_A_STORE",
      `${quote(target)} is not a Holdfast store, or its beginning is damaged. Move it away first.`,
    );
  return isTaken;
}

const SIDES = ["-anchors", "-wal", "-shm"] as const;

const inUse = (target: string): HoldfastError =>
  new HoldfastError(
    "BUSY",
    `Some process has ${quote(target)} open. Stop all that use it, then restore again. Nothing was changed.`,
  );

/** TABLES-1. Before the trees are checked: that runs what a schema holds. */
function refuseForeign(draft: string, source: string, driver: DriverName): void {
  checkHeaderOf(draft);
  const db = openDriver(draft, driver);
  try {
    checkSchema(db, source);
  } finally {
    db.close();
  }
}

/** Checks what only SQLite can read, and gives the copy a stamp of its own. */
function prepare(
  draft: string,
  source: string,
  driver: DriverName,
): Pick<RestoreBackupReport, "madeAt" | "sessions" | "unfinished"> {
  const db = openDriver(draft, driver);
  try {
    db.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    const madeAt = markedAt(db);
    if (madeAt === undefined) throw notABackup(source);
    restamp(db);
    const count = (where: string) =>
      Number(db.prepare(`SELECT count(*) FROM session ${where}`).get()?.[0]);
    return { madeAt, sessions: count(""), unfinished: count(`WHERE status IN (${UNDER_WAY})`) };
  } finally {
    db.close();
  }
}

/** BACKUP-5, BACKUP-6. The old store's lock is held until another stands in its place. */
async function replace(draft: string, target: string, driver: DriverName): Promise<string> {
  const aside = freeName(target);
  const old = isOurs(target) ? takeDown(target, driver) : undefined;
  try {
    await putInPlace(draft, target, () => {
      // First what stands beside it: a store without its tail anchors is whole, and with those of
      // another it is not.
      for (const suffix of SIDES)
        if (existsSync(target + suffix)) renameSync(target + suffix, aside + suffix);
      if (existsSync(target)) keep(target, aside);
    });
    return aside;
  } finally {
    old?.close();
    // Without a log there is nothing that it needs.
    if (old !== undefined) rmSync(`${aside}-shm`, { force: true });
  }
}

/** Whether SQLite may open it: what it finds beside a file it takes in, or deletes. */
function isOurs(target: string): boolean {
  try {
    inspect(target);
    return (statSync(target, { throwIfNoEntry: false })?.size ?? 0) > 0;
  } catch {
    return false;
  }
}

function freeName(target: string): string {
  const name = `${target}${REPLACED}${new Date().toISOString().replaceAll(":", "-")}`;
  return existsSync(name) ? `${name}-${process.pid}` : name;
}

/** A second name for what stands there; or, where there are no such names, the only one. */
function keep(target: string, aside: string): void {
  try {
    linkSync(target, aside);
  } catch {
    renameSync(target, aside);
  }
}

/**
 * Takes the log of a store into its file, makes a backup of it, and keeps everybody out until it is
 * closed. Undefined where it is too damaged for that: then it is kept as it stands, with its log.
 */
function takeDown(target: string, driver: DriverName): Driver | undefined {
  const db = openDriver(target, driver);
  try {
    // Whoever has the store open has a lock on it, and this needs all of them.
    db.exec("PRAGMA busy_timeout = 200; PRAGMA locking_mode = EXCLUSIVE");
    // A copy that was put here and never opened has no log: its journal would stay beside it (HEADER-2).
    if (db.prepare("PRAGMA journal_mode").get()?.[0] !== "wal")
      db.exec("PRAGMA journal_mode = MEMORY");
    db.exec("BEGIN IMMEDIATE");
    if (!isSound(db, target)) {
      db.close();
      return undefined;
    }
    mark(db);
    db.exec("COMMIT");
    // The log goes into the file. There is never a journal beside a store of ours, not even for
    // this (HEADER-2).
    if (db.prepare("PRAGMA journal_mode = MEMORY").get()?.[0] !== "memory") throw inUse(target);
    return db;
  } catch (error) {
    db.close();
    if (error instanceof HoldfastError) throw error;
    if (failureOf(error) === "busy") throw inUse(target);
    return undefined;
  }
}

/** Whether a write runs nothing but what we know (TABLES-1). */
function isSound(db: Driver, target: string): boolean {
  try {
    checkSchema(db, target);
    return true;
  } catch (error) {
    if (error instanceof HoldfastError) return false;
    throw error;
  }
}

function failed(error: unknown, source: string, target: string): HoldfastError {
  const { code } = error as { code?: unknown };
  const translated = translate(error);
  // It names the copy, which is gone.
  if (translated.code === "CORRUPT" && translated.details.path !== source)
    return new HoldfastError(
      "CORRUPT",
      `The backup ${quote(source)} is damaged, and was not restored. What stood at ${quote(target)} is kept. Restore another backup.`,
      { path: source },
      error,
    );
  if (code === "ENOSPC" || code === "EDQUOT" || failureOf(error) === "full")
    return new HoldfastError(
      "DISK_FULL",
      `There is no room for the copy beside ${quote(target)}. Nothing was changed.`,
      {},
      error,
    );
  if (typeof code === "string" && /^E[A-Z]+$/.test(code))
    return new HoldfastError(
      "IO",
      `The backup could not be restored to ${quote(target)} (${code}). What stood there is kept.`,
      {},
      error,
    );
  return translated;
}
