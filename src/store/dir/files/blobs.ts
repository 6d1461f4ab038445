/**
 * Bodies kept under their digest, a file each.
 *
 * BLOB-1  a process that writes a save marks the blobs it refers to: their times rise, before the
 *         save is written and under the same lock. A sweep notes how blobs stood, waits until what
 *         was being written then is in its journal, and looks through all journals without the
 *         lock. Then, under the lock, it removes those that no save refers to and that stand as
 *         they did.
 */
import { lstatSync, type Stats, utimesSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Blob } from "../../../core/messages/message.js";
import { type Digest, isDigest } from "../../../core/values/digest.js";
import {
  checkDirectory,
  makeDirectory,
  namesIn,
  putFile,
  readFile,
  remove,
  syncDirectory,
} from "./files.js";
import { blobPath, digestOfBlobName } from "./names.js";

export interface KeptBlob {
  readonly digest: Digest;
  readonly bytes: number;
  /** BLOB-1 */
  readonly mark: string;
}

/** More than any system rounds times to. */
const COARSE_MS = 4_000;

export class Blobs {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  /** FILE-3: a directory that became a link would lead out of the store. */
  #path(digest: Digest): string {
    const path = join(this.#root, blobPath(digest));
    checkDirectory(dirname(path));
    return path;
  }

  get(digest: Digest): Uint8Array | undefined {
    if (!isDigest(digest)) return undefined;
    const bytes = readFile(this.#path(digest));
    // Its own memory: small buffers share theirs, and what is handed out is the caller's to change.
    return bytes && new Uint8Array(bytes);
  }

  /** Written before what refers to it: a blob that nothing refers to is no harm. */
  add({ digest, bytes }: Blob): void {
    const path = this.#path(digest);
    // Perhaps put there by one who was killed before it could say so to the disk.
    if (this.#keep(path)) return syncDirectory(dirname(path));
    makeDirectory(dirname(path));
    putFile(path, bytes);
  }

  /** A save refers to it, and does not bring it. */
  keep(digest: Digest): void {
    if (isDigest(digest)) this.#keep(this.#path(digest));
  }

  /** Keeps what saves bring, and what they refer to. */
  keepAll(
    saves: readonly { readonly refs: readonly Digest[]; readonly blobs?: readonly Blob[] }[],
  ): void {
    for (const { refs, blobs = [] } of saves) {
      for (const blob of blobs) this.add(blob);
      for (const digest of refs)
        if (!blobs.some((blob) => blob.digest === digest)) this.keep(digest);
    }
  }

  /**
   * BLOB-1. Answers whether it is there. The time rises also where the clock was set back, and
   * where times are coarse.
   */
  #keep(path: string): boolean {
    const before = lstatSync(path, { throwIfNoEntry: false });
    if (!before?.isFile()) return false;
    for (const more of [1, COARSE_MS])
      if (isMarked(path, before, Math.max(Date.now(), Math.ceil(before.mtimeMs) + more)))
        return true;
    // Its time cannot be set: it becomes another file.
    const bytes = readFile(path);
    if (bytes !== undefined) putFile(path, bytes);
    return bytes !== undefined;
  }

  /** Removes it if no save has come to refer to it since. Answers whether it did. */
  removeIf({ digest, mark }: KeptBlob): boolean {
    const path = this.#path(digest);
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined || markOf(found) !== mark) return false;
    remove(path);
    return true;
  }

  /** All blobs, those of one directory at a time. */
  *all(): Generator<readonly KeptBlob[]> {
    for (const bucket of namesIn(join(this.#root, "blobs")).sort()) {
      // FILE-3: a sweep would remove what stands behind a link.
      if (/^[0-9a-f]{2}$/.test(bucket)) checkDirectory(join(this.#root, "blobs", bucket));
      yield namesIn(join(this.#root, "blobs", bucket))
        .sort()
        .flatMap((name) => {
          const digest = digestOfBlobName(name);
          const found =
            digest === undefined
              ? undefined
              : lstatSync(join(this.#root, blobPath(digest)), { throwIfNoEntry: false });
          return found?.isFile()
            ? [{ digest: digest as Digest, bytes: found.size, mark: markOf(found) }]
            : [];
        });
    }
  }
}

const markOf = ({ ino, mtimeMs }: Stats): string => `${ino} ${mtimeMs}`;

function isMarked(path: string, before: Stats, ms: number): boolean {
  try {
    utimesSync(path, ms / 1_000, ms / 1_000);
  } catch {
    return false;
  }
  return (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > before.mtimeMs;
}
