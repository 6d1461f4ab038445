/** Find or make the file of a store, and refuse one that is not ours. */
import { closeSync, existsSync, lstatSync, mkdirSync, openSync, realpathSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { refuseNetworkFileSystem } from "../../../file-system.js";
import { identityOf, isMoved, Presence } from "../../../presence.js";
import { translate } from "../driver/committer.js";
import { isOpenHere, stay } from "../driver/open-files.js";
import { Unreadable } from "../driver/unreadable.js";
import { inspect } from "./inspect-file.js";
import { forbidden } from "./look-only.js";

export interface Entered {
  readonly file: string;
  /** Device and inode. */
  readonly key: string;
  /** Called once the file is closed. */
  readonly leave: () => void;
}

/** Finds or makes the file, and refuses what is not ours. */
export function enter(path: string): Entered {
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
    throw new HoldfastError(
      isFull ? "DISK_FULL" : "IO",
      `${quote(file)} cannot be opened (${quote(message)}).`,
      { path: at },
      error,
    );
  }
}

/**
 * A backup was put in its place while it was being opened: its log would be taken for that of the
 * other.
 */
export function refuseExchanged(file: string, key: string): void {
  if (identityOf(file) !== key)
    throw new HoldfastError(
      "BUSY",
      `${quote(file)} was replaced while it was being opened. Open it again.`,
    );
}

/**
 * SQLite deletes the log and its index when the last connection is closed, and makes new ones at
 * the next open. While this connection is open, all three files stay the same: VACUUM, checkpoints
 * and backups write into them, or beside them.
 */
export function presenceOf(file: string): Presence {
  const watched = (paths: readonly string[]) => {
    const opened = paths.map((path) => ({ path, identity: identityOf(path) }));
    return () => opened.find(({ path, identity }) => isMoved(path, identity))?.path;
  };
  // What was written stands in the first two. The third tells processes of each other, and without
  // it they damage the log.
  return new Presence(
    watched([file, `${file}-wal`]),
    watched([file, `${file}-wal`, `${file}-shm`]),
  );
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
