/** Stores as they are named on the command line. */
import { accessSync, constants, existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseAddress } from "../../core/values/address.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { Holdfast } from "../../index.js";
import { endCleanly } from "../terminal/stopping.js";

interface Where {
  readonly store?: string | undefined;
  readonly tenant?: string | undefined;
}

/** The library is loaded here, and by nobody who only wants help. */
export async function openStore(
  { store, tenant }: Where,
  { make, looks }: { readonly make: boolean; readonly looks: boolean },
): Promise<Holdfast> {
  if (!make) refuseMissing(store);
  if (isReadOnly(store)) endCleanly();
  const { open } = await import("../../index.js");
  return open(store, { checks: !looks, ...(tenant !== undefined && { tenant }) });
}

/**
 * Opening a store makes it where there is none: a name that was mistyped would give an empty one.
 */
export function refuseMissing(store?: string): void {
  if (isMissing(store))
    throw new HoldfastError(
      "NOT_FOUND",
      `There is no store ${quote(addressOf(store))}. Name one with --store, or HOLDFAST_STORE.`,
    );
}

/**
 * Whether this process may not write a store in a file, so that it may be copied to be looked at.
 */
export function isReadOnly(store?: string): boolean {
  const address = parseAddress(addressOf(store));
  if (address.kind !== "sqlite" || !existsSync(address.path)) return false;
  const file = realpathSync(address.path);
  return [dirname(file), file, `${file}-wal`, `${file}-shm`].some(
    (path) => existsSync(path) && !isWritable(path),
  );
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

const addressOf = (store = process.env["HOLDFAST_STORE"] || ".holdfast/state.db"): string => store;

/**
 * Nothing is there, or nothing yet: an empty file, or a directory that no store was made in. Of a
 * server nobody can tell.
 */
export function isMissing(store?: string): boolean {
  const address = parseAddress(addressOf(store));
  if (address.kind !== "dir" && address.kind !== "sqlite") return false;
  const isDirectory = address.kind === "dir";
  try {
    const found = statSync(isDirectory ? join(address.path, "holdfast.json") : address.path);
    return !isDirectory && found.isFile() && found.size === 0;
  } catch (error) {
    // If it cannot be looked at, opening it says why.
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  }
}

/** An error for a file that was named on the command line, and cannot be read. */
export function unreadable(path: string, cause: unknown): HoldfastError {
  const { code = "no reason given" } = cause as NodeJS.ErrnoException;
  return code === "ENOENT"
    ? new HoldfastError("NOT_FOUND", `There is no file ${quote(path)}.`, {}, cause)
    : new HoldfastError("IO", `${quote(path)} cannot be read (${code}).`, {}, cause);
}
