/**
 * Tell a file that the disk cannot read from a file that is damaged.
 *
 * SQLite reports both as damage: it turns a failed read (EIO) into SQLITE_CORRUPT before a driver
 * sees it. So when SQLite reports damage of a store that is open here, its file and its log are
 * read once from their beginning. The read ends after a second: of a very large file a failure may
 * stay undetected, and is then called damage.
 *
 * SQLite's integrity check names the pages that it could not get, so those are read, and no others.
 * For two kinds of page it does not say why: a page of a long row that goes on in other pages, and
 * a page of the pointer map.
 */
import { closeSync, existsSync, openSync, readSync } from "node:fs";
import type { Row } from "../../database.js";
import { readOpenFile, readWholeFile } from "./open-files.js";
import { PAGE_BYTES } from "./schema.js";

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
  return failureIn(file, (readLog) =>
    readWholeFile(file, TRUSTED_MS, (fd) => {
      readToEnd(fd, deadline);
      readLog(deadline);
    }),
  );
}

/**
 * Answer the failure if the disk cannot read these pages of a store that is open here, or its log:
 * SQLite takes a page from either.
 */
const findUnreadablePages = (file: string, pages: readonly number[]): Unreadable | undefined =>
  failureIn(file, (readLog) =>
    readOpenFile(file, (fd) => {
      for (const page of new Set(pages))
        readSync(fd, Buffer.allocUnsafe(PAGE_BYTES), 0, PAGE_BYTES, (page - 1) * PAGE_BYTES);
      readLog(Number.POSITIVE_INFINITY);
    }),
  );

function failureIn(
  file: string,
  read: (readLog: (deadline: number) => void) => void,
): Unreadable | undefined {
  const log = `${file}-wal`;
  let path = file;
  try {
    read((deadline) => {
      path = log;
      if (existsSync(log)) reading(log, (fd) => readToEnd(fd, deadline));
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

/**
 * Answer the lines of SQLite's integrity check. Throw where one says that a page could not be read:
 * that is no damage.
 */
export function findingsOf(rows: readonly Row[], file: string): readonly string[] {
  const lines = rows.map(([line]) => String(line).replace("*** in database main ***\n", ""));
  const unread = lines.find(isUnread);
  const doubted = lines.flatMap(mapPagesIn);
  if (unread === undefined && doubted.length === 0) return lines;
  const failed = findUnreadablePages(file, [...lines.flatMap(pagesIn), ...doubted]);
  if (failed !== undefined) throw failed;
  if (unread !== undefined) throw new Unreadable(file, new Error(unread));
  return lines;
}

/**
 * The page that SQLite uses for its locks. It holds no data, so SQLite refuses to get it, and a row
 * that goes on there is damaged.
 */
const LOCK_PAGE = 0x40000000 / PAGE_BYTES + 1;
/**
 * Each page of the pointer map stands before the pages that it speaks of, with five bytes for each.
 */
const MAPPED = Math.floor(PAGE_BYTES / 5) + 1;

const numbersIn = (line: string, pattern: RegExp): number[] =>
  [...line.matchAll(pattern)].map(([, number]) => Number(number));
const pagesIn = (line: string): number[] =>
  numbersIn(line, /\bfailed to get page (\d+)/g).filter((page) => page !== LOCK_PAGE);

/** SQLite also prints this line for a page of the pointer map that it read, and that is damaged. */
const mapPagesIn = (line: string): number[] =>
  numbersIn(line, /\bFailed to read ptrmap key=(\d+)/g).map((page) => {
    const map = Math.floor((page - 2) / MAPPED) * MAPPED + 2;
    return map === LOCK_PAGE ? map + 1 : map;
  });

/**
 * The low byte of the code is SQLITE_IOERR, 10. The number of the page was checked before, so only
 * a read can have failed.
 */
const isUnread = (line: string): boolean =>
  numbersIn(line, /\berror code=(\d+)/g).some((code) => (code & 255) === 10) ||
  pagesIn(line).length > 0;
