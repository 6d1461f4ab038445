/** What goes wrong with files, as our errors. Never shown raw. */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { exhausted, isExhausted, unreadable } from "../../refusals.js";

/**
 * Something may have been written, or not: a sync failed, or what was half done could not be taken
 * back. Nothing more is written after it: the system may have forgotten the pages it could not
 * write, and a second sync would report success.
 */
export class Unsure extends Error {
  constructor(cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** Takes back what was done, the last step first (DIR-3). */
export function takeBack(undo: readonly (() => void)[]): void {
  try {
    for (const step of undo.toReversed()) step();
  } catch (error) {
    throw new Unsure(error);
  }
}

export const codeOf = (error: unknown): string | undefined =>
  (error as NodeJS.ErrnoException | undefined)?.code;

const FULL: readonly unknown[] = ["ENOSPC", "EDQUOT", "EFBIG"];
const NOT_A_FILE: readonly unknown[] = ["ELOOP", "ENXIO", "EISDIR", "ENOTDIR"];
const READ_ONLY: readonly unknown[] = ["EROFS", "EACCES", "EPERM"];

const READS: readonly unknown[] = ["read", "open", "lstat", "stat", "fstat", "scandir"];

/**
 * Whether the disk failed to read. Such a failure changes nothing: it is neither damage nor a write
 * of unknown outcome.
 */
function isUnreadable(error: unknown): boolean {
  return codeOf(error) === "EIO" && READS.includes((error as NodeJS.ErrnoException).syscall);
}

export function translate(error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const said = quote(error instanceof Error ? error.message : String(error));
  const code = codeOf(error);
  const path = (error as NodeJS.ErrnoException | undefined)?.path;
  if (isUnreadable(error)) return unreadable(path ?? "a file of the store", error);
  if (error instanceof Unsure) {
    return new HoldfastError(
      "IO",
      `The disk failed (${said}). Whether the last write is kept is unknown; close the store and open it again.`,
      {},
      error,
    );
  }
  if (code === "EIO")
    return new HoldfastError(
      "IO",
      `The disk failed (${said}). The change was not made. Check the disk, then try again.`,
      path === undefined ? {} : { path },
      error,
    );
  if (FULL.includes(code))
    return new HoldfastError(
      "DISK_FULL",
      "There is no room left on the disk. Nothing was written; try again once there is room.",
      {},
      error,
    );
  if (isExhausted(error)) return exhausted(error);
  if (READ_ONLY.includes(code))
    return new HoldfastError(
      "IO",
      `The system does not allow it (${said}). Check the permissions of the store, and whether it is on a read-only mount.`,
      path === undefined ? {} : { path },
      error,
    );
  if (NOT_A_FILE.includes(code))
    return new HoldfastError(
      "CORRUPT",
      `Something else stands in the place of one of the store's files (${said}).`,
      {},
      error,
    );
  return new HoldfastError("IO", `A file of the store could not be used (${said}).`, {}, error);
}

/** The directory or file of the store that a call did not find. */
export function missingPath(error: unknown): string | undefined {
  const { code, path } = ((error instanceof Unsure ? error.cause : error) ??
    {}) as NodeJS.ErrnoException;
  if (code !== "ENOENT" || path === undefined) return undefined;
  return existsSync(dirname(path)) ? path : dirname(path);
}

/**
 * Whether a file could not be looked at: the disk failed, or the system had no descriptor or
 * memory. That says nothing of the file.
 */
export const isUnseen = (error: unknown): boolean => isUnreadable(error) || isExhausted(error);

/**
 * Whether nothing more may be written after this failure. A call that failed in any other way has
 * changed nothing (FILE-5).
 */
export const isLasting = (error: unknown): boolean => error instanceof Unsure;
