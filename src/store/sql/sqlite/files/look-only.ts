/**
 * Open a store that this process may not write: a file or a directory without permission, or a
 * read-only mount.
 *
 * SQLite must make two files beside a store (-wal, -shm), even to read it. If another process has
 * the store open, both are there, and the store is read in place. Otherwise the store is copied to
 * the directory for temporary files, with its log, and the copy is read.
 *
 * LOOK-1  a look shows all that was acknowledged: what stands in the log is read, or the store is
 *         refused.
 * LOOK-2  nothing is written to the store or beside it. Each write is refused with the path of the
 *         store.
 * LOOK-3  a copy is of one moment. Once the store changes, the copy ends as a store does that was
 *         replaced (GONE-1).
 * LOOK-4  of what stands among temporary files, only a directory that this user made for itself
 *         alone is removed, with the files in it.
 */
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
} from "node:fs";
import { copyFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import type { Concern } from "../../../port/info.js";
import { unreadable } from "../../../refusals.js";
import { findUnreadable } from "../driver/unreadable.js";
import { clearLeft, draftName } from "./temp-files.js";

/** Whether this process can only look at a store. */
export const isLookOnly = (file: string): boolean => findUnwritable(file) !== undefined;

/** Whether a process has the store open, or was killed while it had. */
export const isInUse = (file: string): boolean =>
  existsSync(`${file}-wal`) && existsSync(`${file}-shm`);

/**
 * What stands in the way of writing: one of the files, or the directory where SQLite must make
 * some.
 */
function findUnwritable(file: string): string | undefined {
  const found = [file, `${file}-wal`, `${file}-shm`].find(
    (path) => existsSync(path) && !allows(path, constants.W_OK),
  );
  return (
    found ?? (isInUse(file) || allows(dirname(file), constants.W_OK) ? undefined : dirname(file))
  );
}

function allows(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** The error of each write (LOOK-2). */
export function lookOnly(file: string): HoldfastError {
  const unwritable = findUnwritable(file) ?? file;
  return new HoldfastError(
    "IO",
    `${quote(unwritable)} is read-only for this process, so the store was opened to look only. Nothing was written. Make the file and its directory writable, and open the store again.`,
    { path: unwritable === dirname(file) ? file : unwritable },
  );
}

/**
 * Refuse a store of which this process may not read a file. SQLite would call that a failed disk.
 */
export function refuseForbidden(file: string): void {
  for (const path of [file, `${file}-wal`, `${file}-shm`])
    if (existsSync(path) && !allows(path, constants.R_OK)) throw forbidden(path);
}

export const forbidden = (path: string, cause?: unknown): HoldfastError =>
  new HoldfastError(
    "IO",
    `This process may not read ${quote(path)}. Give it the permission, or run it as the user who owns the file.`,
    { path },
    cause,
  );

/**
 * Whether there are anchors that this process may not read. They are only tail anchors, so a look
 * goes on without them.
 */
export const areAnchorsForbidden = (file: string): boolean =>
  existsSync(`${file}-anchors`) && !allows(`${file}-anchors`, constants.R_OK);

/** What a look says about anchors that it did not read. */
export const anchorsForbidden = (file: string): Concern => ({
  code: "ANCHORS_UNREAD",
  message: `This process may not read ${quote(`${file}-anchors`)}, so a lost end of a session is not noticed here.`,
  fix: "Run it as the user who owns the file, or give it the permission.",
});

export interface Copy {
  readonly file: string;
  /** Answers the path of the store if it has changed since (LOOK-3). */
  findChanged(): string | undefined;
  remove(): void;
}

const PARTS = ["", "-wal", "-anchors"] as const;
const PREFIX = "holdfast-look.";
const OWNER_ALONE = 0o700;
/** In a directory with this bit, a user can exchange only what is theirs. */
const STICKY = 0o1000;
const isWindows = process.platform === "win32";
/**
 * Copies that are still there. They are removed when the process exits. What a killed process left,
 * the next one removes.
 */
const copies = new Set<string>();
/** One listener for all copies, as long as the process lives. */
let isRemovedAtExit = false;

export async function copyToLook(file: string, deadline: number): Promise<Copy> {
  const directory = makeDirectory(file);
  const remove = (): void => {
    removeFiles(directory);
    copies.delete(directory);
  };
  try {
    for (;;) {
      const before = momentOf(file);
      const to = join(directory, basename(file));
      for (const part of PARTS) {
        rmSync(to + part, { force: true });
        if (!existsSync(file + part) || (part === "-anchors" && areAnchorsForbidden(file)))
          continue;
        await copyFile(file + part, to + part);
        // A copy has the mode of its file, and SQLite writes to the copy.
        chmodSync(to + part, 0o600);
      }
      if (momentOf(file) === before)
        return {
          file: to,
          findChanged: () => (momentOf(file) === before ? undefined : file),
          remove,
        };
      if (performance.now() > deadline)
        throw new HoldfastError(
          "BUSY",
          `${quote(file)} kept changing while it was copied to be looked at. Try again.`,
          { path: file },
        );
      await sleep(20);
    }
  } catch (error) {
    remove();
    if (error instanceof HoldfastError) throw error;
    const failed = FULL.includes((error as NodeJS.ErrnoException).code)
      ? undefined
      : findUnreadable(file);
    throw failed === undefined ? notCopied(file, error) : unreadable(failed.path, failed);
  }
}

function makeDirectory(file: string): string {
  try {
    removeLeft();
    const directory = join(tmpdir(), PREFIX + draftName());
    mkdirSync(directory, { mode: OWNER_ALONE });
    copies.add(directory);
    if (!isRemovedAtExit) process.once("exit", removeAll);
    isRemovedAtExit = true;
    return directory;
  } catch (error) {
    throw notCopied(file, error);
  }
}

/**
 * Remove what killed processes left (LOOK-4). All users share the directory for temporary files,
 * and any of them can make something there under the name of a copy. Root would remove it for them,
 * and through a link that is put there meanwhile, files of other users as well.
 */
function removeLeft(): void {
  if (!isGuarded(tmpdir())) return;
  clearLeft(tmpdir(), PREFIX, (directory) => {
    if (isOurs(directory)) removeFiles(directory);
  });
}

/** Whether only root and this user can exchange what this user has made in a directory. */
function isGuarded(directory: string): boolean {
  const { uid, mode } = statSync(directory);
  return (
    isWindows ||
    ((uid === 0 || uid === process.getuid?.()) && ((mode & 0o022) === 0 || (mode & STICKY) !== 0))
  );
}

function isOurs(directory: string): boolean {
  const found = lstatSync(directory, { throwIfNoEntry: false });
  if (!found?.isDirectory()) return false;
  return isWindows || (found.uid === process.getuid?.() && (found.mode & 0o777) === OWNER_ALONE);
}

/**
 * Each file by its name, and no directory: a copy has none. Twice, because a thread may be making
 * one more where a process is ended.
 */
function removeFiles(directory: string): void {
  for (let round = 0; round < 2; round++) {
    try {
      for (const name of readdirSync(directory)) unlinkSync(join(directory, name));
      rmdirSync(directory);
    } catch {
      // It is gone, or it is no copy.
    }
  }
}

function removeAll(): void {
  for (const directory of copies) removeFiles(directory);
}

/** What tells that a store or its log has changed. */
const momentOf = (file: string): string =>
  [file, `${file}-wal`]
    .map((path) => statSync(path, { throwIfNoEntry: false, bigint: true }))
    .map((found) => (found ? `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}` : ""))
    .join(" ");

const FULL: readonly unknown[] = ["ENOSPC", "EDQUOT", "DISK_FULL"];

/** Say that no copy could be made, or that SQLite failed at the copy. */
export const notCopied = (file: string, error: unknown): HoldfastError => {
  const { code, message } = error as NodeJS.ErrnoException;
  return new HoldfastError(
    FULL.includes(code) ? "DISK_FULL" : "IO",
    `${quote(file)} is read-only for this process, and could not be copied to ${quote(tmpdir())} to be looked at (${quote(message)}). Set TMPDIR to a directory with room for it, or copy the store yourself and open the copy.`,
    { path: file },
    error,
  );
};
