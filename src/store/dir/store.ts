/**
 * The store in a directory: files that people can read, and commit to git. One process writes at a
 * time (lock.ts), and several take turns (write-access.ts). Any number may read (reads.ts).
 */
import { join } from "node:path";
import { highest } from "../../core/values/highest.js";
import type { BranchId } from "../../core/values/ids.js";
import { AnchorFile } from "../anchors.js";
import { monotonicMs } from "../machine.js";
import { bytesOf, concernsAbout, filesBelow } from "../place.js";
import type { Applied, Change } from "../port/changes.js";
import type { StoreClaims } from "../port/claims.js";
import type { StoreCopies } from "../port/copies.js";
import type { DocChange, StoreDocuments } from "../port/documents.js";
import type { StoreInbox } from "../port/inbox.js";
import type { About, Info, Traits } from "../port/info.js";
import type { StoreReclaim } from "../port/reclaim.js";
import type { Store } from "../port.js";
import { noBackup, storeClosed } from "../refusals.js";
import { freeing, takesAway } from "../reserve.js";
import type { Done } from "./committer.js";
import { rowOf } from "./documents/doc-files.js";
import { translate } from "./files/failures.js";
import { checkDirectory } from "./files/files.js";
import { watchDue, watchSession } from "./index/watch.js";
import { DirReads } from "./reads.js";
import { freedOf } from "./removals.js";
import { StoreScan } from "./scan-store.js";
import { CHANGES, storeFiles } from "./store-files.js";
import { type AccessOptions, WriteAccess } from "./write-access.js";
import type { Writer } from "./writer.js";

export interface DirStoreOptions extends Omit<AccessOptions, "saved"> {
  readonly format: number;
  /** The path of what is no longer the directory, or the store, that was opened. */
  readonly findMoved: () => string | undefined;
  readonly generation: () => string;
  readonly beginGeneration: () => string;
}

const none: readonly never[] = [];

export class DirStore extends DirReads implements Store {
  readonly traits: Traits = { durable: true, oneMachine: true, shared: true, inBulk: true };
  readonly #options: DirStoreOptions;
  readonly #survey: StoreScan;
  readonly #anchors: AnchorFile;
  readonly #watches = new Set<() => void>();

  constructor(root: string, storeId: string, options: DirStoreOptions) {
    const files = storeFiles(root, options.findMoved);
    super(
      files,
      new WriteAccess(files, {
        ...options,
        saved: ({ branch, seq, check }) => this.#anchors.note(branch, seq, check),
      }),
    );
    this.#options = options;
    this.#survey = new StoreScan({ ...files, read: (look) => this.read(look) });
    // Another process may have deleted it since. A branch of which nothing is known gets no anchor.
    const isDeleted = (branch: string) =>
      !this.access.isCurrent() || files.index.catalogue.branch(branch)?.owner == null;
    this.#anchors = new AnchorFile(join(root, "anchors"), storeId, isDeleted, files.presence);
  }

  /** Reads the index, or makes it again. */
  async begin(): Promise<void> {
    for (const name of ["sessions", "blobs", "waiting", "documents"])
      checkDirectory(join(this.files.root, name));
    await this.access.follow();
  }

  apply(
    changes: readonly Change[],
    docs: readonly DocChange[] = none,
    how?: "frees",
  ): Promise<Applied> {
    if (this.isClosed) return Promise.reject(storeClosed());
    const submit = () => this.access.committer.submit((writer) => writer.apply({ changes, docs }));
    return how === "frees" || takesAway({ changes, docs }) ? this.#removing(submit) : submit();
  }

