/** Bodies kept under their digest, a file each. */
import { lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Digest, isDigest } from "../../core/digest.js";
import type { Blob } from "../../core/message.js";
import { makeDirectory, namesIn, putFile, readFile, remove, syncDirectory } from "./files.js";
import { blobPath, digestOfBlobName } from "./names.js";

export interface KeptBlob {
  readonly digest: Digest;
  readonly bytes: number;
}

export class Blobs {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  get(digest: Digest): Uint8Array | undefined {
    if (!isDigest(digest)) return undefined;
    const bytes = readFile(join(this.#root, blobPath(digest)));
    // Its own memory: small buffers share theirs, and what is handed out is the caller's to change.
    return bytes && new Uint8Array(bytes);
  }

  /** Written before what refers to it: a blob that nothing refers to is no harm. */
  add({ digest, bytes }: Blob): void {
    const path = join(this.#root, blobPath(digest));
    // Perhaps put there by one who was killed before it could say so to the disk.
    if (lstatSync(path, { throwIfNoEntry: false })?.isFile()) return syncDirectory(dirname(path));
    makeDirectory(dirname(path));
    putFile(path, bytes);
  }

  remove(digest: Digest): void {
    remove(join(this.#root, blobPath(digest)));
  }

  /** All blobs, those of one directory at a time. */
  *all(): Generator<readonly KeptBlob[]> {
    for (const bucket of namesIn(join(this.#root, "blobs")).sort()) {
      yield namesIn(join(this.#root, "blobs", bucket))
        .sort()
        .flatMap((name) => {
          const digest = digestOfBlobName(name);
          const found = digest === undefined ? undefined : lstatSync(join(this.#root, blobPath(digest)), { throwIfNoEntry: false });
          return found?.isFile() ? [{ digest: digest as Digest, bytes: found.size }] : [];
        });
    }
  }
}
