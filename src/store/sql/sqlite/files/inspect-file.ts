/**
 * What is looked at before SQLite opens a file. SQLite recovers whatever it finds: it rolls back a
 * journal, takes in a log, deletes the log beside an empty file. Whether all of that is ours is
 * therefore decided on raw bytes, and nothing is written here.
 *
 * HEADER-1  a file of ours carries our application id from its first byte on: id and first page are
 *           one write, made without a journal. So a file without the id is either empty or somebody
 *           else's, at whatever instant the making of a store was cut short.
 * HEADER-2  there is never a rollback journal of ours, and a log or anchors only beside a file that
 *           is not empty.
 * HEADER-3  a log whose pages are of another size, or whose first page carries another id or stamp,
 *           is not of this store.
 *
 * What cannot be told before SQLite takes it in: a log in which no first page is (nothing grew
 * while it was written), and a log of this very store from another time, beside an older copy. The
 * store is then damaged; opening it, its anchors or `verify` say so.
 */
import { closeSync, lstatSync, openSync, readSync, statSync } from "node:fs";
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { APPLICATION_ID, FORMAT, formatOf, stampOf } from "../driver/schema.js";
import { Unreadable } from "../driver/unreadable.js";

const HEADER_BYTES = 100;
const MAGIC = "SQLite format 3\0";
const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
/** Ten times what SQLite lets a log grow to before it takes it in. */
const MAX_FRAMES = 10_000;

/**
 * Refuses what is not ours, without touching it. A file that is missing or empty becomes a new
 * store.
 */
export function inspect(file: string): void {
  // What stands beside the file first: whoever is making this store right now makes the file before
  // anything beside it.
  const log = sizeBeside(file, "-wal");
  const journal = sizeBeside(file, "-journal");
  const anchors = sizeBeside(file, "-anchors");
  sizeBeside(file, "-shm");
  const found = statSync(file, { throwIfNoEntry: false });
  if (found && !found.isFile()) throw notAFile(file, found.isDirectory());
  const header = found ? reading(file, (read) => read(0, HEADER_BYTES)) : Buffer.alloc(0);
  if (header.length === 0) {
    if (anchors > 0)
      throw new HoldfastError(
        "CORRUPT",
        `${quote(file)} is missing or empty, and the anchors beside it (-anchors) say that it held a store. Restore a backup, or delete the -anchors file to begin anew.`,
      );
    if (journal > 0 || log > 0)
      throw new HoldfastError(
        "NOT_A_STORE",
        `${quote(file)} is missing or empty, and the ${log > 0 ? "-wal" : "-journal"} file beside it belongs to what it held. Restore both, or move that file away to begin anew. Nothing was touched.`,
      );
    return;
  }
  checkHeader(file, header);
  if (journal > 0)
    throw new HoldfastError(
      "CORRUPT",
      `The -journal file beside ${quote(file)} is not Holdfast's. Move it away. Nothing was touched.`,
    );
  if (log > 0) checkLogFile(file, header);
}

/**
 * What a file is, by its first bytes and what stands beside it. A backup is a store that nobody has
 * opened: it is not written by log yet. Nothing that is open here may be looked at in this way (see
 * `enter`).
 */
export function kindOf(file: string): "nothing" | "store" | "backup" | "other" {
  const header = reading(file, (read) => read(0, HEADER_BYTES));
  if (header.length === 0) return "nothing";
  const isOurs =
    header.length === HEADER_BYTES &&
    header.toString("latin1", 0, 16) === MAGIC &&
    applicationIdIn(header) === APPLICATION_ID;
  if (!isOurs) return "other";
  const isWhole = formatOf(userVersionIn(header)) > 0 && header[18] === 1 && header[19] === 1;
  return isWhole && sizeBeside(file, "-wal") === 0 ? "backup" : "store";
}

/** The application id and format that a first page carries are ours, and known. */
export function checkIdentity(file: string, applicationId: number, userVersion: number): void {
  if (applicationId !== APPLICATION_ID)
    throw new HoldfastError(
      "NOT_A_STORE",
      `${quote(file)} is a database of another program. It was left untouched.`,
      {
        found: applicationId,
      },
    );
  if (userVersion < 0)
    throw new HoldfastError(
      "CORRUPT",
      `${quote(file)} says that its format is ${userVersion}. It is damaged; restore a backup.`,
      {
        found: userVersion,
      },
    );
  const format = formatOf(userVersion);
  if (format > FORMAT)
    throw new HoldfastError(
      "NEWER_FORMAT",
      `${quote(file)} has format ${format}; this Holdfast knows up to ${FORMAT}. Install a newer one. The file was left untouched.`,
      { found: format },
    );
}

/** Refuses a file that is not ours, or of a newer version, by its first bytes. */
export function checkHeaderOf(file: string): void {
  checkHeader(
    file,
    reading(file, (read) => read(0, HEADER_BYTES)),
  );
}

/**
 * Refuses a backup that is longer or shorter than it says. Its author may have put a sparse tail
 * behind it, which a copy would write out. SQLite believes the number of pages only beside the
 * number of the change that wrote it.
 */
export function checkLengthOf(file: string, bytes: number): void {
  const header = reading(file, (read) => read(0, HEADER_BYTES));
  const isCounted = header.readUInt32BE(24) === header.readUInt32BE(92);
  const stated = isCounted ? header.readUInt32BE(28) * pageSizeIn(header) : 0;
  if (stated === bytes) return;
  throw new HoldfastError(
    "CORRUPT",
    `${quote(file)} has ${bytes} bytes, and its beginning says ${stated}. It is damaged or was changed; restore another backup. Nothing was copied.`,
    { path: file },
  );
}

