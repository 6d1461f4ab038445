/**
 * A store in a Postgres schema: how it is opened and brought up to date.
 *
 * POSTGRES-1  the process that comes first migrates, and others wait for it; a process that finds
 *             everything in place needs no right to make anything. They wait for what only the
 *             store's roles can make or lock: the schema, and the table `meta`. An advisory lock
 *             would be any role's to take.
 * POSTGRES-2  a schema made by a newer version is refused before anything is read from it.
 * POSTGRES-3  what is sent to the server of names is quoted; what is shown of an address has no
 *             password.
 * POSTGRES-5  advisory locks and notices are named by the store's own id, which is drawn and which
 *             only its roles can read: others can guess neither.
 */
import { randomBytes } from "node:crypto";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { indexKey } from "../index-notes.js";
import { SqlStore } from "../store.js";
import { type Connection, Connections } from "./connections.js";
import { PostgresDatabase } from "./database.js";
import { PostgresMaintenance } from "./maintenance.js";
import { checkSchema } from "./names.js";
import { Notifier } from "./notify.js";
import type { Answer } from "./pg-client.js";
import { FORMAT, schemaText } from "./schema.js";
import { PostgresIndex } from "./search/postgres-index.js";

export interface PostgresOptions {
  readonly tenant?: string;
  readonly busyMs?: number;
  /** The schema that the tables are in. */
  readonly schema?: string;
  /** How many connections there are at most. */
  readonly connections?: number;
  /** How many callers wait for one at most. */
  readonly queue?: number;
  /**
   * Prepare statements by name: faster, and not behind a pooler that moves transactions between
   * connections.
   */
  readonly prepare?: boolean;
}

const SCHEMA = "holdfast";
const CONNECTIONS = 10;
const QUEUE = 10_000;
const BUSY_MS = 5_000;
const OLDEST = 130_000;
const MAKE_MS = 3_600_000;

export async function openPostgres(
  { url, schema: inAddress }: { readonly url: string; readonly schema: string | undefined },
  given: PostgresOptions = {},
): Promise<SqlStore> {
  const {
    tenant = "",
    busyMs = BUSY_MS,
    schema: named = inAddress ?? SCHEMA,
    connections: size = CONNECTIONS,
    queue = QUEUE,
    prepare = false,
  } = given;
  const schema = checkSchema(named);
  const connections = new Connections({ url, connections: size, queue, busyMs, prepare });
  // Never empty: what a transaction that named no tenant finds in the setting is the empty text.
  const key = `=${tenant}`;
  try {
    const { format, isolation } = await connections.use((connection) => look(connection, schema));
    // It may wait for another who does the same, and takes as long as there is much to bring up to
    // date.
    if (format === 0)
      await connections.use((connection) => make(connection, schema), { withinMs: MAKE_MS });
    const quoted = identifier(schema);
    const { id, isIndexed } = await connections.use((connection) => known(connection, schema, key));
    const space = `${id}\0${quoted}`;
    const notices = new Notifier(connections, space, key);
    const db = new PostgresDatabase(connections, notices, {
      schema: quoted,
      space,
      tenant: key,
      readCommitted: isolation === "read committed",
      queue,
      lockMs: Math.max(50, Math.floor(busyMs / 2)),
      answerMs: 2 * busyMs + 1_000,
    });
    const cursorKey = tenant === "" ? undefined : `${space}\0${key}`;
    const parts = {
      db,
      watching: notices,
      maintenance: new PostgresMaintenance(db, connections, notices),
    };
    return new SqlStore(parts, {
      tenant: key,
      cursorKey,
      index: new PostgresIndex(db, key, isIndexed),
    });
  } catch (error) {
    await connections.close();
    throw error;
  }
}

const identifier = (name: string): string => `"${name.replaceAll('"', '""')}"`;

interface Server {
  readonly format: number;
  readonly isolation: string;
}

/** Which server this is, and how far the schema is. 0: it is not there, or nothing is in it. */
async function look(connection: Connection, schema: string): Promise<Server> {
  const text = `SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
    current_setting('default_transaction_isolation'), to_regclass($1) IS NOT NULL`;
  const [version, encoding, isolation, made] = only(
    await connection.send([{ text, params: [`${identifier(schema)}.meta`] }]),
  ) as [number, string, string, number];
  if (version < OLDEST)
    throw new HoldfastError("UNSUPPORTED", "This Postgres is too old: 13 or newer is needed.", {
      found: version,
    });
  if (encoding !== "UTF8")
    throw new HoldfastError(
      "UNSUPPORTED",
      `The database keeps its text as ${quote(encoding)}; UTF8 is needed. Create it with createdb -E UTF8.`,
      {
        found: encoding,
      },
    );
  return { format: made === 1 ? await formatOf(connection, schema) : 0, isolation };
}

