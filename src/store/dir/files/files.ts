/**
 * Reading and writing files so that they survive, and so that nothing else is taken for one.
 *
 * FILE-1  a file is replaced whole: a draft beside it, synced, then renamed. Whoever reads it finds
 *         the old one or the new one.
 * FILE-2  a rename, a link or a new file is there for good once its directory was synced: alone it
 *         can vanish in a power cut.
 * FILE-3  links are not followed, and nothing but a plain file is read or waited at.
 * FILE-4  files are for their owner alone.
 * FILE-5  a call that failed has changed nothing, or the store learns that it did. So only a failed
 *         sync leaves doubt, and what was begun can be taken back after any other failure.
 *
 * All calls block. A save is one small write and one sync: through the thread pool each would cost
 * several times as much.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fdatasyncSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  type Stats,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { codeOf, Unsure } from "./failures.js";

const { O_RDONLY, O_RDWR, O_CREAT, O_EXCL } = constants;
// Systems without these have no such files either.
const GUARDED = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** Where each descriptor was opened: the system does not say it when a read fails. */
const paths = new Map<number, string>();

export interface Opened {
  readonly fd: number;
  readonly stat: Stats;
}

/** FILE-3. Undefined where there is no such file. */
export function openFile(path: string, how: "read" | "write" = "read"): Opened | undefined {
  let fd: number;
  try {
    fd = openSync(path, (how === "read" ? O_RDONLY : O_RDWR) | GUARDED);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    if (codeOf(error) === "ELOOP" || codeOf(error) === "ENXIO") throw notAFile(path, error);
    throw error;
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) throw notAFile(path);
    paths.set(fd, path);
    return { fd, stat };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

export const notAFile = (path: string, cause?: unknown): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `${quote(path)} is a link, or no plain file: it is not followed. Put back the file that stood there.`,
    { path },
    cause,
  );

/** A new file, open for writing. */
export function createFile(path: string): number {
  const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL | GUARDED, 0o600);
  paths.set(fd, path);
  return fd;
}

/** All bytes of a file, or undefined where there is none. */
export function readFile(path: string): Buffer | undefined {
  const opened = openFile(path);
  if (opened === undefined) return undefined;
  try {
    return readRange(opened.fd, 0, opened.stat.size);
  } finally {
    closeSync(opened.fd);
  }
}

/** Read once. An error names the file. */
function readAt(fd: number, into: Buffer, at: number, count: number, from: number): number {
  try {
    return readSync(fd, into, at, count, from);
  } catch (error) {
    throw Object.assign(error as Error, { path: paths.get(fd) });
  }
}

/** Bytes from `from` to `to`, fewer where the file ends before. */
export function readRange(fd: number, from: number, to: number): Buffer {
  const bytes = Buffer.allocUnsafe(to - from);
  let done = 0;
  while (done < bytes.length) {
    const read = readAt(fd, bytes, done, Math.min(bytes.length - done, MOST_AT_ONCE), from + done);
    if (read === 0) return bytes.subarray(0, done);
    done += read;
  }
  return bytes;
}

/** The system's calls take no more than 2 GiB at once. */
const MOST_AT_ONCE = 2 ** 30;

/** The same bytes, some at a time: for stretches that may be longer than memory. */
export function* readPieces(fd: number, from: number, to: number): Generator<Buffer> {
  for (let at = from; at < to; ) {
    const piece = readRange(fd, at, Math.min(to, at + PIECE_BYTES));
    if (piece.length === 0) return;
    yield piece;
    at += piece.length;
  }
}

const PIECE_BYTES = 1024 * 1024;

/**
 * As {@link readRange}, into memory that is used again: gone at the next call. New pages for each
 * load cost more than reading them.
 */
export function glance(fd: number, from: number, to: number): Buffer {
  if (to - from > GLANCE_BYTES) return readRange(fd, from, to);
  scratch ??= Buffer.allocUnsafeSlow(GLANCE_BYTES);
  let done = 0;
  while (done < to - from) {
    const read = readAt(fd, scratch, done, to - from - done, from + done);
    if (read === 0) break;
    done += read;
  }
  return scratch.subarray(0, done);
}

const GLANCE_BYTES = 512 * 1024;
let scratch: Buffer | undefined;

export function writeAll(fd: number, bytes: Uint8Array, at: number): void {
  for (let done = 0; done < bytes.length; )
    done += writeSync(fd, bytes, done, bytes.length - done, at + done);
}

export function syncFile(fd: number): void {
  try {
    fdatasyncSync(fd);
  } catch (error) {
    throw new Unsure(error);
  }
}

/**
 * A directory, open to be synced. It is opened before anything is changed in it: where that fails,
 * nothing was changed.
 */
export class OpenDirectory {
  readonly #fd: number | undefined;

  constructor(path: string) {
    // On Windows, directories cannot be opened; the system orders such changes by itself.
    this.#fd = process.platform === "win32" ? undefined : openSync(path, O_RDONLY);
  }

