/** Opening a store by its address. The composition root of the library: stores, runtime and machine meet here. */
import { HoldfastError, quote } from "./core/errors.js";
import { checkName, typeName } from "./core/ids.js";
import type { Clock } from "./runtime/ground.js";
import { Holdfast } from "./runtime/holdfast.js";
import { checkLeaseMs } from "./runtime/opening.js";
import { invalid, options, wholeNumber } from "./runtime/options.js";
import { thisMachine } from "./store/machine.js";
import { MemoryStore } from "./store/memory.js";
import type { Store } from "./store/port.js";
import { openSqlite } from "./store/sql/sqlite/sqlite.js";

export interface OpenOptions {
  /** The wall clock, for the times that people see. Order and leases never depend on it. */
  readonly clock?: Clock;
  /** How long a lease lasts when it is not renewed. 30 s by default. */
  readonly leaseMs?: number;
  /** How long a busy store is waited for before a call fails with BUSY. 5 s by default. */
  readonly busyMs?: number;
  /** Whose sessions these are. Tenants share a place and see nothing of each other; the same id in two tenants is two sessions. */
  readonly tenant?: string;
}

const LEASE_MS = 30_000;
const BUSY_MS = 5_000;

/**
 * Opens a store: a path (SQLite, one file) or `memory:`. Without an address, the one in HOLDFAST_STORE, else `.holdfast/state.db`.
 */
export async function open(address?: string, given?: OpenOptions): Promise<Holdfast> {
  const { clock = { now: Date.now }, leaseMs, busyMs, tenant } = options(given, "open", ["clock", "leaseMs", "busyMs", "tenant"]);
  if (typeof clock?.now !== "function") throw invalid("clock", "it must have a function now()");
  const lease = checkLeaseMs(leaseMs) ?? LEASE_MS;
  const store = await openStore(address, {
    ...(busyMs === undefined ? undefined : { busyMs: wholeNumber(busyMs, "busyMs", 0, 3_600_000) }),
    ...(tenant === undefined ? undefined : { tenant: checkName(tenant, "tenant") }),
  });
  return new Holdfast(store, thisMachine(), clock, lease);
}

export interface StoreOptions {
  readonly busyMs?: number;
  readonly tenant?: string;
}

/** Opens the store alone, without sessions on top: for tests of stores. The tenant with no name is one like others. */
export async function openStore(
  address: string = process.env["HOLDFAST_STORE"] || ".holdfast/state.db",
  { busyMs = BUSY_MS, tenant = "" }: StoreOptions = {},
): Promise<Store> {
  if (typeof address !== "string") throw invalid("store", `its address is text, not ${typeName(address)}`);
  if (address === "") throw invalid("store", "its address is empty");
  if (address.includes("\0")) throw invalid("store", "its address holds a NUL character");
  // Node and SQLite would each make another name of it.
  if (!address.isWellFormed()) throw invalid("store", "its address holds half a character (a lone surrogate)");
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(address)?.[1]?.toLowerCase();
  if (scheme === undefined) return openSqlite(address, { busyMs, tenant });
  if (scheme === "memory") {
    if (address.length > "memory:".length) throw invalid("store", 'nothing comes after "memory:": such a store has no name and no file');
    return new MemoryStore();
  }
  throw new HoldfastError("UNSUPPORTED", `There is no store for ${quote(`${scheme}:`)}. Known are a path (SQLite) and "memory:".`, {
    found: scheme,
  });
}
