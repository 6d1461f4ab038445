/**
 * What is read from a directory through the port: the index is followed first, and the reader
 * looks.
 */
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import type { LineId } from "../../core/values/ids.js";
import type { DocQuery, DocRow, Pin } from "../port/documents.js";
import type { InboxQuery, Mail } from "../port/inbox.js";
import type { Beginnings, LineQuery, SaveQuery, SessionQuery } from "../port/queries.js";
import type { LineRow, Present, SessionRow } from "../port/rows.js";
import { storeClosed } from "../refusals.js";
import { rowOf } from "./documents/doc-files.js";
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

  session(id: string): Promise<SessionRow | undefined> {
    return this.#readOf(id, () => this.files.reader.session(id));
  }

  present(id: string): Promise<Present | undefined> {
    return this.#readOf(id, () => this.files.reader.present(id));
  }

  sessions(query: SessionQuery): Promise<readonly SessionRow[]> {
    return this.read(() => this.files.reader.sessions(query));
  }

  buriedEpoch(id: string): Promise<number> {
    return this.read(() => this.files.reader.buriedEpoch(id));
  }

  idsFrom(beginning: string, limit: number): Promise<Beginnings> {
    return this.read(() => this.files.reader.idsFrom(beginning, limit));
  }

  line(id: string): Promise<LineRow | undefined> {
    return this.read(() => this.files.reader.line(id));
  }

  past(id: string, limit: number): Promise<readonly LineRow[]> {
    return this.read(() => this.files.reader.past(id, limit));
  }

  lines(of: LineQuery): Promise<readonly LineRow[]> {
    return this.read(() => this.files.reader.lines(of));
  }

  async saves(line: LineId, query: SaveQuery): Promise<readonly Save[]> {
    const approach = new Approach();
    for (;;) {
      const found = await this.read(() => this.files.reader.saves(line, query, approach));
      if (found !== undefined) return found;
      await breathe();
    }
  }

  doc(kind: string, id: string): Promise<(DocRow & { readonly body: string | null }) | undefined> {
    return this.read(() => {
      const found = this.files.sessions.documents.get(kind, id);
      return found && { ...rowOf(found), body: found.body };
    });
  }

  docs(query: DocQuery): Promise<readonly DocRow[]> {
    return this.read(() => this.files.sessions.documents.list(query));
  }

  pins(line: LineId): Promise<readonly Pin[]> {
    return this.read(() => this.files.sessions.documents.pins(line));
  }

  blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.read(() => this.files.blobs.get(digest));
  }

  inbox(session: string, query: InboxQuery): Promise<readonly Mail[]> {
    return this.read(() => this.files.reader.inbox(session, query));
  }

  /**
   * A session that is asked for by its id is found by its own file: what that says is believed, and
   * the index corrected.
   */
  #readOf<T>(id: string, look: () => T): Promise<T> {
    return this.read(() => {
      const found = this.files.sessions.find(id);
      if (found !== "damaged") this.files.index.correct(found);
      return look();
    });
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
