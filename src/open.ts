/**
 * Opening a store by its address. The composition root of the library: stores, runtime and machine
 * meet here.
 */
import type { Redact } from "./core/redaction/redact-text.js";
import { parseAddress } from "./core/values/address.js";
import { HoldfastError, quote } from "./core/values/errors.js";
import { checkName, typeName } from "./core/values/ids.js";
import { isList } from "./core/values/json.js";
import type { Clock } from "./engine/journal/store-context.js";
import type { Telemetry } from "./engine/journal/telemetry.js";
import { checkLeaseMs } from "./engine/lifecycle/session-options.js";
import {
  callback,
  flag,
  invalid,
  options,
  pathOf,
  scopeOf,
  wholeNumber,
} from "./engine/util/validate.js";
import { type Extras, Holdfast } from "./holdfast.js";
import type { WholeStore } from "./store/capabilities.js";
import { checkStore } from "./store/check-store.js";
import { thisMachine } from "./store/machine.js";
import { MemoryStore } from "./store/memory.js";
import type { Store } from "./store/port.js";
import { type RestoreBackupReport, restoreSqlite } from "./store/sql/sqlite/files/restore.js";
import { openSqlite } from "./store/sql/sqlite/sqlite.js";

export type { RestoreBackupReport } from "./store/sql/sqlite/files/restore.js";

/** How a store is opened. */
export interface OpenOptions {
  /** The wall clock, for the times that people see. Order and leases never depend on it. */
  readonly clock?: Clock;
  /** How long a lease lasts when it is not renewed. 30 s by default. */
  readonly leaseMs?: number;
  /** How long a busy store is waited for before a call fails with BUSY. 5 s by default. */
  readonly busyMs?: number;
  /**
   * Who is told of runs, model calls, tool calls, checkpoints and resumes; `otel()` of
   * holdfast/otel is one.
   */
  readonly telemetry?: Telemetry;
  /** False: no index for search is made or kept up here, and a search goes over the whole store. */
  readonly search?: boolean;
  /**
   * Run over every text before it is stored, and gives what is stored instead; `redactions()` is
   * one. It must leave its own words as they are: some texts pass it twice.
   */
  readonly redact?: Redact;
  /**
   * False: a look that is to be quick. The trees of a large SQLite file are then not checked before
   * anything is read from them, so that what damage hides of a list may be passed over; what is
   * read is verified as always. `verify` checks all of it.
   */
  readonly checks?: boolean;
  /**
   * Whose sessions these are. Tenants share a place and see nothing of each other; the same id in
   * two tenants is two sessions.
   */
  readonly tenant?: string;
  /**
   * Postgres: the schema that the tables are in, `holdfast` by default. At most 63 bytes, without
   * `$`.
   */
  readonly schema?: string;
  /** Postgres: how many connections at most, 10 by default. */
  readonly connections?: number;
  /**
   * Postgres: how many calls wait for a connection at most, 10,000 by default; one more is BUSY.
   */
  readonly queue?: number;
  /**
   * Postgres: prepare statements by name. Faster; not behind a pooler that gives transactions to
   * any connection.
   */
  readonly prepare?: boolean;
}

const LEASE_MS = 30_000;
const BUSY_MS = 5_000;

/**
 * Open a store by its address.
 * That is a path (SQLite, one file), `dir:` and a path (a directory of readable files),
 * `postgres://…`, or `memory:`. Without an address, it is the one in HOLDFAST_STORE, else
 * `.holdfast/state.db`. A store of your own is given as it is, and closed by `hold.close()`.
 *
 * @example
 * await using hold = await open("agent.db", { busyMs: 10_000 });
 * const session = await hold.session("order-42");
 */
export async function open(at?: string | Store, given?: OpenOptions): Promise<Holdfast> {
  const {
    clock = { now: Date.now },
    leaseMs,
    telemetry,
    search,
    redact,
    ...forStore
  } = options(given, "open", [
    "clock",
    "leaseMs",
    "telemetry",
    "search",
    "redact",
    ...STORE_OPTIONS,
  ]);
  if (!isClock(clock)) throw invalid("clock", "it must have a function now()");
  if (
    telemetry !== undefined &&
    (typeof telemetry !== "object" || telemetry === null || isList(telemetry))
  )
    throw invalid("telemetry", `it must be an object, not ${typeName(telemetry)}`);
  const more: Extras = {
    ...(telemetry && { telemetry }),
    ...(callback(redact, "redact") && { redact }),
    indexed: flag(search, "search") ?? true,
  };
  const lease = checkLeaseMs(leaseMs) ?? LEASE_MS;
  const store =
    typeof at === "object" && at !== null
      ? storeGiven(at, forStore)
      : await openStore(at, forStore);
  return new Holdfast(store, thisMachine(), clock, lease, more);
}

