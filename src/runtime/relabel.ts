/** A change of what stands beside a session's journal: title, tags, archived, metadata. */
import type { JsonObject } from "../core/json.js";
import type { Ground } from "./ground.js";
import { checkLabel } from "./opening.js";
import { flag, options } from "./options.js";
import type { LabelDoc } from "./rows.js";

/** What is not given stays as it is. */
export interface SessionUpdate {
  /** Null takes a title away that was given: the first words stand in for it then. */
  readonly title?: string | null;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly metadata?: JsonObject;
}

/** Gives a label its changes. */
export type Relabel = <L extends Omit<LabelDoc, "id" | "version">>(label: L) => L;

/** Checks an update. `call` names the call in errors. */
export function relabelBy(ground: Ground, update: SessionUpdate, call: string): Relabel {
  const { title, archived, ...rest } = options(update, call, ["title", "tags", "archived", "metadata"]);
  const isArchived = flag(archived, "archived");
  const change: Partial<LabelDoc> = {
    ...checkLabel(ground, title == null ? rest : { ...rest, title }),
    ...(isArchived === undefined ? undefined : { archived: isArchived }),
  };
  return (label) => {
    const { title: before, ...untitled } = label;
    return { ...untitled, ...(before === undefined || title === null ? undefined : { title: before }), ...change } as typeof label;
  };
}
