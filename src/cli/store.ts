/** Stores as they are named on the command line. */
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError, quote } from "../core/errors.js";
import type { Holdfast } from "../index.js";

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
  const { open } = await import("../index.js");
  return open(store, { checks: !looks, ...(tenant !== undefined && { tenant }) });
}

/** Opening a store makes it where there is none: a name that was mistyped would give an empty one. */
export function refuseMissing(store?: string): void {
  if (isMissing(store))
    throw new HoldfastError("NOT_FOUND", `There is no store ${quote(addressOf(store))}. Name one with --store, or HOLDFAST_STORE.`);
}

const addressOf = (store = process.env["HOLDFAST_STORE"] || ".holdfast/state.db"): string => store;

/** What is shown of an address has no password, though it then takes one from elsewhere to open it. */
export const shownAddress = (store: string | undefined): string | undefined =>
  store?.replace(/^(postgres(?:ql)?:\/\/[^/@]*?):[^@]*@/i, "$1@");

/** Nothing is there, or nothing yet: an empty file, or a directory that no store was made in. Of a server nobody can tell. */
export function isMissing(store?: string): boolean {
  const address = addressOf(store);
  if (address.startsWith("dir:")) return !existsSync(join(address.slice("dir:".length), "holdfast.json"));
  if (/^[a-z][a-z0-9+.-]+:/i.test(address)) return false;
  const found = statSync(address, { throwIfNoEntry: false });
  return found === undefined || (found.isFile() && found.size === 0);
}
