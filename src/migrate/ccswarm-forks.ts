/** `forks.json` of ccswarm: which sessions began at a checkpoint of another. Nothing was copied when they did. */
import { quote } from "../core/errors.js";
import type { JsonObject } from "../index.js";
import { at, isObject, objectAt, present, textAt } from "./fields.js";
import type { Report } from "./report.js";
import { momentOf } from "./times.js";

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
  const forks = objectAt(value, "forks") ?? {};
  return Object.entries(forks).flatMap(([key, given]) => {
    const id = isObject(given) ? (textAt(given, "fork_id") ?? key) : key;
    const parent = isObject(given) ? textAt(given, "parent_session_id") : undefined;
    const checkpoint = isObject(given) ? textAt(given, "checkpoint_id") : undefined;
    if (!isObject(given) || parent === undefined || checkpoint === undefined) {
      report.note(`Fork ${quote(key)} does not say where it begins: left out.`, "forks.json");
      return [];
    }
    const source = present({
      parent,
      checkpoint,
      status: at(given, "status"),
      createdAt: at(given, "created_at"),
      branch: at(given, "branch_name"),
    });
    const about = { branch: textAt(given, "branch_name"), at: momentOf(at(given, "created_at"))?.ms, source };
    return [{ id, parent, checkpoint, metadata: objectAt(given, "metadata") ?? {}, ...about }];
  });
}
