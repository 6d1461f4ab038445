/** What is read from the rows of a SQL store, for one tenant. */
import { setImmediate as breathe } from "node:timers/promises";
import type { Save } from "../../core/journal/save.js";
import type { Digest } from "../../core/values/digest.js";
import type { BranchId } from "../../core/values/ids.js";
import { beyond } from "../beginnings.js";
import type { Counts } from "../port/info.js";
import type { BranchQuery, SaveQuery, SessionQuery } from "../port/queries.js";
import type { BranchRow, SessionFound, SessionRow } from "../port/rows.js";
import { Access } from "./access.js";
import type { Param, Row } from "./database.js";
import { blobRow, branchRow, epochRow, presentRow, saveRow, sessionRow } from "./rows.js";
import { sessionsBy } from "./statements.js";

/** The place of a session's id among its columns. */
const ID = 1;
const COUNTED_AT_ONCE = 20_000;
const MAX_KEYS = 50_000;

/**
 * The half of the store that only reads. Each method asks the database for rows, and the port says
 * what it answers.
 */
export abstract class SqlReads extends Access {
  /**
   * The numbers of branches. One that was cut, and brought in again by another process, has
   * another.
   */
  protected readonly keys = new Map<string, number>();

  async session(id: string, how?: "end"): Promise<SessionFound> {
    if (how === "end") {
      const [row] = await this.read(this.sql.present, this.tenant, id);
      if (row !== undefined) return { ...presentRow(row), buried: 0 };
    }
    const params = [this.tenant, id, this.tenant, id];
    const [row, older] = await this.read(this.sql.sessionOrBuried, ...params);
    const found = row?.[ID] === null ? older : row;
    // One that was made between the two looks is looked at again: its branch must come along.
    if (found !== undefined && how === "end") return this.session(id, how);
    if (found !== undefined) return { row: sessionRow(found), buried: 0 };
    return { row: undefined, buried: row === undefined ? 0 : epochRow(row, id) };
  }

  async sessions(query: SessionQuery): Promise<readonly SessionRow[]> {
    if ("beginning" in query)
      return (await this.#from(this.sql.sessionsFrom, query)).map(sessionRow);
    const { agent, status, tag, archived, before, limit } = query;
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

  async branches(query: BranchQuery): Promise<readonly BranchRow[]> {
    const { sql, tenant } = this;
    const rows = (): Promise<readonly Row[]> => {
      switch (query.kind) {
        case "past":
          return query.limit === 1
            ? this.read(sql.branch, tenant, query.id)
            : this.read(sql.past, tenant, query.id, tenant, query.limit, tenant);
        case "session":
          return this.read(sql.branchesOfSession, tenant, query.session);
        case "forks":
          return this.read(sql.branchesOfForkPoint, tenant, query.of);
        case "later-forks":
          return this.read(sql.oldestOfForkPoint, tenant, query.of, query.after, query.limit);
        case "beginning":
          return this.#from(sql.branchesFrom, query);
        case "all": {
          const { before = Number.MAX_SAFE_INTEGER, limit = Number.MAX_SAFE_INTEGER } = query;
          return this.readLong(sql.allBranches, tenant, before, limit);
        }
      }
    };
    return (await rows()).map(branchRow);
  }

  #from(
    statement: string,
    { beginning, limit }: { readonly beginning: string; readonly limit: number },
  ): Promise<readonly Row[]> {
    return this.read(statement, this.tenant, beginning, beyond(beginning), limit);
  }

  async saves(branch: BranchId, query: SaveQuery): Promise<readonly Save[]> {
    const known = this.keys.get(branch);
    if (known !== undefined) {
      const found = await this.#savesOf(known, branch, query);
      if (found.length > 0) return found;
    }
    const key = (await this.read(this.sql.branchKey, this.tenant, branch))[0]?.[0] as
      | number
      | undefined;
    if (key === undefined) {
      this.keys.delete(branch);
      return [];
    }
    if (this.keys.size >= MAX_KEYS) this.keys.clear();
    this.keys.set(branch, key);
    return key === known ? [] : this.#savesOf(key, branch, query);
  }

  async #savesOf(
    key: number,
    branch: BranchId,
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
    for (const row of rows) found.push(saveRow(branch, row));
    return found;
  }

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    const row = (await this.read(this.sql.blob, this.tenant, digest))[0];
    return row && blobRow(row);
  }

  protected async counts(): Promise<Counts> {
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
}