function checkHeader(file: string, header: Buffer): void {
  if (header.length < HEADER_BYTES || header.toString("latin1", 0, 16) !== MAGIC)
    throw new HoldfastError(
      "NOT_A_STORE",
      `${quote(file)} is not a Holdfast store, or its beginning is damaged. It was left untouched.`,
    );
  checkIdentity(file, applicationIdIn(header), userVersionIn(header));
  // How the file is to be written and read: 1 by rollback, 2 by log. SQLite makes a file read-only
  // for any other.
  const [write = 0, read] = header.subarray(18, 20);
  if (write !== read || write < 1 || write > 2)
    throw new HoldfastError(
      "CORRUPT",
      `The beginning of ${quote(file)} is damaged. Restore a backup.`,
    );
}

const applicationIdIn = (page: Buffer): number => page.readInt32BE(68);
const userVersionIn = (page: Buffer): number => page.readInt32BE(60);
// 65,536 does not fit into the two bytes, and is written as 1.
const pageSizeIn = (header: Buffer): number =>
  header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);

type Read = (at: number, bytes: number) => Buffer;

function checkLogFile(file: string, main: Buffer): void {
  try {
    reading(`${file}-wal`, (read) => checkLog(file, main, read));
  } catch (error) {
    // The last process that had the store open has closed it meanwhile, and taken its log along.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

function checkLog(file: string, main: Buffer, read: Read): void {
  const pageSize = pageSizeIn(main);
  let header = read(0, LOG_HEADER_BYTES);
  // Cut short, or zeros that a power cut left: no log yet.
  if (header.length < LOG_HEADER_BYTES || header.every((byte) => byte === 0)) return;
  // Another process may be writing it this instant; it will have done so when it is read again.
  if (!isLogHeader(header)) header = read(0, LOG_HEADER_BYTES);
  if (!isLogHeader(header))
    throw new HoldfastError(
      "CORRUPT",
      `The log beside ${quote(file)} (-wal) is damaged, or is no log. Restore it, or move it away to open the store without what it held. Nothing was touched.`,
    );
  if (header.readUInt32BE(8) !== pageSize) throw strangeLog(file);
  let before = header.subarray(24, 32);
  for (
    let frame = 0, at = LOG_HEADER_BYTES;
    frame < MAX_FRAMES;
    frame++, at += FRAME_HEADER_BYTES + pageSize
  ) {
    const head = read(at, FRAME_HEADER_BYTES);
    // Its end, or salts of an earlier round: SQLite reads no further either.
    if (head.length < FRAME_HEADER_BYTES || !head.subarray(8, 16).equals(header.subarray(16, 24)))
      return;
    if (head.readUInt32BE(0) === 1) {
      const page = read(at + FRAME_HEADER_BYTES, pageSize);
      const sum = checksum(header, checksum(header, before, head.subarray(0, 8)), page);
      // A frame that does not match its sum was never committed, or is being written.
      if (page.length < pageSize || !sum.equals(head.subarray(16, 24))) return;
      if (
        applicationIdIn(page) !== APPLICATION_ID ||
        stampOf(userVersionIn(page)) !== stampOf(userVersionIn(main))
      )
        throw strangeLog(file);
      checkIdentity(file, APPLICATION_ID, userVersionIn(page));
    }
    before = head.subarray(16, 24);
  }
}

const strangeLog = (file: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The log beside ${quote(file)} (-wal) belongs to another database. Move it away. Nothing was touched.`,
  );

const isLogHeader = (header: Buffer): boolean =>
  header.readUInt32BE(0) >>> 1 === 0x377f0682 >>> 1 &&
  checksum(header, Buffer.alloc(8), header.subarray(0, 24)).equals(header.subarray(24, 32));

/**
 * SQLite's checksum of a log: two sums that feed each other, over words in the byte order that the
 * log's header names.
 */
function checksum(header: Buffer, seed: Buffer, bytes: Buffer): Buffer {
  const bigEndian = (header.readUInt32BE(0) & 1) === 1;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let a = seed.readUInt32BE(0);
  let b = seed.readUInt32BE(4);
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + view.getUint32(at, !bigEndian) + b) >>> 0;
    b = (b + view.getUint32(at + 4, !bigEndian) + a) >>> 0;
  }
  const sum = Buffer.alloc(8);
  sum.writeUInt32BE(a, 0);
  sum.writeUInt32BE(b, 4);
  return sum;
}

/**
 * How large a file beside the store is; 0 where there is none. Anything but a file could block
 * whoever opens it.
 */
function sizeBeside(file: string, suffix: string): number {
  const found = lstatSync(file + suffix, { throwIfNoEntry: false });
  if (found && !found.isFile())
    throw new HoldfastError(
      "CORRUPT",
      `What stands beside ${quote(file)} as ${suffix} is not a file. Move it away. Nothing was touched.`,
    );
  return found?.size ?? 0;
}

function reading<T>(path: string, use: (read: Read) => T): T {
  const fd = openSync(path, "r");
  try {
    return use((at, bytes) => {
      const buffer = Buffer.alloc(bytes);
      try {
        return buffer.subarray(0, readSync(fd, buffer, 0, bytes, at));
      } catch (error) {
        throw new Unreadable(path, error);
      }
    });
  } finally {
    closeSync(fd);
  }
}

function notAFile(file: string, isDirectory: boolean): HoldfastError {
  const hint = isDirectory ? ` For a store in a directory, write ${quote(`dir:${file}`)}.` : "";
  return new HoldfastError("NOT_A_STORE", `${quote(file)} is not a file.${hint}`);
}
