/**
 * The SQL store: what is handed to the writer, and to the parts of a database. What is read is in
 * `reads.ts`.
 */
import { setImmediate as breathe } from "node:timers/promises";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId } from "../../core/values/ids.js";
import { newGeneration } from "../generation.js";
import { justASave } from "../just-a-save.js";
import type { Applied, Change } from "../port/changes.js";
import type { StoreClaims } from "../port/claims.js";
import type { StoreCopies } from "../port/copies.js";
import type { DocChange, StoreDocuments } from "../port/documents.js";
import type { StoreInbox } from "../port/inbox.js";
import type { Info, Traits } from "../port/info.js";
import type { Freed, StoreReclaim } from "../port/reclaim.js";
import type { Store } from "../port.js";
import { ofAllTenants, storeClosed } from "../refusals.js";
import type { SearchIndex } from "../search-port.js";
import { claimsOf } from "./claims.js";
import type { DatabaseParts, Maintenance, Watching } from "./database.js";
import { documentsOf } from "./docs.js";
import { Inbox, inboxOf } from "./inbox.js";
import { SqlReads } from "./reads.js";
import { freedOf, Removals } from "./removals.js";
import { statementsIn } from "./statements.js";
import { Writer } from "./writer.js";

const LOOKED_AT_ONCE = 500;
const none: readonly never[] = [];

export interface SqlStoreOptions {
  readonly tenant: string;
  /**
   * Given for a tenant with a name: it makes this the store of one tenant, and no longer the
   * operator's.
   */
  readonly cursorKey?: string | undefined;
  readonly index?: SearchIndex & { close(): Promise<void> };
}

export class SqlStore extends SqlReads implements Store {
  readonly traits: Traits;
  readonly index?: SearchIndex;
  readonly cursorKey?: string;
  readonly inbox: StoreInbox;
  readonly claims: StoreClaims;
  readonly documents: StoreDocuments;
  readonly #watching: Watching;
  readonly #maintenance: Maintenance;
  readonly #writer: Writer;
  readonly #removals: Removals;
  readonly #leaveIndex: () => Promise<void>;

  constructor(
    { db, watching, maintenance }: DatabaseParts,
    { tenant, index, cursorKey }: SqlStoreOptions,
  ) {
    const sql = statementsIn(db.dialect);
    super(db, sql, tenant);
    this.#watching = watching;
    this.#maintenance = maintenance;
    if (cursorKey !== undefined) this.cursorKey = cursorKey;
    if (index) this.index = index;
    this.#leaveIndex = async () => index?.close();
    this.traits = db.traits;
    const inbox = new Inbox(sql, tenant);
    this.#writer = new Writer(db.dialect, sql, tenant, inbox);
    this.#removals = new Removals(db.dialect, sql, tenant);
    this.inbox = inboxOf(this, inbox);
    this.claims = claimsOf(this);
    this.documents = documentsOf(this, this.#writer);
  }

  apply(
    changes: readonly Change[],
    docs: readonly DocChange[] = none,
    how?: "frees",
  ): Promise<Applied> {
    if (this.isClosed) return Promise.reject(storeClosed());
    const only = changes.length === 1 && docs.length === 0 ? changes[0] : undefined;
    const save = only && justASave(only);
    const quick = save && this.db.append(only as Change, save);
    return (
      quick ??
      this.db.write(
        this.#writer.apply({ changes, docs }, (begun) => this.db.applied(changes, begun), how),
      )
    );
  }

  async now(): Promise<number> {
    this.checkOpen();
    return this.db.now();
  }

  async info(how?: "counts"): Promise<Info> {
    this.checkOpen();
    const { diskBytes, ...rest } = await this.#maintenance.about();
    const about = this.#isOfOne || diskBytes === undefined ? rest : { ...rest, diskBytes };
    return how === undefined ? { about } : { about, counts: await this.counts() };
  }

  watch(session: string | undefined, wake: () => void): () => void {
    this.checkOpen();
    return this.#watching.watch(session, wake);
  }

  async check(): Promise<readonly string[]> {
    this.checkOpen();
    return this.#maintenance.check();
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.#leaveIndex();
    await this.#maintenance.close();
  }

  // ---- capabilities

  readonly reclaim: StoreReclaim = {
    replace: (branch, replacements, known) =>
      this.write(this.#removals.replace(branch, replacements, known)),
    cut: async (branch, after, limit, dryRun) => {
      this.checkOpen();
      if (dryRun) return this.#wouldCut(branch, after, limit);
      const freed = await this.db.write(this.#removals.cut(branch, after, limit));
      this.keys.delete(branch);
      this.db.wasCut(branch);
      return freed;
    },
    sweep: async (limit, dryRun, after = "") => {
      // Looked for without a lock: who begins to use one meanwhile is seen before it goes.
      const some = await this.read(this.sql.someBlobs, this.tenant, after, limit);
      const unused = some.filter(([, , isUsed]) => isUsed === 0);
      const freed =
        dryRun || unused.length === 0
          ? freedOf(unused)
          : await this.db.write(this.#removals.sweep(unused));
      return some.length < limit ? freed : { ...freed, next: some.at(-1)?.[0] as Digest };
    },
    compact: async (limit) => {
      this.checkOpen();
      const freed = await this.#maintenance.compact(limit);
      // The file is all tenants': how much of it was free says something of the others.
      return this.#isOfOne ? { ...freed, bytes: 0 } : freed;
    },
    scrub: async (holds) => {
      this.checkOpen();
      return this.#maintenance.scrub(holds);
    },
  };

  /** Counted a stretch at a time, and without a lock. */
  async #wouldCut(id: BranchId, after: number, limit: number): Promise<Freed> {
    const branch = (await this.read(this.sql.branch, this.tenant, id))[0];
    const freed = { count: 0, bytes: 0 };
    if (branch === undefined || branch[2] === 1) return freed;
    const pinned = (await this.read(this.sql.lastPin, this.tenant, id))[0]?.[0] as number;
    for (let behind = Math.max(after, pinned, 0); freed.count < limit; ) {
      const some = await this.read(
        this.sql.nextSaves,
        branch[0] as number,
        behind,
        Math.min(limit - freed.count, LOOKED_AT_ONCE),
      );
      const { count, bytes } = freedOf(some);
      freed.count += count;
      freed.bytes += bytes;
      const last = some.at(-1);
      if (last === undefined) break;
      behind = last[0] as number;
      await breathe();
    }
    return freed;
  }

  readonly copies: StoreCopies = {
    generation: async () => String((await this.read(this.sql.generation))[0]?.[0] ?? ""),
    begin: async () => {
      this.checkOpen();
      if (this.#isOfOne) throw ofAllTenants("A new generation");
      const name = newGeneration();
      await this.db.write(this.#writer.beginGeneration(name));
      return name;
    },
    backup: async (path, o) => {
      this.checkOpen();
      if (this.#isOfOne) throw ofAllTenants("A backup");
      return this.#maintenance.backup(path, o);
    },
    anchors: async (of) => {
      this.checkOpen();
      return this.#maintenance.anchors(of);
    },
  };

  get #isOfOne(): boolean {
    return this.cursorKey !== undefined;
  }
}