function storeGiven(store: object, options: StoreOptions): Store {
  for (const name of STORE_OPTIONS)
    if (options[name] !== undefined)
      throw invalid(name, "a store that is given as an object has none");
  return checkStore(store);
}

function isClock(clock: Clock | null): clock is Clock {
  try {
    return typeof clock?.now === "function";
  } catch {
    return false;
  }
}

export interface RestoreBackupOptions {
  /** Replaces a store that is there already, which is kept beside. */
  readonly force?: boolean;
}

/**
 * Put a backup in the place of a store: at `to`, or at the address that `open` takes by default.
 * With `force`, a store that stands there is kept beside; one that a process has open is left
 * alone. Sessions that were under way open as in doubt.
 *
 * @example
 * const { sessions } = await restoreBackup("backups/agent.db", "agent.db", { force: true });
 */
export async function restoreBackup(
  from: string,
  to?: string,
  given?: RestoreBackupOptions,
): Promise<RestoreBackupReport> {
  const force = flag(options(given, "restoreBackup", ["force"]).force, "force") ?? false;
  const target = parseAddress(to ?? defaultAddress());
  if (target.kind !== "sqlite")
    throw new HoldfastError(
      "UNSUPPORTED",
      `A backup is restored to a file (SQLite), not to ${quote(`${target.kind}:`)}. Restore it to a file, then export and import what is in it.`,
    );
  return restoreSqlite(pathOf(from, "backup"), target.path, { force });
}

const defaultAddress = (): string => process.env["HOLDFAST_STORE"] || ".holdfast/state.db";

const STORE_OPTIONS = [
  "busyMs",
  "checks",
  "tenant",
  "schema",
  "connections",
  "queue",
  "prepare",
] as const;
export type StoreOptions = Pick<OpenOptions, (typeof STORE_OPTIONS)[number]>;
const OF_POSTGRES = ["schema", "connections", "queue", "prepare"] as const;

/**
 * Opens the store alone, without sessions on top: for tests of stores. The tenant with no name is
 * one like others.
 */
export async function openStore(
  address: string = defaultAddress(),
  given: StoreOptions = {},
): Promise<WholeStore> {
  const parsed = parseAddress(address);
  const checked = checkStoreOptions(given);
  // Loaded by those who use them: most start with a file.
  if (parsed.kind === "postgres")
    return (await import("./store/sql/postgres/postgres.js")).openPostgres(parsed, checked);
  for (const name of OF_POSTGRES)
    if (checked[name] !== undefined) throw invalid(name, "only a store in Postgres has it");
  switch (parsed.kind) {
    case "sqlite":
      return openSqlite(parsed.path, checked);
    case "dir":
      return (await import("./store/dir/open.js")).openDir(parsed.path, checked);
    case "memory":
      return new MemoryStore();
  }
}

function checkStoreOptions(given: StoreOptions): StoreOptions {
  const { busyMs, checks, schema, connections, queue, prepare } = given;
  // One that was forgotten must not open what is the operator's.
  const tenant = scopeOf(given, "tenant");
  const isChecked = flag(checks, "checks");
  const checkedPrepare = flag(prepare, "prepare");
  return {
    busyMs: busyMs === undefined ? BUSY_MS : wholeNumber(busyMs, "busyMs", 0, 3_600_000),
    ...(isChecked === undefined ? undefined : { checks: isChecked }),
    ...(tenant === undefined ? undefined : { tenant: checkName(tenant, "tenant") }),
    ...(schema === undefined ? undefined : { schema }),
    ...(connections === undefined
      ? undefined
      : { connections: wholeNumber(connections, "connections", 1, 1_000) }),
    ...(queue === undefined ? undefined : { queue: wholeNumber(queue, "queue", 0, 1_000_000) }),
    ...(checkedPrepare === undefined ? undefined : { prepare: checkedPrepare }),
  };
}
