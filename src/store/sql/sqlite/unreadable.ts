/**
 * Tell a file that the disk cannot read from a file that is damaged.
 *
 * SQLite reports both as damage: it turns a failed read (EIO) into SQLITE_CORRUPT before a driver sees it. So when SQLite reports damage of a
 * store that is open here, its file and its log are read once from their beginning. The read ends after a second: of a very large file a
 * failure may stay undetected, and is then called damage. `verify` reads all of it, and is exact.
 */
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import type { Row } from "../database.js";
import { readOpenFile } from "./open-files.js";

const MOST_MS = 1_000;
/** A file that was read without failure is not read again for so long. */
const TRUSTED_MS = 10_000;
const AT_ONCE = 1024 * 1024;

/** A read that failed, with the file that the disk could not read. */
export class Unreadable extends Error {
  readonly code = "SQLITE_IOERR_READ";
  readonly path: string;

  constructor(path: string, cause: unknown) {
    super(`the disk could not read ${path}`, { cause });
    this.path = path;
  }
}

/** Answer the failure if the disk cannot read a store that is open here. */
export function findUnreadable(file: string): Unreadable | undefined {
  const deadline = performance.now() + MOST_MS;
  const log = `${file}-wal`;
  let path = file;
  try {
    readOpenFile(file, TRUSTED_MS, (fd) => {
      readToEnd(fd, deadline);
      path = log;
      if (existsSync(log)) reading(log, (own) => readToEnd(own, deadline));
    });
    return undefined;
  } catch (error) {
    return new Unreadable(path, error);
  }
}

function reading(path: string, read: (fd: number) => void): void {
  const fd = openSync(path, "r");
  try {
    read(fd);
  } finally {
    closeSync(fd);
  }
}

function readToEnd(fd: number, deadline: number): void {
  const bytes = Buffer.allocUnsafe(AT_ONCE);
  for (let at = 0; performance.now() < deadline; ) {
    const read = readSync(fd, bytes, 0, AT_ONCE, at);
    if (read === 0) return;
    at += read;
  }
}

/** Answer the lines of SQLite's integrity check. Throw where one says that a page could not be read: that is no damage. */
export function findingsOf(rows: readonly Row[], file: string): readonly string[] {
  const lines = rows.map(([line]) => String(line).replace("*** in database main ***\n", ""));
  const failed = lines.find(isUnread);
  if (failed !== undefined) throw new Unreadable(file, new Error(failed));
  return lines;
}

/** The low byte of the code is SQLITE_IOERR, 10. */
const isUnread = (line: string): boolean => [...line.matchAll(/\berror code=(\d+)/g)].some(([, code]) => (Number(code) & 255) === 10);
