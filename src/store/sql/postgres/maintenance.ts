/** Looks after a schema: most of it is the server's to do. */

import { type Backup, noTailAnchors, type TailAnchors } from "../../port/copies.js";
import type { About } from "../../port/info.js";
import type { Freed, Scrubbed } from "../../port/reclaim.js";
import { noBackup } from "../../refusals.js";
import type { Database, Maintenance } from "../database.js";
import { concernsOf } from "./concerns.js";
import type { Connections } from "./connections.js";
import type { Notifier } from "./notify.js";
import { FORMAT } from "./schema.js";

export class PostgresMaintenance implements Maintenance {
  readonly #db: Pick<Database, "read">;
  readonly #connections: Connections;
  readonly #notices: Notifier;

  constructor(db: Pick<Database, "read">, connections: Connections, notices: Notifier) {
    this.#db = db;
    this.#connections = connections;
    this.#notices = notices;
  }

  /** A server keeps its own log of what it acknowledged; there is no file beside it to ask. */
  async anchors(): Promise<TailAnchors> {
    return noTailAnchors;
  }

  async check(): Promise<readonly string[]> {
    return [];
  }

  async about(): Promise<About> {
    const text = `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('full_page_writes'), current_database(), current_schema(),
      coalesce(sum(pg_total_relation_size(c.oid)), 0)::float8, current_user,
      (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user),
      array_to_json(array_agg(format('%I.%I', n.nspname, c.relname) ORDER BY c.relname)
        FILTER (WHERE c.relname <> 'meta' AND NOT (c.relrowsecurity AND c.relforcerowsecurity)))::text
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'`;
    const [version, fsync, whole, database, schema, bytes, role, bypasses, unforced] = (
      await this.#db.read(text, [])
    )[0] as [string, string, string, string, string, number, string, number, string | null];
    const concerns = concernsOf({
      off: [
        ...(fsync === "off" ? ["fsync"] : []),
        ...(whole === "off" ? ["full_page_writes"] : []),
      ],
      role,
      bypasses: bypasses === 1,
      unforced: JSON.parse(unforced ?? "[]"),
      link: this.#connections.link,
    });
    return {
      kind: "postgres",
      place: `database ${database}, schema ${schema}`,
      engine: `PostgreSQL ${version}`,
      format: FORMAT,
      diskBytes: bytes,
      synced: fsync === "off" ? "not at all" : "the server's write-ahead log, at every commit",
      concerns,
    };
  }

  async backup(): Promise<Backup> {
    throw noBackup(
      "Use pg_dump, and, after pg_restore, `holdfast restored` before anything is run; or hold.export.",
    );
  }

  /**
   * The server vacuums by itself: what was freed is used again, and the end of a table is given
   * back.
   */
  async compact(): Promise<Freed> {
    return { count: 0, bytes: 0 };
  }

  /**
   * What was there is the server's now: it keeps versions of rows until it clears them away, and a
   * log of its own.
   */
  async scrub(): Promise<Scrubbed> {
    return {
      left: [
        "versions of rows that the server has not cleared away: VACUUM FULL of the schema's tables rewrites their files.",
        "the server's write-ahead log, its standbys and its backups, for as long as it keeps them.",
      ],
    };
  }

  async close(): Promise<void> {
    await this.#notices.close();
    await this.#connections.close();
  }
}
