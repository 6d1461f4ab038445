/**
 * The thin layer over SQLite: `node:sqlite` on Node 24 and newer, better-sqlite3 before. Both are
 * synchronous; rows are arrays.
 */
import { closeSync, openSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import { HoldfastError } from "../../../../core/values/errors.js";
import { exhausted, isExhausted } from "../../../refusals.js";
import type { Param, Row } from "../../database.js";
import { findUnreadable, Unreadable } from "./unreadable.js";

export interface Statement {
  /** How many rows it changed. */
  run(...params: Param[]): number;
  all(...params: Param[]): Row[];
  /**
   * The first row. It runs the statement to its end: a driver's own `get` stops after the first
   * row, and SQLite moves the log into the file only after statements that ended, so a log written
   * by `INSERT … RETURNING` would grow for ever.
   */
  get(...params: Param[]): Row | undefined;
}

export interface Driver {
  readonly name: "node:sqlite" | "better-sqlite3";
  prepare(sql: string): Statement;
  exec(sql: string): void;
  readonly inTransaction: boolean;
  /**
   * Copies the database as this connection sees it, a few pages at a time, with room for others in
   * between. `step` may throw to end it.
   */
  copyTo(path: string, pages: number, step: (done: number, of: number) => void): Promise<void>;
  close(): void;
}

/** What a driver's exception means for what comes next. */
export type Failure = "busy" | "full" | "corrupt" | "readonly" | "io" | "other";

const FAILURES: Readonly<Record<number, Failure>> = {
  5: "busy",
  6: "busy",
  8: "readonly",
  10: "io",
  11: "corrupt",
  13: "full",
  14: "io",
  26: "corrupt",
};
const NAMES: Readonly<Record<string, number>> = {
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  NOTADB: 26,
};

/** SQLite could not make the file longer that processes share: the disk is full. */
const SHMSIZE = { code: "SQLITE_IOERR_SHMSIZE", errcode: 4874 } as const;

/** SQLite could not read. While a statement runs, it calls the second of these damage. */
const READS = [
  { code: "SQLITE_IOERR_READ", errcode: 266 },
  { code: "SQLITE_IOERR_CORRUPTFS", errcode: 8458 },
] as const;

const isFailedRead = (error: unknown): boolean => {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return READS.some((read) => read.code === code || read.errcode === errcode);
};

export function failureOf(error: unknown): Failure {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code === SHMSIZE.code || errcode === SHMSIZE.errcode) return "full";
  if (typeof errcode === "number") return FAILURES[errcode & 255] ?? "other";
  const name = typeof code === "string" ? /^SQLITE_([A-Z]+)/.exec(code)?.[1] : undefined;
  return (name === undefined ? undefined : FAILURES[NAMES[name] ?? 0]) ?? "other";
}

function isCannotOpen(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return typeof errcode === "number"
    ? (errcode & 255) === NAMES["CANTOPEN"]
    : typeof code === "string" && code.startsWith("SQLITE_CANTOPEN");
}

/**
 * SQLite does not say why it cannot open a file. A lack of descriptors shows again where the file's
 * directory is opened.
 */
function exhaustedAt(path: string): HoldfastError | undefined {
  try {
    closeSync(openSync(dirname(path), "r"));
    return undefined;
  } catch (error) {
    return isExhausted(error) ? exhausted(error) : undefined;
  }
}

export type DriverName = Driver["name"];

export interface DriverFiles {
  /** A store that will be attached. */
  readonly store?: string;
  /** The file that errors name, where the database is a copy of it. */
  readonly named?: string;
}

/** Opens a database file with the driver that suits this Node, or with the one that is named. */
export function openDriver(
  path: string,
  name: DriverName = defaultDriver(),
  { store = path, named = path }: DriverFiles = {},
): Driver {
  const tell = explaining(named, store);
  return explained(
    tell(() => (name === "node:sqlite" ? nodeDriver(path) : betterDriver(path))),
    tell,
  );
}

/**
 * No file is trusted: its schema may not call functions with side effects, and its pages are
 * checked as they are read.
 */
export const DEFENCES = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON";

type Tell = <T>(call: () => T) => T;

/**
 * Make an error name the file, and tell apart what SQLite does not: damage, and a store that the
 * disk cannot read.
 */
export function explain(error: unknown, path: string, store: string): unknown {
  const noDescriptor = isCannotOpen(error) ? exhaustedAt(path) : undefined;
  if (noDescriptor !== undefined) return noDescriptor;
  const isUnread = isFailedRead(error);
  const unreadable = isUnread || failureOf(error) === "corrupt" ? findUnreadable(store) : undefined;
  if (unreadable !== undefined) return unreadable;
  if (isUnread) return new Unreadable(path, error);
  return error instanceof Error ? Object.assign(error, { path }) : error;
}

export const explaining =
  (path: string, store: string): Tell =>
  (call) => {
    try {
      return call();
    } catch (error) {
      throw explain(error, path, store);
    }
  };

