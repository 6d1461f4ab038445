/** Stores as they are named on the command line. */
import { existsSync } from "node:fs";
import { HoldfastError, quote } from "../core/errors.js";

/** Opening a store makes it where there is none: a name that was mistyped would give an empty one. */
export function refuseMissing(store = process.env["HOLDFAST_STORE"] || ".holdfast/state.db"): void {
  const path = store.startsWith("dir:") ? store.slice("dir:".length) : store;
  if (!/^[a-z][a-z0-9+.-]+:/i.test(path) && !existsSync(path))
    throw new HoldfastError("NOT_FOUND", `There is no store ${quote(store)}. Name one with --store.`);
}
