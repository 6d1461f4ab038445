/**
 * Looking over all of a directory: what there is, what nothing refers to, and what is not as it
 * should be.
 */
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { AGENT, SNAPSHOT } from "../port/documents.js";
import type { Counts } from "../port/info.js";
import type { Swept } from "../port/reclaim.js";
import type { Claims } from "./claims/claims.js";
import type { Blobs, KeptBlob } from "./files/blobs.js";
import { translate } from "./files/failures.js";
import { namesIn } from "./files/files.js";
import { blobPath } from "./files/names.js";
import { sessionDirectories } from "./index/rebuild.js";
import type { CatalogEntry } from "./index/session-catalog.js";
import type { SessionIndex } from "./index/session-index.js";
import { Approach } from "./journal/approach.js";
import { type Seal, textBytes } from "./journal/save-rows.js";
import type { Lock } from "./lock/lock.js";
import type { Reader } from "./reader.js";
import type { SessionFiles } from "./sessions/session-files.js";

export interface Surveyed {
  readonly root: string;
  readonly lock: Lock;
  readonly sessions: SessionFiles;
  readonly index: SessionIndex;
  readonly blobs: Blobs;
  readonly reader: Reader;
  readonly due: Claims;
  /** Looks at what is there now, in an open store. */
  readonly read: <T>(look: () => T) => Promise<T>;
}

/** How a sweep removes something, with the lock. */
export interface Freeing {
  /** Resolves once all that was being written is in its journal. */
  readonly settle: () => Promise<void>;
  /** Removes those of these that no save has come to refer to since. Answers which. */
  readonly free: (unused: readonly KeptBlob[]) => Promise<readonly KeptBlob[]>;
}

const BREATHE_EVERY = 200;

/** Seals of a branch from a number on, oldest first. */
interface Sealed {
  readonly branch: CatalogEntry;
  readonly from: number;
  readonly seals: readonly Seal[];
}

export class StoreScan {
  readonly #of: Surveyed;

  constructor(of: Surveyed) {
    this.#of = of;
  }

  async counts(): Promise<Counts> {
    const { index, blobs, sessions, read } = this.#of;
    const live = await read(() =>
      [...index.catalogue.entries()].filter(({ status }) => status !== null),
    );
    const counts = { checkpoints: 0, messages: 0, sizeBytes: 0 };
    for await (const { seals } of this.#allSeals()) {
      for (const seal of seals) {
        if (seal.mark !== undefined) counts.checkpoints += 1;
        if (seal.items !== undefined && seal.items[0] > 0) counts.messages += seal.n[3];
        counts.sizeBytes += textBytes(seal);
      }
    }
    for (const some of blobs.all()) {
      await breathe();
      for (const { bytes } of some) counts.sizeBytes += bytes;
    }
    const made = await read(() =>
      sessions.documents.list({ kind: AGENT, limit: Number.MAX_SAFE_INTEGER }).map(({ id }) => id),
    );
    const snapshots = await read(() => sessions.documents.count(SNAPSHOT));
    const agents = new Set([...live.flatMap(({ agent }) => agent ?? []), ...made]).size;
    return { agents, sessions: live.length, snapshots, ...counts };
  }

  /** Counts what no save refers to, and frees it where it is told how (BLOB-1). */
  async sweep(limit: number, after: string, freeing?: Freeing): Promise<Swept> {
    const { some, next } = await this.#blobsAfter(limit, after);
    await freeing?.settle();
    const used = new Set<Digest>();
    for await (const sealed of this.#allSeals()) {
      checkWhole(sealed);
      for (const { refs = [] } of sealed.seals) for (const digest of refs) used.add(digest);
    }
    const freed = { count: 0, bytes: 0 };
    for (const blobs of some) {
      const unused = blobs.filter(({ digest }) => !used.has(digest));
      for (const { bytes } of unused.length === 0
        ? []
        : ((await freeing?.free(unused)) ?? unused)) {
        freed.count += 1;
        freed.bytes += bytes;
      }
    }
    return next === undefined ? freed : { ...freed, next };
  }