async function formatOf(connection: Connection, schema: string): Promise<number> {
  const text = `SELECT value FROM ${identifier(schema)}.meta WHERE key = 'format'`;
  const found = Number((only(await connection.send([{ text, params: [] }])) ?? [])[0] ?? 0);
  if (!Number.isInteger(found))
    throw new HoldfastError(
      "NOT_A_STORE",
      `The schema ${quote(schema)} holds tables of another program. It was left untouched.`,
    );
  if (found > FORMAT) {
    throw new HoldfastError(
      "NEWER_FORMAT",
      `The schema ${quote(schema)} was made by a newer Holdfast (format ${found}, this one knows ${FORMAT}). Update this one.`,
      { found },
    );
  }
  return found;
}

/** POSTGRES-5 */
async function known(
  connection: Connection,
  schema: string,
  tenant: string,
): Promise<{ readonly id: string; readonly isIndexed: boolean }> {
  const meta = `${identifier(schema)}.meta`;
  const text = `SELECT (SELECT value FROM ${meta} WHERE key = 'store'), EXISTS (SELECT 1 FROM ${meta} WHERE key = $1)`;
  const [id, isIndexed] = only(await connection.send([{ text, params: [indexKey(tenant)] }])) as [
    string | null,
    number,
  ];
  if (id === null)
    throw new HoldfastError(
      "CORRUPT",
      `The table meta in the schema ${quote(schema)} has lost the store's id. Restore a backup.`,
    );
  return { id, isIndexed: isIndexed === 1 };
}

/**
 * Tried again for each that was quicker: once to make the schema, once to make its first table, and
 * for those that took these back.
 */
const MOST_TRIES = 10;

async function make(connection: Connection, schema: string): Promise<void> {
  for (let tries = 1; !(await makeFirst(connection, schema)); tries++) {
    await connection.send([{ text: "ROLLBACK", params: [] }]);
    if (tries === MOST_TRIES)
      throw new HoldfastError(
        "BUSY",
        `Others keep making the schema ${quote(schema)}. Try again when they are done.`,
      );
  }
}

/**
 * Makes the schema; or answers false, if another process has made what this one was about to make.
 */
async function makeFirst(connection: Connection, schema: string): Promise<boolean> {
  const name = identifier(schema);
  const run = (text: string, ...params: string[]) => connection.send([{ text, params }]);
  await connection.send([
    { text: "BEGIN ISOLATION LEVEL READ COMMITTED", params: [] },
    {
      text: "SELECT set_config('search_path', $1, true), set_config('holdfast.tenant', '', true)",
      params: [`${name}, pg_temp`],
    },
  ]);
  const [there] = only(
    await run("SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema),
  ) as [number];
  if (there === 0 && !(await isFirst(allowed(run(`CREATE SCHEMA ${name}`), schema)))) return false;
  const [made, others] = only(
    await run(
      `SELECT to_regclass($1) IS NOT NULL, (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $2 AND c.relkind = 'r')`,
      `${name}.meta`,
      schema,
    ),
  ) as [number, number];
  if (made === 0) {
    if (others > 0)
      throw new HoldfastError(
        "NOT_A_STORE",
        `The schema ${quote(schema)} holds tables of another program. It was left untouched; choose another with the option schema.`,
      );
    if (
      !(await isFirst(
        allowed(run("CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)"), schema),
      ))
    )
      return false;
    await run(
      "INSERT INTO meta (key, value) VALUES ('store', $1), ('format', '0')",
      randomBytes(12).toString("base64url"),
    );
  }
  await allowed(run("LOCK TABLE meta IN SHARE ROW EXCLUSIVE MODE"), schema);
  // Looked at again under the lock: another process may have done it all.
  if ((await formatOf(connection, schema)) === 0) {
    await allowed(
      connection.send(statementsOf(schemaText(name)).map((text) => ({ text, params: [] }))),
      schema,
    );
    await run("UPDATE meta SET value = $1 WHERE key = 'format'", String(FORMAT));
  }
  await run("COMMIT");
  return true;
}

/**
 * Two that make the same name: the second waits until the first has committed, and is then told
 * that the name is there.
 */
const TAKEN: readonly unknown[] = ["23505", "42P06", "42P07"];

async function isFirst(made: Promise<void>): Promise<boolean> {
  try {
    await made;
    return true;
  } catch (error) {
    if (TAKEN.includes((error as { code?: unknown }).code)) return false;
    throw error;
  }
}

/**
 * The protocol takes one statement at a time. They end with a semicolon at the end of a row,
 * outside of function bodies.
 */
function statementsOf(migration: string): readonly string[] {
  const found: string[] = [];
  let text = "";
  let inBody = false;
  for (const row of migration.split("\n")) {
    text += `${row}\n`;
    if (row.split("$$").length % 2 === 0) inBody = !inBody;
    if (!inBody && row.trimEnd().endsWith(";")) {
      found.push(text);
      text = "";
    }
  }
  return found;
}

async function allowed(made: Promise<readonly Answer[]>, schema: string): Promise<void> {
  try {
    await made;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "42501") throw error;
    throw new HoldfastError(
      "DENIED",
      `The role may not make the store's tables in the schema ${quote(schema)}. Let the owner of the database run once: CREATE SCHEMA ${identifier(schema)} AUTHORIZATION the_role;`,
      {},
      error,
    );
  }
}

const only = (answers: readonly Answer[]): readonly unknown[] | undefined => answers[0]?.rows[0];
