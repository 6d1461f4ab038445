/**
 * How a store in one SQLite file is opened: in place, by its reserve on a full disk, or as a copy
 * that is only looked at.
 *
 * SQLITE-1 (D1)  write-ahead log, synced at every commit; set explicitly, because drivers are built
 *           with weaker defaults.
 * SQLITE-2  a file that is not ours, or from a newer version, is refused before anything is written
 *           to it.
 * SQLITE-3  the schema is exactly the one this version makes: a trigger or a view that was added to
 *           it is not run.
 * SQLITE-4  files are created for their owner alone.
 * SQLITE-5  rows that damage hides are not passed over in silence: the trees are checked before
 *           anything is read from them.
 * SQLITE-6  a backup that is opened becomes a store of its own, in another generation: also a copy
 *           that was put there by hand.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { AnchorFile } from "../../anchors.js";
import { bytesOf } from "../../place.js";
import { identityOf, Presence } from "../../presence.js";
import { isFull, noRoomToOpen, Reserve } from "../../reserve.js";
import { SqlStore } from "../store.js";
import { translate } from "./driver/committer.js";
import {
  checkDriver,
  type Driver,
  type DriverName,
  failureOf,
  openDriver,
} from "./driver/driver.js";
import { stay } from "./driver/open-files.js";
import { type Entered, enter, presenceOf, refuseExchanged } from "./files/find-file.js";
import {
  type Copy,
  copyToLook,
  isInUse,
  isLookOnly,
  lookOnly,
  notCopied,
  refuseForbidden,
} from "./files/look-only.js";
import type { OpenedFile } from "./maintenance.js";
import { sqliteParts } from "./parts.js";
import { SqliteIndex } from "./search/sqlite-index.js";
import {
  becomeStore,
  checkTrees,
  checkVersion,
  makeTables,
  setUp,
  setUpToLook,
  storeIdOf,
} from "./set-up.js";
import { findGone, TenantAnchors } from "./tenant-anchors.js";

export interface SqliteOptions {
  /** How long a busy file is waited for before a call fails with BUSY. */
  readonly busyMs?: number;
  readonly tenant?: string;
  readonly driver?: DriverName;
  /** Whether the trees of a large file are checked, too (SQLITE-5). */
  readonly checks?: boolean;
}

const BUSY_MS = 5_000;
/**
 * The log holds 8 MB before SQLite moves it into the file. On a full disk the file must grow by so
 * much at most before the log can be emptied, and then there is as much room for a delete.
 */
const RESERVE_BYTES = 10 * 1024 * 1024;

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
  const copy = await copyToLook(file, performance.now() + (options.busyMs ?? BUSY_MS)).catch(
    (error: unknown) => {
      leave();
      throw error;
    },
  );
  const key = identityOf(copy.file);
  const left = stay(key);
  const end = (): void => {
    left();
    copy.remove();
    leave();
  };
  return start({ file: copy.file, key, leave: end, place: file, refuses, copy }, options);
}

/**
 * To open a store, SQLite needs some room beside it. On a full disk the reserve lends it, a little
 * at a time (RESERVE-4).
 */
async function startByReserve(
  path: string,
  entered: Entered,
  options: SqliteOptions,
  reserve: Reserve,
): Promise<SqlStore> {
  const { file } = entered;
  try {
    return await start({ ...entered, place: file, reserve }, options);
  } catch (error) {
    if (isFull(error) && reserve.lend()) return startByReserve(path, enter(path), options, reserve);
    reserve.takeBack();
    throw isFull(error)
      ? noRoomToOpen(file, reserve.isFound ? reserve.path : undefined, error)
      : error;
  }
}

const reserveOf = (file: string): Reserve =>
  new Reserve(
    `${file}-reserve`,
    RESERVE_BYTES,
    () => bytesOf([file, `${file}-wal`]) >= RESERVE_BYTES,
  );

/** A file to open, and what it is to the caller. The reserve is also room to open the store by. */
interface Opening extends Entered, Pick<OpenedFile, "place" | "refuses" | "reserve"> {
  readonly copy?: Copy;
}

async function start(
  opening: Opening,
  { busyMs = BUSY_MS, tenant = "", driver, checks = true }: SqliteOptions,
): Promise<SqlStore> {
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
    await retry(deadline, () =>
      isReadInPlace ? setUpToLook(opened, place) : setUp(opened, place),
    );
    if (!isReadInPlace) await retry(deadline, () => makeTables(opened, place));
    const storeId = await retry(deadline, () => storeIdOf(opened, place));
    await retry(deadline, () => checkTrees(opened, opening, checks));
    if (!isReadInPlace) await retry(deadline, () => becomeStore(opened, file));
    refuseExchanged(file, key);
    const isGone = await retry(deadline, () => findGone(opened, tenant));
    const presence = copy === undefined ? presenceOf(file) : new Presence(() => copy.findChanged());
    const anchors = new AnchorFile(
      `${file}-anchors`,
      storeId,
      isGone,
      presence,
      `${place}-anchors`,
    );
    const parts = sqliteParts(
      opened,
      { ...opening, presence, anchors: new TenantAnchors(opened, anchors, tenant), busyMs },
      tenant,
    );
    const cursorKey = tenant === "" ? undefined : `${storeId}\0${tenant}`;
    if (refuses !== undefined) return new SqlStore(parts, { tenant, cursorKey });
    const index = new SqliteIndex(parts.db, { store: file, tenant, driver: opened.name }, storeId);
    return new SqlStore(parts, { tenant, cursorKey, index });
  } catch (error) {
    db?.close();
    leave();
    const told = translate(error);
    throw copy !== undefined && (told.code === "IO" || told.code === "DISK_FULL")
      ? notCopied(place, told)
      : told;
  }
}

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
