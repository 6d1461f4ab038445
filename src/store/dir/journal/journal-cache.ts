/**
 * The journals that were used last, open; so many that they are found open, and not so many that
 * descriptors run out.
 */
import { join } from "node:path";
import { nameOf } from "../files/names.js";
import { forgetUnsynced, isUnsynced, Unsynced } from "../files/unsynced.js";
import type { CatalogEntry } from "../index/session-catalog.js";
import { JournalFile } from "./journal-file.js";

const OPEN = 256;
/** Saves whose places are remembered, over all journals: about 100 MB. */
const PLACES = 2_000_000;

export class JournalCache {
  readonly #files = new Map<string, JournalFile>();
  readonly #directory: (session: string) => string;
  readonly unsynced = new Unsynced();
  /** Files that were looked at for VIEW-4. */
  readonly #sound = new WeakSet<JournalFile>();
  #writes = false;
  /** Written, and not yet synced. */
  readonly dirty = new Set<JournalFile>();

  constructor(directory: (session: string) => string) {
    this.#directory = directory;
  }

  path({ id, home }: Pick<CatalogEntry, "id" | "home">): string {
    return join(this.#directory(home), `${nameOf(id)}.jsonl`);
  }

  /**
   * The journal of a branch, as it is now. `version`: that of the file of the session it stands
   * with.
   */
  of(branch: Pick<CatalogEntry, "id" | "home">, version: number): JournalFile {
    let file = this.#files.get(branch.id);
    if (file === undefined) {
      file = new JournalFile(branch.id, this.path(branch), {
        writes: this.#writes,
        unsynced: this.unsynced,
      });
      this.#makeRoom();
    } else this.#files.delete(branch.id);
    this.#files.set(branch.id, file);
    file.look(version);
    return file;
  }

  /** The same, to write to it. VIEW-4: one whose sync failed is written anew before. */
  toWrite(branch: Pick<CatalogEntry, "id" | "home">, version: number): JournalFile {
    const file = this.of(branch, version);
    if (this.#sound.has(file)) return file;
    if (isUnsynced(file.path)) {
      file.renew();
      forgetUnsynced(file.path);
      file.look(version);
    }
    this.#sound.add(file);
    return file;
  }

  /** The journal of a branch, where it is open. */
  open(branch: string): JournalFile | undefined {
    return this.#files.get(branch);
  }

  #makeRoom(): void {
    let places = 0;
    for (const { length } of this.#files.values()) places += length;
    for (const [id, file] of this.#files) {
      if (this.#files.size < OPEN && places <= PLACES) return;
      // Its descriptor is still needed: the sync must be of the one that was written to.
      if (this.dirty.has(file)) continue;
      places -= file.length;
      file.close();
      this.#files.delete(id);
    }
  }

  forget(branch: string): void {
    this.#files.get(branch)?.close();
    this.#files.delete(branch);
  }

  beginWriting(): void {
    this.close();
    this.#writes = true;
  }

  /** Nothing is written after all: from here on others may. */
  endWriting(): void {
    this.close();
    this.#writes = false;
  }

  close(): void {
    for (const file of this.#files.values()) file.close();
    this.#files.clear();
  }
}