  /**
   * Blobs behind one, those of one directory at a time; and the last of them, where there may be
   * more.
   */
  async #blobsAfter(
    limit: number,
    after: string,
  ): Promise<{ readonly some: (readonly KeptBlob[])[]; readonly next: Digest | undefined }> {
    const passed = after === "" ? "" : blobPath(after);
    const some: KeptBlob[][] = [];
    let left = limit;
    for (const blobs of this.#of.blobs.all()) {
      await breathe();
      const found = blobs.filter(({ digest }) => blobPath(digest) > passed).slice(0, left);
      some.push(found);
      left -= found.length;
      if (left <= 0) return { some, next: found.at(-1)?.digest };
    }
    return { some, next: undefined };
  }

  /** The seals of every branch, some at a time: others write in between. */
  async *#allSeals(): AsyncGenerator<Sealed> {
    const { index, read } = this.#of;
    let seen = 0;
    await read(() => {});
    for (const { id, branches } of index.catalogue.entries()) {
      for (const branch of branches) {
        for await (const some of this.#sealsOf({ ...branch, home: id })) {
          yield some;
          seen += 1 + some.seals.length;
          if (seen < BREATHE_EVERY) continue;
          seen = 0;
          await breathe();
        }
      }
    }
  }

  async *#sealsOf(branch: CatalogEntry): AsyncGenerator<Sealed> {
    const { reader, read } = this.#of;
    let from = (branch.forkPoint?.seq ?? 0) + 1;
    const approach = new Approach();
    const isFar = () => {
      const journal = reader.journal(branch);
      return journal !== undefined && !approach.step(journal, from);
    };
    while (await read(isFar)) await breathe();
    for (;;) {
      // Where others have written it anew meanwhile, it may be far again: that is rare.
      const seals = await read(() => reader.journal(branch)?.seals(from, BREATHE_EVERY) ?? []);
      const last = seals.at(-1);
      if (last === undefined) return;
      yield { branch, from, seals };
      from = last.seq + 1;
    }
  }

  /** Findings in words. `isWriter`: whether this process writes, and so no other. */
  async check(isWriter: boolean): Promise<readonly string[]> {
    const { root, read } = this.#of;
    await read(() => {});
    const found: string[] = [];
    for (const [i, directory] of sessionDirectories(root).entries()) {
      if (i % BREATHE_EVERY === 0) await breathe();
      for (const name of namesIn(directory)) {
        if (/\.tail-[0-9]+$/.test(name))
          found.push(
            `The end of a journal was not whole, and was set aside in ${quote(join(directory, name))}. Look at it, then remove it.`,
          );
      }
      this.#checkSession(directory, found);
    }
    await this.#checkEnds(isWriter, found);
    found.push(...(await read(() => this.#of.sessions.documents.check())));
    return found;
  }

  #checkSession(directory: string, found: string[]): void {
    const { sessions, due } = this.#of;
    const doc = sessions.at(directory);
    if (doc === "damaged") found.push(`${quote(join(directory, "session.json"))} is damaged.`);
    if (doc === undefined || doc === "damaged") return;
    if (sessions.directory(doc.id) !== directory)
      found.push(
        `${quote(directory)} holds session ${quote(doc.id)}, which belongs elsewhere: a directory was copied or renamed.`,
      );
    else if (due.isUnmarked(doc))
      found.push(
        `Mail waits for session ${quote(doc.id)}, and waiting/ does not say so: no worker finds it. Open the session to take it in.`,
      );
  }

  /** Only where nobody else is writing: otherwise a save may just be under way. */
  async #checkEnds(isWriter: boolean, found: string[]): Promise<void> {
    const { lock, index, reader, read } = this.#of;
    if (!isWriter && !lock.look().isFree) return;
    for (const { id, branches } of index.catalogue.entries()) {
      for (const branch of branches) {
        const stray = await read(
          () => reader.journal({ ...branch, home: id })?.strayBytes ?? 0,
        ).catch((error: unknown) => {
          const { code, message } = translate(error);
          if (code !== "CORRUPT" && code !== "IO") throw error;
          // One journal that cannot be read keeps none of the others from being looked at.
          found.push(
            `The journal of branch ${branch.id} of session ${quote(id)} cannot be read: ${message}`,
          );
          return 0;
        });
        if (stray > 0)
          found.push(
            `Branch ${branch.id} of session ${quote(id)} ends with ${stray} bytes that are no whole save.`,
          );
      }
    }
  }
}

/**
 * Blobs are needed as long as a save refers to them: where one cannot be read, nobody knows which
 * those are.
 */
function checkWhole({ branch: { id }, from, seals }: Sealed): void {
  let next = from;
  for (const { seq, n } of seals) {
    // One that begins before: saves that were looked at have become one with it since.
    if (seq - n[0] - n[1] - n[2] + 1 > next)
      throw new HoldfastError(
        "CORRUPT",
        `Record ${next} of branch ${id} is missing, and with it which blobs are needed: none is removed.`,
        {
          branch: id,
          seq: next,
        },
      );
    next = seq + 1;
  }
}
