/** What is read from the rows of a SQL store, for one tenant. */
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import type { LineId } from "../../core/values/ids.js";
import { beyond } from "../beginnings.js";
import type { DocQuery, DocRow, Pin } from "../port/documents.js";
import type { InboxQuery, Mail } from "../port/inbox.js";
import type { Counts } from "../port/info.js";
import type { Beginnings, LineQuery, SaveQuery, SessionQuery } from "../port/queries.js";
import type { LineRow, Present, SessionRow } from "../port/rows.js";
import { storeClosed } from "../refusals.js";
import type { Database, Param, Row } from "./database.js";
import {
  blobRow,
  docRow,
  docWithBody,
  epochRow,
  lineRow,
  mailRow,
  presentRow,
  saveRow,
  sessionRow,
} from "./rows.js";
import { docsBy, mailBy, type Statements, sessionsBy } from "./statements.js";

const COUNTED_AT_ONCE = 20_000;
const MAX_KEYS = 50_000;

/**
 * The half of the store that only reads. Each method asks the database for rows, and the port says
 * what it answers.
 */
export abstract class SqlReads {
  readonly gone?: AbortSignal;
  protected readonly db: Database;
  protected readonly sql: Statements;
  protected readonly tenant: string;
  /**
   * The numbers of lines. One that was cut, and brought in again by another process, has another.
   */
  protected readonly keys = new Map<string, number>();
  protected isClosed = false;

  constructor(db: Database, sql: Statements, tenant: string) {
    this.db = db;
    if (db.gone) this.gone = db.gone;
    this.sql = sql;
    this.tenant = tenant;
  }

  async session(id: string): Promise<SessionRow | undefined> {
    const row = (await this.read(this.sql.session, this.tenant, id))[0];
    return row && sessionRow(row);
  }

  async present(id: string): Promise<Present | undefined> {
    const row = (await this.read(this.sql.present, this.tenant, id))[0];
    return row && presentRow(row);
  }

  async sessions({
    agent,
    status,
    tag,
    archived,
    before,
    limit,
  }: SessionQuery): Promise<readonly SessionRow[]> {
    const filters: Param[] = [];
    if (tag !== undefined) filters.push(tag);
    if (agent !== undefined) filters.push(agent);
    if (status !== undefined) filters.push(status);
    const statement = sessionsBy(this.db.dialect, {
      agent: agent !== undefined,
      status: status !== undefined,
      tag: tag !== undefined,
      archived,
    });
    return (
      await this.read(statement, this.tenant, ...filters, before ?? Number.MAX_SAFE_INTEGER, limit)
    ).map(sessionRow);
  }

  async buriedEpoch(id: string): Promise<number> {
    const row = (await this.read(this.sql.buriedEpoch, this.tenant, id))[0];
    return row ? epochRow(row, id) : 0;
  }

  async idsFrom(beginning: string, limit: number): Promise<Beginnings> {
    const within = [this.tenant, beginning, beyond(beginning), limit];
    const ids = async (statement: string) =>
      (await this.read(statement, ...within)).map(([id]) => String(id));
    return { sessions: await ids(this.sql.sessionIdsFrom), lines: await ids(this.sql.lineIdsFrom) };
  }

  async line(id: string): Promise<LineRow | undefined> {
    const row = (await this.read(this.sql.line, this.tenant, id))[0];
    return row && lineRow(row);
  }

  async past(id: string, limit: number): Promise<readonly LineRow[]> {
    return (await this.read(this.sql.past, this.tenant, id, this.tenant, limit, this.tenant)).map(
      lineRow,
    );
  }

  async lines(of: LineQuery): Promise<readonly LineRow[]> {
    if ("session" in of)
      return (await this.read(this.sql.linesOfSession, this.tenant, of.session)).map(lineRow);
    if ("after" in of)
      return (
        await this.read(this.sql.oldestOfOrigin, this.tenant, of.origin, of.after, of.limit)
      ).map(lineRow);
    if ("origin" in of)
      return (await this.read(this.sql.linesOfOrigin, this.tenant, of.origin)).map(lineRow);
    const { before = Number.MAX_SAFE_INTEGER, limit = Number.MAX_SAFE_INTEGER } = of;
    return (await this.readLong(this.sql.allLines, this.tenant, before, limit)).map(lineRow);
  }