export function explained(db: Driver, tell: Tell): Driver {
  return {
    name: db.name,
    prepare(sql) {
      const statement = tell(() => db.prepare(sql));
      return {
        run: (...params) => tell(() => statement.run(...params)),
        all: (...params) => tell(() => statement.all(...params)),
        get: (...params) => tell(() => statement.get(...params)),
      };
    },
    exec: (sql) => tell(() => db.exec(sql)),
    get inTransaction() {
      return db.inTransaction;
    },
    copyTo: (to, pages, step) => db.copyTo(to, pages, step),
    close: () => db.close(),
  };
}

/** Throw where the driver cannot be loaded. To be called before a file is made for it. */
export function checkDriver(name: DriverName = defaultDriver()): void {
  if (name === "better-sqlite3") loadBetter();
}

export function defaultDriver(): DriverName {
  return Number.parseInt(process.versions.node, 10) >= 24 ? "node:sqlite" : "better-sqlite3";
}

const require = createRequire(import.meta.url);

interface NodeStatement {
  run(...params: Param[]): { changes: number | bigint };
  all(...params: Param[]): Row[];
  setReturnArrays(enabled: boolean): void;
}
interface NodeDatabase {
  prepare(sql: string): NodeStatement;
  exec(sql: string): void;
  readonly isTransaction: boolean;
  close(): void;
}

interface NodeSqlite {
  readonly DatabaseSync: new (path: string, options: object) => NodeDatabase;
  backup(
    db: NodeDatabase,
    path: string,
    options: {
      readonly rate: number;
      readonly progress: (now: { totalPages: number; remainingPages: number }) => void;
    },
  ): Promise<number>;
}

function nodeDriver(path: string): Driver {
  const sqlite = require("node:sqlite") as NodeSqlite;
  const db = new sqlite.DatabaseSync(path, {
    allowExtension: false,
    enableForeignKeyConstraints: false,
  });
  db.exec(DEFENCES);
  return {
    name: "node:sqlite",
    prepare(sql) {
      const statement = db.prepare(sql);
      statement.setReturnArrays(true);
      return {
        run: (...params) => Number(statement.run(...params).changes),
        all: (...params) => statement.all(...params),
        get: (...params) => statement.all(...params)[0],
      };
    },
    exec: (sql) => db.exec(sql),
    get inTransaction() {
      return db.isTransaction;
    },
    async copyTo(to, pages, step) {
      const progress = ({
        totalPages,
        remainingPages,
      }: {
        totalPages: number;
        remainingPages: number;
      }) => step(totalPages - remainingPages, totalPages);
      await sqlite.backup(db, to, { rate: pages, progress });
    },
    close: () => db.close(),
  };
}

interface BetterStatement {
  readonly reader: boolean;
  run(...params: Param[]): { changes: number };
  all(...params: Param[]): Row[];
  raw(): BetterStatement;
}
interface BetterDatabase {
  prepare(sql: string): BetterStatement;
  exec(sql: string): void;
  readonly inTransaction: boolean;
  backup(
    path: string,
    options: { progress: (now: { totalPages: number; remainingPages: number }) => number },
  ): Promise<unknown>;
  close(): void;
}

function betterDriver(path: string): Driver {
  const db = new (loadBetter())(path, { timeout: 20 });
  db.exec(DEFENCES);
  return {
    name: "better-sqlite3",
    prepare(sql) {
      const statement = db.prepare(sql);
      if (statement.reader) statement.raw();
      return {
        run: (...params) => statement.run(...params).changes,
        all: (...params) => statement.all(...params),
        get: (...params) => statement.all(...params)[0],
      };
    },
    exec: (sql) => db.exec(sql),
    get inTransaction() {
      return db.inTransaction;
    },
    async copyTo(to, pages, step) {
      const progress = ({
        totalPages,
        remainingPages,
      }: {
        totalPages: number;
        remainingPages: number;
      }) => {
        step(totalPages - remainingPages, totalPages);
        return pages;
      };
      await db.backup(to, { progress });
    },
    close: () => db.close(),
  };
}

type Better = new (path: string, options: object) => BetterDatabase;
let better: Better | undefined;

function loadBetter(): Better {
  try {
    if (better === undefined) {
      const loaded = require("better-sqlite3") as Better;
      // It loads its binary with the first database, and not before.
      new loaded(":memory:", {}).close();
      better = loaded;
    }
    return better;
  } catch (cause) {
    throw new HoldfastError(
      "UNSUPPORTED",
      `better-sqlite3, the SQLite driver for Node ${process.versions.node}, could not be loaded. ${remedyFor(cause)} Node 24 and newer need no driver.`,
      {},
      cause,
    );
  }
}

/**
 * npm leaves an optional dependency out if its build fails, so an absent driver is the usual case.
 */
function remedyFor(cause: unknown): string {
  return (cause as NodeJS.ErrnoException).code === "MODULE_NOT_FOUND"
    ? "Run `npm install better-sqlite3`. If no ready-made binary fits your system, npm compiles it and needs Python and a C++ compiler."
    : "It was built for another Node, or its install script did not run. Run `npm rebuild better-sqlite3 --ignore-scripts=false`.";
}
