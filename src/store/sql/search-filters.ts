/** What a search in a scope asks of each document (`d`), besides its words. */
import type { FindOptions } from "../search-port.js";
import type { Param } from "./database.js";

/** A piece of SQL, and its parameters in their order. */
export interface Sql {
  readonly text: string;
  readonly params: readonly Param[];
}

export function filtersOf({ role, since, until }: FindOptions): Sql {
  const filters = [
    ["role = ?", role],
    ["at >= ?", since],
    ["at < ?", until],
  ].filter(([, value]) => value !== undefined) as [string, number][];
  return {
    text: filters.map(([where]) => ` AND d.${where}`).join(""),
    params: filters.map(([, value]) => value),
  };
}