  async saves(line: LineId, query: SaveQuery): Promise<readonly Save[]> {
    const known = this.keys.get(line);
    if (known !== undefined) {
      const found = await this.#savesOf(known, line, query);
      if (found.length > 0) return found;
    }
    const key = (await this.read(this.sql.lineKey, this.tenant, line))[0]?.[0] as
      | number
      | undefined;
    if (key === undefined) {
      this.keys.delete(line);
      return [];
    }
    if (this.keys.size >= MAX_KEYS) this.keys.clear();
    this.keys.set(line, key);
    return key === known ? [] : this.#savesOf(key, line, query);
  }

  async #savesOf(
    key: number,
    line: LineId,
    { from, to, limit, newestFirst, items, state }: SaveQuery,
  ): Promise<readonly Save[]> {
    const { saves } = this.sql;
    const by = items ? (state ? saves.both : saves.items) : state ? saves.state : saves.neither;
    this.checkOpen();
    const rows = await this.db.readSaves(newestFirst ? by.newestFirst : by.oldestFirst, [
      key,
      from,
      to,
      key,
      to,
      limit,
    ]);
    const found: Save[] = [];
    for (const row of rows) found.push(saveRow(line, row));
    return found;
  }

  async doc(
    kind: string,
    id: string,
  ): Promise<(DocRow & { readonly body: string | null }) | undefined> {
    const row = (await this.read(this.sql.doc, this.tenant, kind, id))[0];
    return row && docWithBody(row);
  }

  async docs({
    kind,
    of,
    before = Number.MAX_SAFE_INTEGER,
    limit,
  }: DocQuery): Promise<readonly DocRow[]> {
    const filters = of === undefined ? [] : [of];
    return (
      await this.read(
        docsBy({ of: of !== undefined }),
        this.tenant,
        kind,
        ...filters,
        before,
        limit,
      )
    ).map(docRow);
  }

  async pins(line: LineId): Promise<readonly Pin[]> {
    return (await this.read(this.sql.pins, this.tenant, line)).map(([seq, doc]) => ({
      seq: seq as number,
      doc: doc as number,
    }));
  }

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    const row = (await this.read(this.sql.blob, this.tenant, digest))[0];
    return row && blobRow(row);
  }

  async inbox(session: string, query: InboxQuery): Promise<readonly Mail[]> {
    if (!("ids" in query))
      return (await this.read(this.sql.inbox, this.tenant, session, query.dueBy, query.limit)).map(
        mailRow,
      );
    const { ids } = query;
    this.checkOpen();
    return ids.length === 0
      ? []
      : (await this.read(mailBy(ids.length), this.tenant, session, ...ids)).map(mailRow);
  }

  async counts(): Promise<Counts> {
    const [sessions, agents] = (
      await this.readLong(this.sql.sessionCounts, this.tenant, this.tenant, this.tenant)
    )[0] as [number, number];
    const sizeBytes = (await this.readLong(this.sql.blobBytes, this.tenant))[0]?.[0] as number;
    const snapshots = (await this.readLong(this.sql.snapshotCount, this.tenant))[0]?.[0] as number;
    const counts = { agents, sessions, checkpoints: 0, snapshots, messages: 0, sizeBytes };
    for (let after: readonly number[] | undefined = [0, 0]; after !== undefined; ) {
      const end = (await this.readLong(this.sql.stretchEnd, ...after, COUNTED_AT_ONCE - 1))[0] as
        | readonly number[]
        | undefined;
      const upTo = end ?? [Number.MAX_SAFE_INTEGER, 0];
      const [checkpoints, messages, bytes] = (
        await this.readLong(this.sql.saveCounts, this.tenant, ...after, ...upTo)
      )[0] as number[];
      counts.checkpoints += checkpoints as number;
      counts.messages += messages as number;
      counts.sizeBytes += bytes as number;
      after = end;
      // A store of millions is counted without stopping the process for seconds.
      await breathe();
    }
    return counts;
  }

  async incarnation(): Promise<string> {
    return String((await this.read(this.sql.incarnation))[0]?.[0] ?? "");
  }

  protected read(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.isClosed ? Promise.reject(storeClosed()) : this.db.read(statement, params);
  }

  /** It goes over much of the store, and may take its time. */
  protected readLong(statement: string, ...params: Param[]): Promise<readonly Row[]> {
    return this.isClosed ? Promise.reject(storeClosed()) : this.db.read(statement, params, "long");
  }

  protected checkOpen(): void {
    if (this.isClosed) throw storeClosed();
    this.gone?.throwIfAborted();
  }
}