  /** On a full disk the reserve is given up. */
  #removing<T>(run: () => Promise<T>): Promise<T> {
    const typed = () =>
      run().catch((error: unknown) => {
        throw translate(error);
      });
    return freeing(this.files.root, typed, [() => this.files.reserve.give()]);
  }

  async now(): Promise<number> {
    return monotonicMs();
  }

  async info(how?: "counts"): Promise<Info> {
    this.checkOpen();
    const about = await this.read(
      (): About => ({
        kind: "dir",
        place: this.files.root,
        engine: "files",
        format: this.#options.format,
        diskBytes: bytesOf(filesBelow(this.files.root)),
        synced: "each journal and its directory, at every save",
        concerns: concernsAbout(this.files.root, [this.files.root]),
      }),
    );
    return how === undefined ? { about } : { about, counts: await this.#survey.counts() };
  }

  watch(session: string | undefined, wake: () => void): () => void {
    return this.#watched(() =>
      session === undefined
        ? watchDue(this.files.waiting.path, join(this.files.root, CHANGES), wake)
        : watchSession(this.files.sessions.directory(session), wake),
    );
  }

  #watched(begin: () => () => void): () => void {
    if (this.isClosed) return () => {};
    const stop = begin();
    this.#watches.add(stop);
    return () => {
      this.#watches.delete(stop);
      stop();
    };
  }

  check(): Promise<readonly string[]> {
    return this.access.tenure.keep(() => this.#survey.check(this.access.isWriter));
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    for (const stop of this.#watches) stop();
    this.files.reserve.close();
    await this.access.committer.drain();
    this.access.tenure.stop();
    await this.#anchors.close();
    this.access.close();
  }

  // ---- capabilities

  readonly documents: StoreDocuments = {
    get: (kind, id) =>
      this.read(() => {
        const found = this.files.sessions.documents.get(kind, id);
        return found && { ...rowOf(found), body: found.body };
      }),
    list: (query) => this.read(() => this.files.sessions.documents.list(query)),
    pins: (branch) => this.read(() => this.files.sessions.documents.pins(branch)),
    capture: async ({ agent, limit, how }, decide) => {
      this.checkOpen();
      const submit = () =>
        this.access.committer.submit((writer) =>
          writer.capture(this.files.reader.presents(agent, limit), decide),
        );
      return how === "frees" ? this.#removing(submit) : submit();
    },
  };

  readonly inbox: StoreInbox = {
    post: (session, message) =>
      this.read(() => {
        this.files.presence.check();
        const posted = this.files.reader.post(session, message);
        this.files.presence.check();
        return posted;
      }),
    list: (session, query) => this.read(() => this.files.reader.inbox(session, query)),
  };

  readonly claims: StoreClaims = {
    claim: async (query, grant) => {
      this.checkOpen();
      // Asked first, leases included: a worker that finds nothing to take neither takes the lock
      // for it nor keeps it.
      const isWorth = await this.read(() =>
        this.files.due.isWorth(query, grant, { settles: this.access.isWriter }),
      );
      return isWorth ? this.access.committer.submit((writer) => writer.claim(query, grant)) : [];
    },
  };

  readonly reclaim: StoreReclaim = {
    replace: async (branch, replacements, known) => {
      this.checkOpen();
      return this.#removing(() =>
        this.access.committer.submit((writer) =>
          writer.removals.replace(branch, replacements, known),
        ),
      );
    },
    cut: async (branch, after, limit, dryRun) => {
      if (!dryRun) {
        this.checkOpen();
        return this.#removing(() =>
          this.access.committer.submit((writer) => writer.removals.cut(branch, after, limit)),
        );
      }
      return this.read(() => {
        const row = this.files.reader.branch(branch);
        const standing = this.files.index.catalogue.branch(branch);
        if (standing === undefined || row === undefined || row.owned) return freedOf([]);
        const pinned = this.files.sessions.documents.pins(branch).map(({ seq }) => seq);
        return freedOf(
          this.files.reader.journal(standing)?.newest(highest(Math.max(after, 0), pinned), limit) ??
            [],
        );
      });
    },
    sweep: async (limit, dryRun, after = "") => {
      this.checkOpen();
      if (dryRun) return this.#survey.sweep(limit, after);
      const submit = <T>(run: (writer: Writer) => Done<T>): Promise<T> => {
        this.checkOpen();
        return this.#removing(() => this.access.committer.submit(run));
      };
      return this.#survey.sweep(limit, after, {
        settle: () => submit(() => ({ answer: undefined, saves: [], wrote: false })),
        free: async (unused) => submit((writer) => writer.removals.sweep(unused)),
      });
    },
    compact: async () => {
      this.checkOpen();
      await this.access.committer.drain();
      this.files.presence.check();
      await this.files.reserve.make();
      return freedOf([]);
    },
    scrub: async (holds) => {
      this.checkOpen();
      return this.#removing(() =>
        this.access.committer.submit((writer) => writer.removals.scrub(this.files.root, holds)),
      );
    },
  };

  readonly copies: StoreCopies = {
    generation: () => this.read(() => this.#options.generation()),
    begin: async () => {
      this.checkOpen();
      this.files.presence.check();
      return this.#options.beginGeneration();
    },
    backup: async () => {
      this.checkOpen();
      throw noBackup(
        "Copy the directory while no process writes, and let `holdfast restored` be the first that is run on a copy that is put back; or use hold.export.",
      );
    },
    // Anchors of branches that were cut on purpose tell of no loss.
    anchors: async (of) => {
      const anchors = await this.#anchors.read(of);
      const isCut = (branch: string) => this.files.index.catalogue.wasCut(branch as BranchId);
      return this.read(() => ({
        of: (branch) => (isCut(branch) ? undefined : anchors.of(branch)),
        *[Symbol.iterator]() {
          for (const anchor of anchors) if (!isCut(anchor.branch)) yield anchor;
        },
      }));
    },
  };
}
