/**
 * The SQLite database of smooth-operator.
 *
 * SMOOTH-1  the database is not changed, and nothing is made beside it: it is read from a copy,
 *           together with its log, as a crash would have left it. The copy is good if nothing was
 *           written meanwhile.
 * SMOOTH-2  what the database says is data: only a plain table is read, a row at a time.
 * SMOOTH-3  a rollback journal is never given to SQLite: one can name any file, which SQLite then
 *           deletes. smooth writes none, as it has a log; where one is left all the same, whoever
 *           trusts it opens the database once.
 */
import { constants } from "node:fs";
import { lstat, mkdtemp, open, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { parseJson } from "../../core/values/lossless-json.js";
import type { Json, JsonObject } from "../../index.js";
import { type Driver, openDriver, type Statement } from "../../store/sql/sqlite/driver/driver.js";
import { numbersKept } from "../reading/documents.js";
import { at, integerOf, isObject, objectAt, textAt } from "../reading/fields.js";
import { MAX_FILE_BYTES, textOfBytes, unreadable } from "../reading/files.js";
import type { Reading } from "../reading/model.js";
import { digestOf } from "../reading/names.js";
import { momentOf } from "../reading/times.js";
import { contentOf, type Light } from "./smooth-checkpoint.js";

const TRIES = 5;
const MAX_ROWS = 1_000_000;
/** The file, and the log of changes that are not in it yet. */
const COPIED = ["", "-wal"] as const;
const JOURNAL = "-journal";
/** More than metadata takes. */
const MAX_CELL_BYTES = 1024 * 1024;
const FOLDER = "holdfast-import-";
const STALE_MS = 24 * 60 * 60 * 1000;

export async function readRows({
  root,
  report,
  signal,
}: Reading): Promise<{ lights: readonly Light[]; close: () => Promise<void> }> {
  const copy = await copyOf(root);
  let db: Driver | undefined;
  const close = async () => {
    db?.close();
    await rm(copy.folder, { recursive: true, force: true });
  };
  try {
    db = openDriver(copy.path);
    const rows = new Rows(db, root);
    const ids = rows.ids();
    report.expects(ids.length);
    const lights: Light[] = [];
    for (const rowid of ids) {
      signal?.throwIfAborted();
      const path = `checkpoints[${rowid}]`;
      try {
        const { value, digest, bytes, texts, isOdd, tooLarge } = rows.read(rowid);
        for (const column of tooLarge) report.of(path).tooLarge(column);
        if (isOdd)
          report.note("Its metadata is torn, or no object. The conversation is imported.", path);
        if (texts > 0) report.note(`${numbersKept(texts)}.`, path);
        const time = momentOf(value["created_at"]);
        const load = async () => contentOf(rows.read(rowid).value, report.of(path));
        const record = {
          id: textAt(value, "id") ?? rowid,
          digest,
          at: time?.ms ?? copy.mtimeMs,
          path,
          bytes,
          load,
        };
        const agent = textAt(value, "agent_id") ?? "";
        const conversation = textAt(objectAt(value, "conversation") ?? {}, "id") ?? "";
        const iteration = integerOf(at(value, "iteration")) ?? 0n;
        lights.push({ agent, conversation, time, iteration, last: BigInt(rowid), record });
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        report.skip(path, error.message);
      }
      report.fileRead();
    }
    return { lights, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** SMOOTH-1: a copy that nobody wrote to while it was made. */
async function copyOf(path: string): Promise<{ folder: string; path: string; mtimeMs: number }> {
  await sweep();
  const folder = await mkdtemp(join(tmpdir(), FOLDER));
  const to = join(folder, "copy.db");
  try {
    for (let tries = 0; tries < TRIES; tries++) {
      const before = await look(path);
      for (const beside of COPIED) {
        await rm(`${to}${beside}`, { force: true });
        if (before.has(beside)) await copyPlain(`${path}${beside}`, `${to}${beside}`);
      }
      const after = await look(path);
      const isStill =
        before.size === after.size &&
        [...before].every(([beside, seen]) => after.get(beside) === seen);
      if (isStill && !before.has(JOURNAL))
        return { folder, path: to, mtimeMs: (await lstat(path)).mtimeMs };
      await sleep(50 * (tries + 1));
    }
    const isLeft = (await look(path)).has(JOURNAL);
    throw new HoldfastError(
      "BUSY",
      isLeft
        ? `Beside ${quote(path)} is a journal of a write that is under way or was broken off, and it is not read. Stop whoever writes; if it is still there, open the database once with sqlite3, which settles it.`
        : `${quote(path)} is being written all the time. Stop whoever writes it, or import a copy.`,
      { path },
    );
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** From the file that is open: what has its name by now may be a link. */
async function copyPlain(from: string, to: string): Promise<void> {
  const handle = await open(
    from,
    constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
  ).catch((cause: unknown) => {
    throw new HoldfastError(
      "BUSY",
      `${quote(from)} cannot be opened, or became a link. Run the import again.`,
      { path: from },
      cause,
    );
  });
  try {
    if ((await handle.stat()).isFile())
      await writeFile(to, handle.createReadStream({ autoClose: false }), { mode: 0o600 });
  } finally {
    await handle.close();
  }
}

/** Copies that imports left here when they were killed. */
async function sweep(): Promise<void> {
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    if (!name.startsWith(FOLDER)) continue;
    const path = join(tmpdir(), name);
    const found = await lstat(path).catch(() => undefined);
    if (found?.isDirectory() !== true || found.uid !== (process.getuid?.() ?? found.uid)) continue;
    if (found.mtimeMs < Date.now() - STALE_MS)
      await rm(path, { recursive: true, force: true }).catch(() => undefined);
  }
}

/**
 * What stands there: only regular files, so that no link is followed; of journals, those that are
 * in use.
 */
async function look(path: string): Promise<ReadonlyMap<string, string>> {
  const seen = new Map<string, string>();
  for (const beside of [...COPIED, JOURNAL]) {
    const found = await lstat(`${path}${beside}`, { bigint: true }).catch(() => undefined);
    if (
      beside === JOURNAL
        ? found !== undefined && (await isInUse(`${path}${beside}`))
        : found?.isFile()
    )
      seen.set(beside, [found?.ino, found?.size, found?.mtimeNs].join(" "));
  }
  return seen;
}

/** One that was ended is empty, or begins with zeros. What cannot be read may be anything. */
async function isInUse(journal: string): Promise<boolean> {
  const handle = await open(
    journal,
    constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
  ).catch(() => undefined);
  if (handle === undefined) return true;
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1), 0, 1, 0);
    return bytesRead > 0 && buffer[0] !== 0;
  } catch {
    return true;
  } finally {
    await handle.close();
  }
}

interface Read {
  /** In the shape of a file. */
  readonly value: JsonObject;
  readonly digest: string;
  readonly bytes: number;
  readonly texts: number;
  /** Whether its metadata is none. */
  readonly isOdd: boolean;
  /** Columns with values that are too large. */
  readonly tooLarge: readonly string[];
}

const KNOWN = ["id", "agent_id", "iteration", "created_at", "metadata", "conversation"];
const CELLS = `CAST(id AS TEXT), CAST(agent_id AS TEXT), CAST(iteration AS TEXT), CAST(created_at AS TEXT), CAST(metadata AS TEXT),
  length(CAST(conversation AS BLOB)), CASE WHEN length(CAST(conversation AS BLOB)) <= ${MAX_FILE_BYTES} THEN CAST(conversation AS BLOB) END`;

class Rows {
  readonly #db: Driver;
  readonly #one: Statement;
  /** Columns that other versions have. */
  readonly #more: readonly string[];

  /** Refuses what is no such database. */
  constructor(db: Driver, path: string) {
    this.#db = db;
    try {
      const sql = db
        .prepare("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'checkpoints'")
        .get()?.[0];
      // SMOOTH-2: a virtual table would run what its module likes, and a generated column what its author
      // does.
      if (typeof sql !== "string" || !/^\s*CREATE\s+TABLE\b/i.test(sql))
        throw unreadable("no table");
      if (columnsOf(db).some(({ name, isPlain }) => !isPlain && KNOWN.includes(name)))
        throw unreadable("a column that is computed");
      this.#more = otherColumns(db);
      this.#one = db.prepare(
        `SELECT ${[CELLS, ...this.#more.map(cellOf)].join(", ")} FROM checkpoints WHERE rowid = CAST(? AS INTEGER)`,
      );
    } catch (cause) {
      throw new HoldfastError(
        "INVALID_OPTION",
        `${quote(path)} is no database of smooth: one has a table checkpoints(id, agent_id, iteration, conversation, metadata, created_at).`,
        { path },
        cause,
      );
    }
  }

  ids(): readonly string[] {
    try {
      const rows = this.#db
        .prepare(`SELECT CAST(rowid AS TEXT) FROM checkpoints ORDER BY rowid LIMIT ${MAX_ROWS + 1}`)
        .all();
      if (rows.length > MAX_ROWS)
        throw new HoldfastError("TOO_LARGE", `There are more than ${MAX_ROWS} rows.`, {
          limit: MAX_ROWS,
        });
      return rows.map(([rowid]) => String(rowid));
    } catch (cause) {
      if (cause instanceof HoldfastError) throw cause;
      throw new HoldfastError(
        "CORRUPT",
        "The database is damaged: its rows cannot be listed.",
        {},
        cause,
      );
    }
  }

  read(rowid: string): Read {
    const [id, agent, iteration, createdAt, metadata, length, conversation, ...cells] =
      this.#row(rowid);
    if (!(conversation instanceof Uint8Array))
      throw unreadable(
        typeof length === "number"
          ? `It is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.`
          : "It has no conversation.",
      );
    const said = parseJson(textOfBytes(conversation));
    if (!isObject(said.value)) throw unreadable("Its conversation is no object.");
    const more = metadataIn(metadata);
    const others = Object.fromEntries(
      this.#more.flatMap((name, i) => valueIn(name, cells.slice(i * 2, i * 2 + 2))),
    );
    const tooLarge = this.#more.filter(
      (_, i) => cells[i * 2] !== "null" && cells[i * 2 + 1] === null,
    );
    const value = {
      ...others,
      id: textOr(id, rowid),
      agent_id: textOr(agent, ""),
      iteration: wholeOr(iteration),
      created_at: wholeOr(createdAt),
      metadata: more.value,
      conversation: said.value,
    };
    const cellsOfRow = [
      id,
      agent,
      iteration,
      createdAt,
      metadata,
      ...(this.#more.length > 0 ? [others] : []),
    ];
    const digest = digestOf(`${JSON.stringify(cellsOfRow as Json)}\n${digestOf(conversation)}`);
    const bytes =
      conversation.length + (typeof metadata === "string" ? Buffer.byteLength(metadata) : 0);
    return {
      value,
      digest,
      bytes,
      texts: said.texts.count + more.texts,
      isOdd: more.isOdd,
      tooLarge,
    };
  }

  #row(rowid: string): readonly unknown[] {
    try {
      const row = this.#one.get(rowid);
      if (row !== undefined) return row;
    } catch (cause) {
      throw unreadable("The database is damaged here.", cause);
    }
    throw unreadable("The row is not there.");
  }
}

