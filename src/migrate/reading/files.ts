/**
 * The files of a directory that somebody else wrote.
 *
 * SOURCE-1  only regular files inside of it are read: no link is followed, of a file or of a
 *           directory, and what a file says of another is compared as a name and never opened.
 * SOURCE-2  a file is read only if it is the one that was found when the directory was listed, and
 *           is where it was found: a directory on the way may become a link and a directory again
 *           at any time.
 * SOURCE-3  what is not read is said, and why.
 */
import { constants } from "node:fs";
import { type FileHandle, lstat, open, readdir, readlink, realpath } from "node:fs/promises";
import { join } from "node:path";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { Report } from "./report.js";

/** A string of Node's holds about 512 MiB; no value that Holdfast takes comes near this. */
export const MAX_FILE_BYTES = 256 * 1024 * 1024;
const MAX_DEPTH = 16;
const MAX_FILES = 1_000_000;

export interface FoundFile {
  /** From the root, with `/` between names. */
  readonly path: string;
  readonly name: string;
  readonly bytes: number;
  readonly mtimeMs: number;
  readonly dev: number;
  readonly ino: number;
}

/** What stands in the way of reading a file; the rest goes on. */
export const unreadable = (why: string, cause?: unknown): HoldfastError =>
  new HoldfastError("INVALID_VALUE", why, {}, cause);

/** The given path, resolved once: it may be a link itself, as whoever gave it chose it. */
export async function rootOf(
  path: string,
): Promise<{ readonly root: string; readonly isDirectory: boolean }> {
  if (typeof path !== "string" || path === "" || path.includes("\0"))
    throw new HoldfastError(
      "INVALID_OPTION",
      "path: it must be the path of a directory or a file.",
      { path: "path" },
    );
  try {
    const root = await realpath(path);
    const found = await lstat(root);
    if (!found.isDirectory() && !found.isFile())
      throw new HoldfastError(
        "INVALID_OPTION",
        `${quote(path)} is neither a directory nor a file.`,
        { path },
      );
    return { root, isDirectory: found.isDirectory() };
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw new HoldfastError(
      "NOT_FOUND",
      `${quote(path)} cannot be read (${codeOf(error)}). Name the directory to import.`,
      { path },
      error,
    );
  }
}

/** All that end in `.json`, in the order of their paths. The others are counted in a note. */
export async function jsonFiles(
  root: string,
  report: Report,
  signal?: AbortSignal,
): Promise<readonly FoundFile[]> {
  const files: FoundFile[] = [];
  let others = 0;
  const visit = async (
    folder: string,
    depth: number,
    found?: Pick<FoundFile, "dev" | "ino">,
  ): Promise<void> => {
    for (const name of await namesIn(join(root, folder), found, (why) =>
      report.skip(folder === "" ? "." : folder, why),
    )) {
      signal?.throwIfAborted();
      const path = folder === "" ? name : `${folder}/${name}`;
      const entry = await lstat(join(root, path)).catch((error: unknown) =>
        report.skip(path, `It cannot be read (${codeOf(error)}).`),
      );
      if (entry === undefined) continue;
      if (entry.isSymbolicLink())
        report.skip(path, "It is a symbolic link, and those are not followed.");
      else if (entry.isDirectory()) {
        if (depth === MAX_DEPTH)
          report.skip(path, `Directories more than ${MAX_DEPTH} levels down are not looked into.`);
        else await visit(path, depth + 1, entry);
      } else if (!entry.isFile()) report.skip(path, "It is not a regular file.");
      else if (!name.endsWith(".json")) others += 1;
      else {
        if (files.length === MAX_FILES)
          throw new HoldfastError(
            "TOO_LARGE",
            `There are more than ${MAX_FILES} files. Import a part at a time.`,
            { limit: MAX_FILES },
          );
        const { size, mtimeMs, dev, ino } = entry;
        files.push({ path, name, bytes: size, mtimeMs, dev, ino });
      }
    }
  };
  await visit("", 0);
  if (others > 0)
    report.note(
      `${others} ${others === 1 ? "file does" : "files do"} not end in .json and were not looked at.`,
    );
  return files;
}

/** The names in a directory, which is the one that was found. */
async function namesIn(
  path: string,
  found: Pick<FoundFile, "dev" | "ino"> | undefined,
  skip: (why: string) => void,
): Promise<readonly string[]> {
  try {
    const names = (await readdir(path)).sort();
    const now = await lstat(path);
    const isSame =
      now.isDirectory() &&
      (found === undefined || (now.dev === found.dev && now.ino === found.ino));
    if (isSame && (await realpath(path)) === path) return names;
    skip(REPLACED);
  } catch (error) {
    skip(`The directory cannot be read (${codeOf(error)}).`);
  }
  return [];
}

const REPLACED = "It was replaced while it was being imported.";

/** The bytes of a file that was found. Throws where it is another by now. */
export async function readFound(root: string, file: FoundFile): Promise<Buffer> {
  if (file.bytes > MAX_FILE_BYTES)
    throw unreadable(`It is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`);
  const path = join(root, file.path);
  let handle: FileHandle | undefined;
  try {
    // A pipe that was put there meanwhile must not hold us up.
    handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const now = await handle.stat();
    const isSame = now.isFile() && now.dev === file.dev && now.ino === file.ino;
    if (!isSame || (await placeOf(handle, path)) !== path) throw unreadable(REPLACED);
    if (now.size > MAX_FILE_BYTES)
      throw unreadable(`It is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`);
    return await handle.readFile();
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw unreadable(`It cannot be read (${codeOf(error)}).`, error);
  } finally {
    await handle?.close();
  }
}

/**
 * SOURCE-2: where an open file really is. Linux says it of the file itself; elsewhere the way to it is
 * looked at once more.
 */
const placeOf = (handle: FileHandle, path: string): Promise<string> =>
  readlink(`/proc/self/fd/${handle.fd}`).catch(() => realpath(path));

const codeOf = (error: unknown): string => (error as { code?: string }).code ?? "unknown error";

const utf8 = new TextDecoder("utf-8", { fatal: true });

export function textOfBytes(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw unreadable("It is not UTF-8.", cause);
  }
}
