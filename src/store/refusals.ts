/** What every store says in the same words. */
import { HoldfastError, quote } from "../core/values/errors.js";

export const storeClosed = (): HoldfastError =>
  new HoldfastError("CLOSED", "The store has been closed. Open it again.");

/** A call that concerns all tenants, where the store was opened for one. */
export const ofAllTenants = (call: string): HoldfastError =>
  new HoldfastError(
    "UNSUPPORTED",
    `${call} concerns every tenant of the store, and the store was opened for one of them. Open it without a tenant.`,
  );

/** A copy that only the store's own tools can make. */
export const noBackup = (advice: string): HoldfastError =>
  new HoldfastError(
    "UNSUPPORTED",
    `Only a store in one SQLite file makes backups of itself. ${advice}`,
  );

export const queueFull = (limit: number): HoldfastError =>
  new HoldfastError(
    "BUSY",
    `${limit} writes are waiting already. Wait for some of them before starting more.`,
    { limit },
  );

/**
 * Say that the disk could not read a file. What stands in the file may be sound: this is no damage.
 */
export const unreadable = (path: string, cause: unknown): HoldfastError =>
  new HoldfastError(
    "IO",
    `The disk could not read ${quote(path)}. This call changed nothing. Check the disk and the system's log, then try again; if it fails again, copy the store to another disk.`,
    { path },
    cause,
  );

/** The system has no descriptor or memory left for now: nothing was done. */
const EXHAUSTED: readonly unknown[] = ["EMFILE", "ENFILE", "ENOMEM"];
export const isExhausted = (error: unknown): boolean =>
  EXHAUSTED.includes((error as NodeJS.ErrnoException | undefined)?.code);

export const exhausted = (cause: unknown): HoldfastError =>
  new HoldfastError(
    "BUSY",
    `The system has no open files or memory to give (${quote(cause instanceof Error ? cause.message : String(cause))}). Nothing was written. Close some files or raise the limit, then try again.`,
    {},
    cause,
  );
