/**
 * The SQL store: what is handed to the writer, and to the parts of a database. What is read is in
 * `reads.ts`.
 */
import { setImmediate as breathe } from "node:timers/promises";
import type { Digest } from "../../core/values/digest.js";
import type { LineId } from "../../core/values/ids.js";
import { newIncarnation } from "../incarnation.js";
import { justASave } from "../just-a-save.js";
import type { Applied, Change } from "../port/changes.js";
import type { ClaimQuery, Granting } from "../port/claims.js";
import type { Backup, BackupOptions, Witnesses } from "../port/copies.js";
import type { CaptureQuery, Decision, DocChange } from "../port/documents.js";
import type { Mail, Posted } from "../port/inbox.js";
import type { About, Traits } from "../port/info.js";
import type { Freed, KnownNeeds, Replacement, Scrubbed, Swept } from "../port/reclaim.js";
import type { Present, SessionRow } from "../port/rows.js";
import type { Store } from "../port.js";
import { ofAllTenants, storeClosed } from "../refusals.js";
import type { SearchIndex } from "../search-port.js";
import { Claims } from "./claims.js";
import type { DatabaseParts, Maintenance, Watching } from "./database.js";
import { Inbox } from "./inbox.js";
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
  readonly #watching: Watching;
  readonly #maintenance: Maintenance;
  readonly #writer: Writer;
  readonly #removals: Removals;
  readonly #inbox: Inbox;
  readonly #claims: Claims;
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
    this.#inbox = new Inbox(sql, tenant);
    this.#writer = new Writer(db.dialect, sql, tenant, this.#inbox);
    this.#removals = new Removals(db.dialect, sql, tenant);
    this.#claims = new Claims(db, sql, tenant);
  }

  // ---- writing

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

  async capture(
    query: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
  ): Promise<Applied> {
    this.checkOpen();
    return this.db.write(
      this.#writer.capture(query, decide, this.db.lockAll, ({ changes }, begun) =>
        this.db.applied(changes, begun),
      ),
    );
  }

  async replace(
    line: LineId,
    replacements: readonly Replacement[],
    known: KnownNeeds,
  ): Promise<boolean> {
    this.checkOpen();
    return this.db.write(this.#removals.replace(line, replacements, known));
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    this.checkOpen();
    if (dryRun) return this.#wouldCut(line, after, limit);
    const freed = await this.db.write(this.#removals.cut(line, after, limit));
    this.keys.delete(line);
    this.db.wasCut(line);
    return freed;
  }

  /** Counted a stretch at a time, and without a lock. */
  async #wouldCut(id: LineId, after: number, limit: number): Promise<Freed> {
    const line = (await this.read(this.sql.line, this.tenant, id))[0];
    const freed = { count: 0, bytes: 0 };
    if (line === undefined || line[2] === 1) return freed;
    const pinned = (await this.read(this.sql.lastPin, this.tenant, id))[0]?.[0] as number;
    for (let behind = Math.max(after, pinned, 0); freed.count < limit; ) {
      const some = await this.read(
        this.sql.nextSaves,
        line[0] as number,
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

  async sweep(limit: number, dryRun: boolean, after = ""): Promise<Swept> {
    // Looked for without a lock: whoever begins to use one meanwhile is seen before it goes.
    const some = await this.read(this.sql.someBlobs, this.tenant, after, limit);
    const unused = some.filter(([, , isUsed]) => isUsed === 0);
    const freed =
      dryRun || unused.length === 0
        ? freedOf(unused)
        : await this.db.write(this.#removals.sweep(unused));
    return some.length < limit ? freed : { ...freed, next: some.at(-1)?.[0] as Digest };
  }

  async post(session: string, mail: Mail): Promise<Posted> {
    this.checkOpen();
    return this.db.write(this.#inbox.post(session, mail, () => this.db.posted(session)));
  }

  async claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]> {
    // Looked for first: a worker that finds nothing to do keeps nobody from writing.
    const { text, params } = this.#claims.any(query);
    return (await this.read(text, ...params)).length === 0
      ? []
      : this.db.write(this.#claims.claim(query, grant));
  }

  async now(): Promise<number> {
    this.checkOpen();
    return this.db.now();
  }

  async about(): Promise<About> {
    this.checkOpen();
    const { diskBytes, ...about } = await this.#maintenance.about();
    return this.#isOfOne || diskBytes === undefined ? about : { ...about, diskBytes };
  }

  watch(session: string, wake: () => void): () => void {
    this.checkOpen();
    return this.#watching.watch(session, wake);
  }

  watchAll(wake: () => void): () => void {
    this.checkOpen();
    return this.#watching.watchAll(wake);
  }

  async anchors(of?: ReadonlySet<string>): Promise<Witnesses> {
    this.checkOpen();
    return this.#maintenance.anchors(of);
  }

  async beginIncarnation(): Promise<string> {
    this.checkOpen();
    if (this.#isOfOne) throw ofAllTenants("A new incarnation");
    const name = newIncarnation();
    await this.db.write(this.#writer.beginIncarnation(name));
    return name;
  }

  async backup(path: string, o: BackupOptions): Promise<Backup> {
    this.checkOpen();
    if (this.#isOfOne) throw ofAllTenants("A backup");
    return this.#maintenance.backup(path, o);
  }

  async check(): Promise<readonly string[]> {
    this.checkOpen();
    return this.#maintenance.check();
  }

  async compact(limit: number): Promise<Freed> {
    this.checkOpen();
    const freed = await this.#maintenance.compact(limit);
    // The file is all tenants': how much of it was free says something of the others.
    return this.#isOfOne ? { ...freed, bytes: 0 } : freed;
  }

  async scrub(holds: (text: string) => boolean): Promise<Scrubbed> {
    this.checkOpen();
    return this.#maintenance.scrub(holds);
  }

  async close(): Promise<void> {
    if (this.isClosed) return;
    this.isClosed = true;
    await this.#leaveIndex();
    await this.#maintenance.close();
  }

  get #isOfOne(): boolean {
    return this.cursorKey !== undefined;
  }
}
