/**
 * What a search by words asks of each document (`d`) besides: whose it is, its role and its time.
 */
import type { FindOptions } from "../search-port.js";
import type { Param } from "./database.js";

interface Filters {
  /** Tables that are joined to the documents. */
  readonly joins: string;
  /** Conditions, each with an AND before it. */
  readonly wheres: string;
  readonly params: readonly Param[];
}

/** `schema` is what the tables of the store are named with; `isIn` asks for one of many owners. */
export function filtersOf(
  tenant: string,
  { within, agent, tag, role, since, until }: FindOptions,
  {
    schema,
    isIn,
  }: { readonly schema: string; readonly isIn: (owners: readonly number[]) => Filter },
): Filters {
  const all: Filter[] = [];
  if (within !== undefined)
    all.push(isIn([-within.no, ...[...within.branches.values()].map(({ no }) => no)]));
  const isOf = agent !== undefined || tag !== undefined;
  if (isOf) all.push(owned(tenant, agent, tag, schema));
  if (role !== undefined) all.push(["d.role = ?", [role]]);
  if (since !== undefined) all.push(["d.at >= ?", [since]]);
  if (until !== undefined) all.push(["d.at < ?", [until]]);
  return {
    joins: isOf
      ? ` LEFT JOIN ${schema}branch l ON l.no = d.owner LEFT JOIN ${schema}session s ON s.no = CASE WHEN d.owner < 0 THEN -d.owner ELSE l.session END`
      : "",
    wheres: all.map(([where]) => ` AND ${where}`).join(""),
    params: all.flatMap(([, params]) => params),
  };
}

export type Filter = readonly [where: string, params: readonly Param[]];

/** Of such a session, or of a branch without an owner that such a session goes back to. */
function owned(
  tenant: string,
  agent: string | undefined,
  tag: string | undefined,
  schema: string,
): Filter {
  const such = (session: string) =>
    [
      agent !== undefined && `${session}.agent = ?`,
      tag !== undefined &&
        `EXISTS (SELECT 1 FROM ${schema}tag t WHERE t.tag = ? AND t.session = ${session}.no)`,
    ]
      .filter((part) => part !== false)
      .join(" AND ");
  const params = [agent, tag].filter((param) => param !== undefined);
  return [
    `((${such("s")}) OR (d.owner > 0 AND l.no IS NOT NULL AND l.session IS NULL AND EXISTS (
      WITH RECURSIVE later (id, session) AS (SELECT l.id, l.session
        UNION SELECT c.id, c.session FROM later p CROSS JOIN ${schema}branch c WHERE c.tenant = ? AND c.fork_branch = p.id)
      SELECT 1 FROM later CROSS JOIN ${schema}session h WHERE h.no = later.session AND ${such("h")})))`,
    [...params, tenant, ...params],
  ];
}
