/**
 * The SQLite database of smooth-operator.
 *
 * D1  the database is not changed, and nothing is made beside it: it is read from a copy, together with its log, as a crash would have left
 *     it. The copy is good if nothing was written meanwhile.
 * D2  what the database says is data: only a plain table is read, a row at a time.
 */
import { constants } from "node:fs";
import { copyFile, lstat, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../core/errors.js";
import type { Json, JsonObject } from "../index.js";
import { type Driver, openDriver } from "../store/sql/sqlite/driver.js";
import { numbersKept } from "./documents.js";
import { isObject, objectAt, textAt } from "./fields.js";
import { MAX_FILE_BYTES, textOfBytes, unreadable } from "./files.js";
import { parseJson } from "./json.js";
import type { Reading } from "./model.js";
import { digestOf } from "./names.js";
import { contentOf, type Light } from "./smooth-checkpoint.js";
import { momentOf } from "./times.js";

const TRIES = 5;
const MAX_ROWS = 1_000_000;
/** The log of changes that are not in the file yet, and the one of changes that are to be taken back. */
const BESIDE = ["", "-wal", "-journal"] as const;

export async function readRows({ root, report, signal }: Reading): Promise<{ lights: readonly Light[]; close: () => Promise<void> }> {
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
        const { value, digest, bytes, texts } = rows.read(rowid);
        if (texts > 0) report.note(`${numbersKept(texts)}.`, path);
        const time = momentOf(value["created_at"]);
        const load = async () => contentOf(rows.read(rowid).value);
        const record = { id: textAt(value, "id") ?? rowid, digest, at: time?.ms ?? copy.mtimeMs, path, bytes, load };
        const agent = textAt(value, "agent_id") ?? "";
        const conversation = textAt(objectAt(value, "conversation") ?? {}, "id") ?? "";
        const iteration = typeof value["iteration"] === "number" ? BigInt(value["iteration"]) : 0n;
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

/** D1: a copy that nobody wrote to while it was made. */
async function copyOf(path: string): Promise<{ folder: string; path: string; mtimeMs: number }> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-import-"));
  const to = join(folder, "copy.db");
  try {
    for (let tries = 0; tries < TRIES; tries++) {
      const before = await look(path);
      for (const beside of BESIDE) {
        await rm(`${to}${beside}`, { force: true });
        if (before.has(beside)) await copyFile(`${path}${beside}`, `${to}${beside}`, constants.COPYFILE_FICLONE);
      }
      const after = await look(path);
      const isStill = before.size === after.size && [...before].every(([beside, seen]) => after.get(beside) === seen);
      if (isStill) return { folder, path: to, mtimeMs: (await lstat(path)).mtimeMs };
      await sleep(50 * (tries + 1));
    }
    throw new HoldfastError("BUSY", `${quote(path)} is being written all the time. Stop whoever writes it, or import a copy.`, { path });
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** What stands there: only regular files, so that no link is followed. */
async function look(path: string): Promise<ReadonlyMap<string, string>> {
  const seen = new Map<string, string>();
  for (const beside of BESIDE) {
    const found = await lstat(`${path}${beside}`, { bigint: true }).catch(() => undefined);
    if (found?.isFile()) seen.set(beside, [found.ino, found.size, found.mtimeNs].join(" "));
  }
  return seen;
}

interface Read {
  /** In the shape of a file. */
  readonly value: JsonObject;
  readonly digest: string;
  readonly bytes: number;
  readonly texts: number;
}

const CELLS = `CAST(id AS TEXT), CAST(agent_id AS TEXT), CAST(iteration AS TEXT), CAST(created_at AS TEXT), CAST(metadata AS TEXT),
  length(CAST(conversation AS BLOB)), CASE WHEN length(CAST(conversation AS BLOB)) <= ${MAX_FILE_BYTES} THEN CAST(conversation AS BLOB) END`;

class Rows {
  readonly #db: Driver;

  /** Refuses what is no such database. */
  constructor(db: Driver, path: string) {
    this.#db = db;
    try {
      db.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
      const sql = db.prepare("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'checkpoints'").get()?.[0];
      // D2: a virtual table would run what its module likes.
      if (typeof sql !== "string" || !/^\s*CREATE\s+TABLE\b/i.test(sql)) throw unreadable("no table");
      db.prepare(`SELECT rowid, ${CELLS} FROM checkpoints LIMIT 0`).all();
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
      const rows = this.#db.prepare(`SELECT CAST(rowid AS TEXT) FROM checkpoints ORDER BY rowid LIMIT ${MAX_ROWS + 1}`).all();
      if (rows.length > MAX_ROWS) throw new HoldfastError("TOO_LARGE", `There are more than ${MAX_ROWS} rows.`, { limit: MAX_ROWS });
      return rows.map(([rowid]) => String(rowid));
    } catch (cause) {
      if (cause instanceof HoldfastError) throw cause;
      throw new HoldfastError("CORRUPT", "The database is damaged: its rows cannot be listed.", {}, cause);
    }
  }

  read(rowid: string): Read {
    const [id, agent, iteration, createdAt, metadata, length, conversation] = this.#row(rowid);
    if (!(conversation instanceof Uint8Array))
      throw unreadable(typeof length === "number" ? `It is larger than ${MAX_FILE_BYTES / 1024 / 1024} MiB.` : "It has no conversation.");
    const said = parseJson(textOfBytes(conversation));
    if (!isObject(said.value)) throw unreadable("Its conversation is no object.");
    const more = typeof metadata === "string" ? parseJson(metadata) : undefined;
    const value = {
      id: textOr(id, rowid),
      agent_id: textOr(agent, ""),
      iteration: wholeOr(iteration),
      created_at: wholeOr(createdAt),
      metadata: more !== undefined && isObject(more.value) ? more.value : {},
      conversation: said.value,
    };
    const digest = digestOf(`${JSON.stringify([id, agent, iteration, createdAt, metadata] as Json)}\n${digestOf(conversation)}`);
    const bytes = conversation.length + (typeof metadata === "string" ? Buffer.byteLength(metadata) : 0);
    return { value, digest, bytes, texts: said.texts.count + (more?.texts.count ?? 0) };
  }

  #row(rowid: string): readonly unknown[] {
    try {
      const row = this.#db.prepare(`SELECT ${CELLS} FROM checkpoints WHERE rowid = CAST(? AS INTEGER)`).get(rowid);
      if (row !== undefined) return row;
    } catch (cause) {
      throw unreadable("The database is damaged here.", cause);
    }
    throw unreadable("The row is not there.");
  }
}

const textOr = (value: unknown, otherwise: string): string => (typeof value === "string" ? value : otherwise);

/** A number where one holds it, else its digits. */
function wholeOr(text: unknown): Json {
  const number = typeof text === "string" && /^-?\d+$/.test(text) ? Number(text) : Number.NaN;
  return Number.isSafeInteger(number) ? number : typeof text === "string" ? text : null;
}