  /** FILE-2 */
  sync(): void {
    try {
      if (this.#fd !== undefined) fsyncSync(this.#fd);
    } catch (error) {
      throw new Unsure(error);
    }
  }

  close(): void {
    if (this.#fd !== undefined) closeSafely(this.#fd);
  }
}

/**
 * Closes a file that was synced, or only read: nothing more can be lost by it, and no change may
 * seem to have failed.
 */
function closeSafely(fd: number): void {
  try {
    closeSync(fd);
  } catch {}
}

/**
 * FILE-5: makes a change of names. Where the disk failed, `isMade` looks whether it was made all the
 * same. Then it counts, and the sync of its directory says whether it lasts.
 */
function changeNames(change: () => void, isMade: () => boolean): void {
  try {
    change();
  } catch (error) {
    if (codeOf(error) !== "EIO" || !seen(isMade, error)) throw error;
  }
}

function seen(isMade: () => boolean, failed: unknown): boolean {
  try {
    return isMade();
  } catch {
    throw new Unsure(failed);
  }
}

/** Whether the file that is open stands at a path. */
const isAt = (fd: number, path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino;

/** Puts an open draft in the place of a file. FILE-5 */
const renameDraft = (fd: number, draft: string, path: string): void =>
  changeNames(
    () => renameSync(draft, path),
    () => isAt(fd, path),
  );

/**
 * Makes a change in a directory, and makes it last (FILE-2). False as an answer: nothing was changed.
 */
export function changeDirectory<T>(path: string, change: () => T): T {
  const directory = new OpenDirectory(path);
  try {
    const answer = change();
    if (answer !== false) directory.sync();
    return answer;
  } finally {
    directory.close();
  }
}

/**
 * Makes last what stands in a directory already. A change of one's own goes through {@link
 * changeDirectory}.
 */
export const syncDirectory = (path: string): void => changeDirectory(path, () => {});

/**
 * Drafts have names of their own: what a killed process left behind is nobody's draft, and no file
 * of the store.
 */
const draftName = (path: string): string => `${path}.${randomBytes(6).toString("hex")}.draft`;
export const isDraft = (name: string): boolean => /\.[0-9a-f]{12}\.draft$/.test(name);

interface PutOptions {
  /** False where it need not outlive a power cut. */
  readonly lasting?: boolean;
  /** Called once the draft is there, and before it becomes the file. */
  readonly drafted?: (fd: number) => void;
}

/** What a file is to hold: one piece, or several that are read one after another. */
export type Content = string | Uint8Array | Iterable<Uint8Array>;

const piecesOf = (content: Content): Iterable<Uint8Array> =>
  typeof content === "string"
    ? [Buffer.from(content)]
    : content instanceof Uint8Array
      ? [content]
      : content;

/**
 * Writes and syncs a draft, and calls `place` with its path. Answers its descriptor; the caller
 * closes it.
 */
function putDraft(
  path: string,
  content: Content,
  drafted: PutOptions["drafted"],
  place: (draft: string, fd: number) => void,
): number {
  const draft = draftName(path);
  const fd = openSync(draft, O_RDWR | O_CREAT | O_EXCL, 0o600);
  try {
    let at = 0;
    for (const bytes of piecesOf(content)) {
      writeAll(fd, bytes, at);
      at += bytes.length;
    }
    // A draft that could not be synced is thrown away, and nothing is lost by it: this is a
    // failure, and no doubt.
    fsyncSync(fd);
    drafted?.(fd);
    place(draft, fd);
    return fd;
  } catch (error) {
    closeSafely(fd);
    discard(draft);
    throw error;
  }
}

/** Removes a draft. One that stays is no file of the store, so nothing fails because of it. */
function discard(draft: string): void {
  try {
    unlinkSync(draft);
  } catch {}
}

const within = <T>(path: string, lasting: boolean, change: () => T): T =>
  lasting ? changeDirectory(dirname(path), change) : change();

/** FILE-1 */
export function putFile(
  path: string,
  content: Content,
  { lasting = true, drafted }: PutOptions = {},
): void {
  within(path, lasting, () => {
    closeSafely(putDraft(path, content, drafted, (draft, made) => renameDraft(made, draft, path)));
  });
}

/** Puts a new file in place; false where there is one already, which stays. */
export function addFile(
  path: string,
  content: Content,
  { lasting = true, drafted }: PutOptions = {},
): boolean {
  return within(path, lasting, () => {
    try {
      const fd = putDraft(path, content, drafted, (draft, made) => {
        changeNames(
          () => linkSync(draft, path),
          () => isAt(made, path),
        );
        discard(draft);
      });
      closeSafely(fd);
      return true;
    } catch (error) {
      if (codeOf(error) === "EEXIST") return false;
      throw error;
    }
  });
}

/** Makes a directory, and those above it; FILE-2. */
export function makeDirectory(path: string): void {
  if (checkDirectory(path)) return;
  try {
    changeDirectory(dirname(path), () =>
      changeNames(
        () => mkdirSync(path, { mode: 0o700 }),
        () => checkDirectory(path),
      ),
    );
  } catch (error) {
    if (codeOf(error) === "ENOENT") {
      makeDirectory(dirname(path));
      return makeDirectory(path);
    }
    if (codeOf(error) !== "EEXIST") throw error;
    checkDirectory(path);
  }
}

/** FILE-3: a directory of ours that was exchanged for a link would lead out of the store. */
export function checkDirectory(path: string): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isDirectory())
    throw new HoldfastError(
      "CORRUPT",
      `${quote(path)} is a link, or no directory: it is not followed.`,
      { path },
    );
  return found !== undefined;
}

/** Removes a file that may be gone already. FILE-5 */
export function remove(path: string): void {
  try {
    changeNames(
      () => unlinkSync(path),
      () => lstatSync(path, { throwIfNoEntry: false }) === undefined,
    );
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

/** The names in a directory; none where it is not there. */
export function namesIn(path: string): string[] {
  try {
    return readdirSync(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return [];
    throw error;
  }
}
