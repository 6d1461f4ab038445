/** Stores as they are named on the command line. */
import { existsSync } from "node:fs";
import { HoldfastError, quote } from "../core/errors.js";
import type { Holdfast } from "../index.js";
import { shellWord } from "./text.js";

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
export function refuseMissing(store = process.env["HOLDFAST_STORE"] || ".holdfast/state.db"): void {
  const path = store.startsWith("dir:") ? store.slice("dir:".length) : store;
  if (!/^[a-z][a-z0-9+.-]+:/i.test(path) && !existsSync(path))
    throw new HoldfastError("NOT_FOUND", `There is no store ${quote(store)}. Name one with --store, or HOLDFAST_STORE.`);
}

/** As it was given, for commands that are proposed. */
export const whereOf = ({ store, tenant }: Where): string =>
  `${store === undefined ? "" : ` --store ${shellWord(store)}`}${tenant === undefined ? "" : ` --tenant ${shellWord(tenant)}`}`;
