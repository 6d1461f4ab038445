/** The SQL store: what is read, and what is handed to the writer and to the parts of a database. These are in its folder. */
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import type { LineId } from "../../core/values/ids.js";
import { beyond } from "../beginnings.js";
import { newIncarnation } from "../incarnation.js";
import type {
  About,
  Applied,
  Backup,
  BackupOptions,
  Beginnings,
  CaptureQuery,
  Change,
  ClaimQuery,
  Counts,
  Decision,
  DocChange,
  DocQuery,
  DocRow,
  Freed,
  Granting,
  InboxQuery,
  KnownNeeds,
  LineQuery,
  LineRow,
  Mail,
  NewSave,
  Pin,
  Posted,
  Present,
  Replacement,
  SaveQuery,
  Scrubbed,
  SessionQuery,
  SessionRow,
  Store,
  Swept,
  Traits,
  Witnesses,
} from "../port.js";
import { ofAllTenants, storeClosed } from "../refusals.js";
import type { SearchIndex } from "../search-port.js";
import { Claims } from "./claims.js";
import type { Database, DatabaseParts, Maintenance, Param, Row, Watching } from "./database.js";
import { blobRow, docRow, docWithBody, epochRow, lineRow, mailRow, presentRow, saveRow, sessionRow } from "./rows.js";
import { docsBy, mailBy, type Statements, sessionsBy, statementsIn } from "./statements.js";
import { freedOf, Writer } from "./writer.js";

const COUNTED_AT_ONCE = 20_000;
const LOOKED_AT_ONCE = 500;
const MAX_KEYS = 50_000;
const none: readonly never[] = [];

export interface SqlStoreOptions {
  readonly tenant: string;
  /** Given for a tenant with a name: it makes this the store of one tenant, and no longer the operator's. */
  readonly cursorKey?: string | undefined;
  readonly index?: SearchIndex & { close(): Promise<void> };
}

export class SqlStore implements Store {
  readonly traits: Traits;
  readonly index?: SearchIndex;
  readonly gone?: AbortSignal;
  readonly cursorKey?: string;
  readonly #db: Database;
  readonly #watching: Watching;
  readonly #maintenance: Maintenance;
  readonly #tenant: string;
  readonly #sql: Statements;
  readonly #writer: Writer;
  readonly #claims: Claims;
  /** The numbers of lines. One that was cut, and brought in again by another process, has another. */
  readonly #keys = new Map<string, number>();
  readonly #leaveIndex: () => Promise<void>;
  #closed = false;

  constructor({ db, watching, maintenance }: DatabaseParts, { tenant, index, cursorKey }: SqlStoreOptions) {
    this.#db = db;
    this.#watching = watching;
    this.#maintenance = maintenance;
    if (cursorKey !== undefined) this.cursorKey = cursorKey;
    if (db.gone) this.gone = db.gone;
    if (index) this.index = index;
    this.#leaveIndex = async () => index?.close();
    this.#tenant = tenant;
    this.traits = db.traits;
    this.#sql = statementsIn(db.dialect);
    this.#writer = new Writer(db.dialect, this.#sql, tenant);
    this.#claims = new Claims(db, this.#sql, tenant);
  }

  // ---- writing