/** SMOOTH-2: not those that the database computes. */
const columnsOf = (db: Driver): readonly { readonly name: string; readonly isPlain: boolean }[] =>
  db
    .prepare("PRAGMA table_xinfo(checkpoints)")
    .all()
    .map(([, name, , , , , hidden]) => ({
      name: String(name).toLowerCase(),
      isPlain: Number(hidden) === 0,
    }));

const otherColumns = (db: Driver): readonly string[] =>
  columnsOf(db).flatMap(({ name, isPlain }) => (isPlain && !KNOWN.includes(name) ? [name] : []));

/** The type of a cell, and its value as text. Bytes are hexadecimal digits. */
function cellOf(column: string): string {
  const name = `"${column.replaceAll('"', '""')}"`;
  return `typeof(${name}), CASE WHEN length(CAST(${name} AS BLOB)) > ${MAX_CELL_BYTES} THEN NULL WHEN typeof(${name}) = 'blob' THEN hex(${name}) ELSE CAST(${name} AS TEXT) END`;
}

/** A cell as JSON; nothing for NULL. */
function valueIn(
  name: string,
  [type, text]: readonly unknown[],
): readonly (readonly [string, Json])[] {
  if (type === "null") return [];
  if (typeof text !== "string") return [];
  if (type === "integer") return [[name, wholeOr(text)]];
  if (type === "real") return [[name, Number.isFinite(Number(text)) ? Number(text) : text]];
  return [[name, type === "blob" ? { hex: text } : text.toWellFormed()]];
}

/**
 * A conversation is read even where the fields beside it are bad. Metadata that is no object stays
 * as it stands.
 */
function metadataIn(text: unknown): {
  readonly value: Json;
  readonly texts: number;
  readonly isOdd: boolean;
} {
  if (text === null || text === undefined) return { value: {}, texts: 0, isOdd: false };
  try {
    const { value, texts } = parseJson(String(text));
    if (isObject(value)) return { value, texts: texts.count, isOdd: false };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
  }
  return { value: String(text), texts: 0, isOdd: true };
}

const textOr = (value: unknown, otherwise: string): string =>
  typeof value === "string" ? value : otherwise;

/** A number where one holds it, else its digits. */
function wholeOr(text: unknown): Json {
  const number = typeof text === "string" && /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : typeof text === "string" ? text : null;
}
