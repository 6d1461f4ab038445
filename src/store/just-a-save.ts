/** Tells the change that a store is asked for most of the time. */
import type { Change, NewSave } from "./port/changes.js";

/** The save of a change that is nothing else: the common case, which has a quick way. */
export function justASave(change: Change): NewSave | undefined {
  const {
    when,
    branch,
    loose,
    claims,
    saves,
    head,
    label,
    lease,
    drained,
    reworded,
    forgets,
    remove,
  } = change;
  if (
    saves?.length !== 1 ||
    when.epoch === undefined ||
    when.absent ||
    when.until !== undefined ||
    when.version !== undefined
  )
    return undefined;
  return branch ||
    loose ||
    claims ||
    head ||
    label ||
    lease ||
    drained?.length ||
    reworded?.length ||
    forgets ||
    remove
    ? undefined
    : saves[0];
}
