/**
 * `forks.json` of ccswarm: which sessions began at a checkpoint of another. Nothing was copied when
 * they did.
 */
import { quote } from "../../core/values/errors.js";
import type { JsonObject } from "../../index.js";
import { Fields, isObject, present, roomBeside } from "../reading/fields.js";
import type { FileReport, Report } from "../reading/report.js";
import { momentOf } from "../reading/times.js";

export const FORKS = "forks.json";

export interface Fork {
  /** Of the fork, and of the session that it is. */
  readonly id: string;
  readonly parent: string;
  readonly checkpoint: string;
  readonly branch: string | undefined;
  readonly at: number | undefined;
  readonly metadata: JsonObject;
  readonly source: JsonObject;
}

export function forksOf(value: JsonObject, report: Report): readonly Fork[] {
  const told = report.of(FORKS);
  const file = new Fields(value, told);
  const forks = Object.entries(file.object("forks") ?? {});
  compareWithChildren(file.object("children") ?? {}, new Set(forks.map(([key]) => key)), told);
  const found = forks.flatMap(([key, given]): readonly Fork[] => {
    const fork = isObject(given) ? forkOf(key, given, file, told) : undefined;
    if (fork === undefined) told.note(`Fork ${quote(key)} does not say where it begins: left out.`);
    return fork === undefined ? [] : [fork];
  });
  if (found.length === 0)
    for (const field of file.unmapped)
      report.skip(FORKS, `Field ${quote(field)} belongs to no session: left out.`);
  return found;
}

function forkOf(key: string, given: JsonObject, file: Fields, told: FileReport): Fork | undefined {
  const fields = new Fields(given, told, "forks[]");
  const parent = fields.text("parent_session_id");
  const checkpoint = fields.text("checkpoint_id");
  if (parent === undefined || checkpoint === undefined) return undefined;
  // What the file says beside its forks is said of each of them.
  fields.adopt(FORKS, file);
  const branch = fields.text("branch_name");
  const createdAt = fields.any("created_at");
  const metadata = fields.object("metadata") ?? {};
  const fork = present({ parent, checkpoint, status: fields.any("status"), createdAt, branch });
  return {
    id: fields.text("fork_id") ?? key,
    parent,
    checkpoint,
    branch,
    at: momentOf(createdAt)?.ms,
    metadata,
    source: fields.source({ fork }, roomBeside(metadata)),
  };
}

/** The list of children can be made from the forks: it is only compared. */
function compareWithChildren(
  children: JsonObject,
  forks: ReadonlySet<string>,
  told: FileReport,
): void {
  for (const [parent, ids] of Object.entries(children))
    for (const id of Array.isArray(ids) ? ids : [ids])
      if (typeof id !== "string" || !forks.has(id))
        told.note(
          `Among the children of session ${quote(parent)} is ${quote(typeof id === "string" ? id : JSON.stringify(id))}, which is no fork.`,
        );
}
