/**
 * A backup of a store in one SQLite file: a copy of all there is at one moment, made while others
 * write.
 *
 * BACKUP-1  a read transaction is held while pages are copied a few at a time: nobody waits for it,
 *           and what is written meanwhile is not in it.
 * BACKUP-2  whatever stands at the path is replaced by one rename, once the copy is whole, checked
 *           and synced; a kill leaves the old one, and at most a draft that the next backup clears
 *           away.
 * BACKUP-3  the copy says of itself that it is one, so that whoever opens it begins another
 *           generation; and it has a stamp of its own, so that no log of the original is taken for
 *           its own (HEADER-3).
 */
import { randomInt } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { isOnNetwork } from "../../../file-system.js";
import type { Backup, BackupOptions } from "../../../port/copies.js";
import { translate } from "../driver/committer.js";
import { type Driver, type DriverName, failureOf, openDriver } from "../driver/driver.js";
import { isOpenHere } from "../driver/open-files.js";
import { formatOf, PAGE_BYTES, STAMPS, userVersionOf } from "../driver/schema.js";
import { findUnreadable, Unreadable } from "../driver/unreadable.js";
import { checkSchema } from "./check-schema.js";
import { checkFile } from "./check-thread.js";
import { kindOf } from "./inspect-file.js";
import { dropDraft, newDraft, putInPlace } from "./temp-files.js";

/** Two megabytes: a few milliseconds, after which others have their turn. */
const PAGES_AT_ONCE = 256;
/**
 * The system is given the pages to write as they come. All at once, at the end, they would hold up
 * whoever else writes.
 */
const SYNC_EVERY = 4_096;
const BUSY_MS = 5_000;

/**
 * A store that is open here. `place`: the store that the caller named, where the file is a copy of
 * it.
 */
export interface Source {
  readonly file: string;
  readonly place: string;
}

/** Writes a backup of a store that is open here. */
export async function backup(
  source: Source,
  driver: DriverName,
  path: string,
  o: BackupOptions,
): Promise<Backup> {
  const target = resolve(path);
  let draft: string | undefined;
  try {
    refuse(target, o.force);
    o.signal?.throwIfAborted();
    draft = newDraft(target);
    await copy(source, driver, draft, o);
    const sessions = markAsBackup(draft, driver);
    await checkFile(draft, driver, o.signal);
    o.signal?.throwIfAborted();
    await putInPlace(draft, target);
    return { bytes: statSync(target).size, sessions };
  } catch (error) {
    if (draft !== undefined) dropDraft(draft);
    // An abort is the caller's own, with the reason that was given.
    if (o.signal?.aborted && error === o.signal.reason) throw error;
    throw failed(error, target);
  }
}

function refuse(target: string, force: boolean): void {
  const directory = dirname(target);
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new HoldfastError(
      "NOT_FOUND",
      `There is no directory ${quote(directory)} for the backup. Make it first.`,
    );
  if (isOnNetwork(directory))
    throw new HoldfastError(
      "UNSUPPORTED",
      `${quote(directory)} is on a network file system, where nobody can say when a file is safe. Make the backup on a local disk, and copy the finished file there.`,
    );
  const there = lstatSync(target, { throwIfNoEntry: false });
  if (there === undefined) return;
  if (!there.isFile())
    throw new HoldfastError(
      "CONFLICT",
      `${quote(target)} is there already, and is not a file. Choose another path.`,
    );
  const kind = isOpenHere(target) ? "store" : kindOf(target);
  if (kind === "store" || kind === "other")
    throw new HoldfastError(
      "CONFLICT",
      `${quote(target)} is there already, and is ${kind === "store" ? "a store" : "not a backup of Holdfast"}. Choose another path.`,
    );
  if (!force)
    throw new HoldfastError(
      "CONFLICT",
      `There is a backup at ${quote(target)} already. Choose another path, or force it to be replaced.`,
    );
}

