/**
 * What is read from a directory through the port: the index is followed first, and the reader
 * looks.
 */
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId } from "../../core/values/ids.js";
import type { BranchQuery, SaveQuery, SessionQuery } from "../port/queries.js";
import type { BranchRow, SessionFound, SessionRow } from "../port/rows.js";
import { storeClosed } from "../refusals.js";
import { Approach } from "./journal/approach.js";
import type { StoreFiles } from "./store-files.js";
import type { WriteAccess } from "./write-access.js";

/** The half of the store that only reads. The port says what each method answers. */
export abstract class DirReads {
  protected readonly files: StoreFiles;
  protected readonly access: WriteAccess;
  protected isClosed = false;

  constructor(files: StoreFiles, access: WriteAccess) {
    this.files = files;
    this.access = access;
  }

  get gone(): AbortSignal {
    return this.files.presence.gone;
  }

  session(id: string, how?: "end"): Promise<SessionFound> {
    return this.read(() => {
      this.#correct(id);
      return this.files.reader.find(id, how);
    });
  }

  sessions(query: SessionQuery): Promise<readonly SessionRow[]> {
    return this.read(() => this.files.reader.sessions(query));
  }

  branches(query: BranchQuery): Promise<readonly BranchRow[]> {
    return this.read(() => this.files.reader.branches(query));
  }

  async saves(branch: BranchId, query: SaveQuery): Promise<readonly Save[]> {
    const approach = new Approach();
    for (;;) {
      const found = await this.read(() => this.files.reader.saves(branch, query, approach));
      if (found !== undefined) return found;
      await breathe();
    }
  }

  blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.read(() => this.files.blobs.get(digest));
  }

  /**
   * A session that is asked for by its id is found by its own file: what that says is believed, and
   * the index corrected.
   */
  #correct(id: string): void {
    const found = this.files.sessions.find(id);
    if (found !== "damaged") this.files.index.correct(found);
  }

  protected async read<T>(look: () => T): Promise<T> {
    this.checkOpen();
    const behind = this.access.follow();
    if (behind !== undefined) await behind;
    return look();
  }

  protected checkOpen(): void {
    if (this.isClosed) throw storeClosed();
    this.gone.throwIfAborted();
  }
}
