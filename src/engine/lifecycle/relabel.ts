/** A change of what stands beside a session's journal: title, tags, archived, metadata. */
import type { StoreContext } from "../journal/store-context.js";
import type { LabelDoc, Relabel, SessionUpdate } from "../records/rows.js";
import { flag, options } from "../util/validate.js";
import { checkLabel } from "./session-options.js";

/** Checks an update. `call` names the call in errors. */
export function relabelBy(ctx: StoreContext, update: SessionUpdate, call: string): Relabel {
  const { title, archived, ...rest } = options(update, call, [
    "title",
    "tags",
    "archived",
    "metadata",
  ]);
  const isArchived = flag(archived, "archived");
  const change: Partial<LabelDoc> = {
    ...checkLabel(ctx, title == null ? rest : { ...rest, title }),
    ...(isArchived === undefined ? undefined : { archived: isArchived }),
  };
  return (label) => {
    const { title: before, ...untitled } = label;
    return {
      ...untitled,
      ...(before === undefined || title === null ? undefined : { title: before }),
      ...change,
    } as typeof label;
  };
}
