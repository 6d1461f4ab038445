/**
 * Where a store's files stand, for people: what they take, whose they are, and whether the disk can
 * be trusted with them.
 */
import { lstatSync, readdirSync, statfsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { quote } from "../core/values/errors.js";
import { mayBeOnNetwork } from "./file-system.js";
import type { Concern } from "./port/info.js";

/** Magic numbers of file systems that live in memory. */
const IN_MEMORY: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);
const LITTLE_ROOM_BYTES = 256 * 1024 * 1024;

/** The file, and what stands beside it that is the store's own. */
export function filesOf(file: string): readonly string[] {
  const name = basename(file);
  const isOwn = (other: string) =>
    other === name ||
    (other.startsWith(name) &&
      /^-(wal|shm|anchors|reserve|search[\w-]*)$/.test(other.slice(name.length)));
  return readdirSync(dirname(file), { withFileTypes: true })
    .filter((entry) => entry.isFile() && isOwn(entry.name))
    .map((entry) => join(dirname(file), entry.name));
}

/** Every file below a directory. Links are not followed. */
export function* filesBelow(directory: string): Generator<string> {
  for (const entry of entriesOf(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

/** What others take away meanwhile is not there. */
function entriesOf(directory: string) {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

export function bytesOf(files: Iterable<string>): number {
  let bytes = 0;
  for (const file of files) bytes += lstatSync(file, { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
}

/** `open`: what others than its owner must not be able to read. */
export function concernsAbout(directory: string, open: readonly string[]): readonly Concern[] {
  const concerns: Concern[] = [];
  const { type, bavail, bsize } = statfsSync(directory);
  if (process.platform === "linux" && IN_MEMORY.has(type))
    concerns.push({
      code: "IN_MEMORY",
      message: `${quote(directory)} is on a file system in memory: what is stored there is gone after a restart.`,
      fix: "Move the store to a disk, and name it with --store.",
    });
  if (mayBeOnNetwork(type))
    concerns.push({
      code: "NETWORK_FILE_SYSTEM",
      message: `${quote(directory)} is on a file system that may be on a network (FUSE, a shared folder, a cluster): it can lose what was acknowledged, or let two processes write at once.`,
      fix: "Move the store to a local disk, or use Postgres.",
    });
  if (bavail * bsize < LITTLE_ROOM_BYTES)
    concerns.push({
      code: "LITTLE_ROOM",
      message: `Only ${Math.floor((bavail * bsize) / 1_000_000)} MB are free on the disk of ${quote(directory)}.`,
      fix: "Make room on it: holdfast prune --all, then holdfast gc, or free other files.",
    });
  const readable = process.platform === "win32" ? [] : open.filter((path) => isForOthers(path));
  if (readable.length > 0)
    concerns.push({
      code: "OPEN_TO_OTHERS",
      message: `${readable.map((path) => quote(path)).join(", ")} can be read or written by others than the owner.`,
      fix: `chmod go-rwx ${lasting(readable).map(shellQuoted).join(" ")}`,
    });
  return concerns;
}

/**
 * SQLite gives its log the mode of its file, and removes the log when the store is closed: a
 * command that names it would fail then.
 */
function lasting(paths: readonly string[]): readonly string[] {
  const files = paths.filter((path) => !/-(wal|shm)$/.test(path));
  return files.length > 0 ? files : paths;
}

const shellQuoted = (path: string): string => `'${path.replaceAll("'", "'\\''")}'`;

const isForOthers = (path: string): boolean =>
  ((lstatSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o077) !== 0;