/** BACKUP-1 */
async function copy(
  { file, place }: Source,
  driver: DriverName,
  draft: string,
  { signal, onProgress }: BackupOptions,
): Promise<void> {
  const written = await open(draft, "r+");
  let db: Driver | undefined;
  let synced = 0;
  let syncing: Promise<void> | undefined;
  const sync = () => {
    syncing ??= written
      .datasync()
      .catch(() => {})
      .finally(() => {
        syncing = undefined;
      });
  };
  try {
    db = openDriver(file, driver, { named: place });
    db.exec("PRAGMA busy_timeout = 20");
    await beginReading(db);
    const all = Number(db.prepare("PRAGMA page_count").get()?.[0]);
    const step = (pages: number) => {
      signal?.throwIfAborted();
      onProgress?.({ bytes: pages * PAGE_BYTES, of: all * PAGE_BYTES });
      if (pages - synced < SYNC_EVERY) return;
      synced = pages;
      sync();
    };
    // Drivers do not agree on whether they tell of the beginning and the end.
    step(0);
    await db.copyTo(draft, PAGES_AT_ONCE, step).catch((error: unknown) => {
      // SQLite says that the disk failed, and not at which of the two files.
      throw (failureOf(error) === "io" ? findUnreadable(file) : undefined) ?? error;
    });
    step(all);
  } finally {
    db?.close();
    await syncing;
    await written.close();
  }
}

async function beginReading(db: Driver): Promise<void> {
  for (const deadline = performance.now() + BUSY_MS; ; ) {
    try {
      if (!db.inTransaction) db.exec("BEGIN");
      // The transaction is of the moment of its first look.
      db.prepare("SELECT count(*) FROM meta").get();
      return;
    } catch (error) {
      if (failureOf(error) !== "busy" || performance.now() > deadline) throw error;
    }
    await sleep(2 + Math.random() * 18);
  }
}

/**
 * BACKUP-3. Nobody else knows of the file yet: what is cut short here is thrown away. Answers how many
 * sessions are in it.
 */
function markAsBackup(draft: string, driver: DriverName): number {
  const db = openDriver(draft, driver);
  try {
    // Without a log: one file is all there is, and what it is shows in its first bytes.
    db.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF");
    checkSchema(db, draft);
    mark(db);
    restamp(db);
    return Number(db.prepare("SELECT count(*) FROM session").get()?.[0]);
  } finally {
    db.close();
  }
}

/** Says of a store that it is a copy, and since when. */
export function mark(db: Driver): void {
  db.prepare(
    "INSERT INTO meta (key, value) VALUES ('backup', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  ).run(new Date().toISOString());
}

/** When a store was marked as a copy; undefined where it was not. */
export const markedAt = (db: Driver): string | undefined =>
  db.prepare("SELECT value FROM meta WHERE key = 'backup'").get()?.[0] as string | undefined;

export function restamp(db: Driver): void {
  const format = formatOf(Number(db.prepare("PRAGMA user_version").get()?.[0]));
  db.exec(`PRAGMA user_version = ${userVersionOf(randomInt(STAMPS), format)}`);
}

function failed(error: unknown, target: string): HoldfastError {
  const { code } = error as { code?: unknown };
  if (code === "ENOSPC" || code === "EDQUOT" || failureOf(error) === "full")
    return new HoldfastError(
      "DISK_FULL",
      `There is no room for the backup at ${quote(target)}. Nothing is left of it.`,
      {},
      error,
    );
  if (typeof code === "string" && /^E[A-Z]+$/.test(code))
    return new HoldfastError(
      "IO",
      `The backup could not be written to ${quote(target)} (${code}). Nothing is left of it.`,
      {},
      error,
    );
  if (failureOf(error) === "io" && !(error instanceof Unreadable))
    return new HoldfastError(
      "IO",
      `The backup could not be written to ${quote(target)} (${(error as Error).message}). Nothing is left of it.`,
      { path: target },
      error,
    );
  return translate(error);
}