  apply(changes: readonly Change[], docs: readonly DocChange[] = none, how?: "frees"): Promise<Applied> {
    if (this.#closed) return Promise.reject(storeClosed());
    const only = changes.length === 1 && docs.length === 0 ? changes[0] : undefined;
    const save = only && justASave(only);
    const quick = save && this.#db.append(only as Change, save);
    return quick ?? this.#db.write(this.#writer.apply({ changes, docs }, (begun) => this.#db.applied(changes, begun), how));
  }

  async capture(query: CaptureQuery, decide: (sessions: readonly Present[]) => Decision | undefined): Promise<Applied> {
    this.#open();
    return this.#db.write(this.#writer.capture(query, decide, this.#db.lockAll, ({ changes }, begun) => this.#db.applied(changes, begun)));
  }

  async replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Promise<boolean> {
    this.#open();
    return this.#db.write(this.#writer.replace(line, replacements, known));
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    this.#open();
    if (dryRun) return this.#wouldCut(line, after, limit);
    const freed = await this.#db.write(this.#writer.cut(line, after, limit));
    this.#keys.delete(line);
    this.#db.wasCut(line);
    return freed;
  }

  /** Counted a stretch at a time, and without a lock. */
  async #wouldCut(id: LineId, after: number, limit: number): Promise<Freed> {
    const line = (await this.#read(this.#sql.line, this.#tenant, id))[0];
    const freed = { count: 0, bytes: 0 };
    if (line === undefined || line[2] === 1) return freed;
    const pinned = (await this.#read(this.#sql.lastPin, this.#tenant, id))[0]?.[0] as number;
    for (let behind = Math.max(after, pinned, 0); freed.count < limit; ) {
      const some = await this.#read(this.#sql.nextSaves, line[0] as number, behind, Math.min(limit - freed.count, LOOKED_AT_ONCE));
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
    const some = await this.#read(this.#sql.someBlobs, this.#tenant, after, limit);
    const unused = some.filter(([, , isUsed]) => isUsed === 0);
    const freed = dryRun || unused.length === 0 ? freedOf(unused) : await this.#db.write(this.#writer.sweep(unused));
    return some.length < limit ? freed : { ...freed, next: some.at(-1)?.[0] as Digest };
  }

  async post(session: string, mail: Mail): Promise<Posted> {
    this.#open();
    return this.#db.write(this.#writer.post(session, mail, () => this.#db.posted(session)));
  }

  async claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]> {
    // Looked for first: a worker that finds nothing to do keeps nobody from writing.
    const { text, params } = this.#claims.any(query);
    return (await this.#read(text, ...params)).length === 0 ? [] : this.#db.write(this.#claims.claim(query, grant));
  }

  // ---- reading

  async now(): Promise<number> {
    this.#open();
    return this.#db.now();
  }

  async session(id: string): Promise<SessionRow | undefined> {
    const row = (await this.#read(this.#sql.session, this.#tenant, id))[0];
    return row && sessionRow(row);
  }

  async present(id: string): Promise<Present | undefined> {
    const row = (await this.#read(this.#sql.present, this.#tenant, id))[0];
    return row && presentRow(row);
  }

  async sessions({ agent, status, tag, archived, before, limit }: SessionQuery): Promise<readonly SessionRow[]> {
    const filters: Param[] = [];
    if (tag !== undefined) filters.push(tag);
    if (agent !== undefined) filters.push(agent);
    if (status !== undefined) filters.push(status);
    const statement = sessionsBy(this.#db.dialect, {
      agent: agent !== undefined,
      status: status !== undefined,
      tag: tag !== undefined,
      archived,
    });
    return (await this.#read(statement, this.#tenant, ...filters, before ?? Number.MAX_SAFE_INTEGER, limit)).map(sessionRow);
  }

  async buriedEpoch(id: string): Promise<number> {
    const row = (await this.#read(this.#sql.buriedEpoch, this.#tenant, id))[0];
    return row ? epochRow(row, id) : 0;
  }

  async idsFrom(beginning: string, limit: number): Promise<Beginnings> {
    const within = [this.#tenant, beginning, beyond(beginning), limit];
    const ids = async (statement: string) => (await this.#read(statement, ...within)).map(([id]) => String(id));
    return { sessions: await ids(this.#sql.sessionIdsFrom), lines: await ids(this.#sql.lineIdsFrom) };
  }

  async about(): Promise<About> {
    this.#open();
    const { diskBytes, ...about } = await this.#maintenance.about();
    return this.#isOfOne || diskBytes === undefined ? about : { ...about, diskBytes };
  }

  async line(id: string): Promise<LineRow | undefined> {
    const row = (await this.#read(this.#sql.line, this.#tenant, id))[0];
    return row && lineRow(row);
  }

  async past(id: string, limit: number): Promise<readonly LineRow[]> {
    return (await this.#read(this.#sql.past, this.#tenant, id, this.#tenant, limit, this.#tenant)).map(lineRow);
  }

  async lines(of: LineQuery): Promise<readonly LineRow[]> {
    if ("session" in of) return (await this.#read(this.#sql.linesOfSession, this.#tenant, of.session)).map(lineRow);
    if ("after" in of) return (await this.#read(this.#sql.oldestOfOrigin, this.#tenant, of.origin, of.after, of.limit)).map(lineRow);
    if ("origin" in of) return (await this.#read(this.#sql.linesOfOrigin, this.#tenant, of.origin)).map(lineRow);
    const { before = Number.MAX_SAFE_INTEGER, limit = Number.MAX_SAFE_INTEGER } = of;
    return (await this.#readLong(this.#sql.allLines, this.#tenant, before, limit)).map(lineRow);
  }

  async saves(line: LineId, query: SaveQuery): Promise<readonly Save[]> {
    const known = this.#keys.get(line);
    if (known !== undefined) {
      const found = await this.#savesOf(known, line, query);
      if (found.length > 0) return found;
    }
    const key = (await this.#read(this.#sql.lineKey, this.#tenant, line))[0]?.[0] as number | undefined;
    if (key === undefined) {
      this.#keys.delete(line);
      return [];
    }
    if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
    this.#keys.set(line, key);
    return key === known ? [] : this.#savesOf(key, line, query);
  }

  async #savesOf(key: number, line: LineId, { from, to, limit, newestFirst, items, state }: SaveQuery): Promise<readonly Save[]> {
    const { saves } = this.#sql;
    const by = items ? (state ? saves.both : saves.items) : state ? saves.state : saves.neither;
    this.#open();
    const rows = await this.#db.readSaves(newestFirst ? by.newestFirst : by.oldestFirst, [key, from, to, key, to, limit]);
    const found: Save[] = [];
    for (const row of rows) found.push(saveRow(line, row));
    return found;
  }

  async doc(kind: string, id: string): Promise<(DocRow & { readonly body: string | null }) | undefined> {
    const row = (await this.#read(this.#sql.doc, this.#tenant, kind, id))[0];
    return row && docWithBody(row);
  }

  async docs({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }: DocQuery): Promise<readonly DocRow[]> {
    const filters = of === undefined ? [] : [of];
    return (await this.#read(docsBy({ of: of !== undefined }), this.#tenant, kind, ...filters, before, limit)).map(docRow);
  }

  async pins(line: LineId): Promise<readonly Pin[]> {
    return (await this.#read(this.#sql.pins, this.#tenant, line)).map(([seq, doc]) => ({ seq: seq as number, doc: doc as number }));
  }

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    const row = (await this.#read(this.#sql.blob, this.#tenant, digest))[0];
    return row && blobRow(row);
  }

  async inbox(session: string, query: InboxQuery): Promise<readonly Mail[]> {
    if (!("ids" in query)) return (await this.#read(this.#sql.inbox, this.#tenant, session, query.dueBy, query.limit)).map(mailRow);
    const { ids } = query;
    this.#open();
    return ids.length === 0 ? [] : (await this.#read(mailBy(ids.length), this.#tenant, session, ...ids)).map(mailRow);
  }

  watch(session: string, wake: () => void): () => void {
    this.#open();
    return this.#watching.watch(session, wake);
  }

  watchAll(wake: () => void): () => void {
    this.#open();
    return this.#watching.watchAll(wake);
  }

  async counts(): Promise<Counts> {
    const [sessions, agents] = (await this.#readLong(this.#sql.sessionCounts, this.#tenant, this.#tenant, this.#tenant))[0] as [
      number,
      number,
    ];
    const sizeBytes = (await this.#readLong(this.#sql.blobBytes, this.#tenant))[0]?.[0] as number;
    const snapshots = (await this.#readLong(this.#sql.snapshotCount, this.#tenant))[0]?.[0] as number;
    const counts = { agents, sessions, checkpoints: 0, snapshots, messages: 0, sizeBytes };
    for (let after: readonly number[] | undefined = [0, 0]; after !== undefined; ) {
      const end = (await this.#readLong(this.#sql.stretchEnd, ...after, COUNTED_AT_ONCE - 1))[0] as readonly number[] | undefined;
      const upTo = end ?? [Number.MAX_SAFE_INTEGER, 0];
      const [checkpoints, messages, bytes] = (await this.#readLong(this.#sql.saveCounts, this.#tenant, ...after, ...upTo))[0] as number[];
      counts.checkpoints += checkpoints as number;
      counts.messages += messages as number;
      counts.sizeBytes += bytes as number;
      after = end;
      // A store of millions is counted without stopping the process for seconds.
      await breathe();
    }
    return counts;
  }

  async anchors(of?: ReadonlySet<string>): Promise<Witnesses> {
    this.#open();
    return this.#maintenance.anchors(of);
  }

  async incarnation(): Promise<string> {
    return String((await this.#read(this.#sql.incarnation))[0]?.[0] ?? "");
  }

  async beginIncarnation(): Promise<string> {
    this.#open();
    if (this.#isOfOne) throw ofAllTenants("A new incarnation");
    const name = newIncarnation();
    await this.#db.write(this.#writer.beginIncarnation(name));
    return name;
  }

  async backup(path: string, o: BackupOptions): Promise<Backup> {
    this.#open();
    if (this.#isOfOne) throw ofAllTenants("A backup");
    return this.#maintenance.backup(path, o);
  }

  async check(): Promise<readonly string[]> {
    this.#open();
    return this.#maintenance.check();
  }

  async compact(limit: number): Promise<Freed> {
    this.#open();
    const freed = await this.#maintenance.compact(limit);
    // The file is all tenants': how much of it was free says something of the others.
    return this.#isOfOne ? { ...freed, bytes: 0 } : freed;
  }

  async scrub(holds: (text: string) => boolean): Promise<Scrubbed> {
    this.#open();
    return this.#maintenance.scrub(holds);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#leaveIndex();
    await this.#maintenance.close();
  }

  #read(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.#closed ? Promise.reject(storeClosed()) : this.#db.read(statement, params);
  }

  #readLong(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.#closed ? Promise.reject(storeClosed()) : this.#db.read(statement, params, "long");
  }

  get #isOfOne(): boolean {
    return this.cursorKey !== undefined;
  }

  #open(): void {
    if (this.#closed) throw storeClosed();
    this.gone?.throwIfAborted();
  }
}

/** The save of a change that is nothing else: the common case, which has a quick way. */
function justASave(change: Change): NewSave | undefined {
  const { when, line, loose, claims, saves, head, label, lease, drained, reworded, forgets, remove } = change;
  if (saves?.length !== 1 || when.epoch === undefined || when.until !== undefined || when.version !== undefined) return undefined;
  return line || loose || claims || head || label || lease || drained?.length || reworded?.length || forgets || remove
    ? undefined
    : saves[0];
}
