/**
 * Which stores are open in this process. Systems forget every lock that a process has on a file
 * when the process closes it anywhere: one that is open here must not be opened and closed again
 * behind SQLite's back, not even to look at its first bytes.
 */
import { closeSync, openSync } from "node:fs";
import { identityOf } from "../../../presence.js";

/** A file that is open here, and how to read it. */
interface OpenFile {
  count: number;
  /** Opened by the first who reads it. It is closed with the last connection, and not before. */
  fd: number | undefined;
  /** When the whole file was last read without failure. */
  readAt: number;
}

/** By device and inode. */
const openHere = new Map<string, OpenFile>();

/** Keeps a file among those that are open here. Answers how to end that. */
export function stay(key: string): () => void {
  const file = openHere.get(key) ?? { count: 0, fd: undefined, readAt: Number.NEGATIVE_INFINITY };
  file.count += 1;
  openHere.set(key, file);
  return () => {
    file.count -= 1;
    if (file.count > 0) return;
    openHere.delete(key);
    if (file.fd !== undefined) closeSync(file.fd);
  };
}

const find = (file: string): OpenFile | undefined => openHere.get(identityOf(file));

export const isOpenHere = (file: string): boolean => find(file) !== undefined;

/** Run `read` on a file that is open here. */
export function readOpenFile(file: string, read: (fd: number) => void): void {
  const known = find(file);
  if (known === undefined) return;
  known.fd ??= openSync(file, "r");
  read(known.fd);
}

/**
 * Run `read`, which reads the whole of a file that is open here, unless it did so without failure
 * in the last `trustedMs`.
 */
export function readWholeFile(file: string, trustedMs: number, read: (fd: number) => void): void {
  const known = find(file);
  if (known === undefined || performance.now() - known.readAt < trustedMs) return;
  readOpenFile(file, read);
  known.readAt = performance.now();
}
