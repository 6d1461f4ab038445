/**
 * What is to be done with a session, decided from what the source has and what the store has.
 *
 * IMPORT-1  a step is known again by its id and the digest of what was written: it is imported
 *           once, however often the import is run or killed.
 * IMPORT-2  a step is written after the one that it follows, on a branch of its own where others
 *           have followed that already. What would have to stand before all that is here is named,
 *           and left out; so is what was here and has been pruned.
 * IMPORT-3  a session that is not an import of this source, or that has gone on here by itself, is
 *           left as it is.
 * IMPORT-4  a session stands where the last import left it, or where one that was killed can have
 *           left it; otherwise somebody has moved it. What its words say may be older than it is:
 *           restoring a snapshot of its agent brings them back.
 */
import { sortedText } from "../../core/values/json.js";
import type { Checkpoint, JsonObject, SessionSummary } from "../../index.js";
import { at, isCount, isObject, textAt } from "../reading/fields.js";
import type { ForeignSession, MigrationKind, Step } from "../reading/model.js";
import { digestOf } from "../reading/names.js";

/** How a session stands in the store. */
export interface Standing {
  readonly summary: SessionSummary;
  /** On all its branches, also what it shares with the session it was forked from. */
  readonly checkpoints: readonly Pick<Checkpoint, "id" | "metadata">[];
  readonly latest: Pick<Checkpoint, "id" | "createdAt"> | undefined;
}

export interface Conflict {
  readonly message: string;
  /** Whether what has this id here is something else altogether. */
  readonly isOther: boolean;
}

export interface Plan {
  readonly outcome: "imported" | "grown" | "known";
  readonly conflict?: Conflict;
  /** The checkpoints of the steps that are here, by their keys. */
  readonly places: ReadonlyMap<string, string>;
  /** Steps that are left out, as they would have to stand before what is here. */
  readonly late: ReadonlySet<Step>;
  /**
   * How many steps there are up to the last one that is here: what is written among them is beside
   * the session's own way.
   */
  readonly known: number;
  /** The checkpoint at which it stands, and how many it has. */
  readonly head: string | undefined;
  readonly count: number;
  /** Whether an import has not come to its end. */
  readonly isUnfinished: boolean;
  /** Whether the source says other things beside its steps than it did. */
  readonly isRelabelled: boolean;
}

export const keyOf = ({ id, digest }: Pick<Step, "id" | "digest">): string => `${digest} ${id}`;

/**
 * What stands beside the steps, and where it ends: where this is the same, there is nothing to be
 * done at the end.
 */
export function markOf({
  title,
  tags,
  archived,
  metadata,
  source,
  current,
  steps,
}: ForeignSession): string {
  const end = steps.at(-1);
  const places = [current && keyOf(current), end && keyOf(end)].map((key) => key ?? null);
  return digestOf(
    sortedText([
      title ?? null,
      tags ?? [],
      archived ?? false,
      metadata ?? {},
      source ?? {},
      places,
    ]),
  );
}

export const sourceIn = (metadata: JsonObject): JsonObject | undefined => {
  const source = Object.hasOwn(metadata, "source") ? metadata["source"] : undefined;
  return isObject(source) ? source : undefined;
};

const NOTHING: Plan = {
  outcome: "imported",
  places: new Map(),
  late: new Set(),
  known: 0,
  head: undefined,
  count: 0,
  isUnfinished: true,
  isRelabelled: true,
};

export const inConflict = (message: string): Plan => ({
  ...NOTHING,
  conflict: { message, isOther: false },
});

export function planOf(
  kind: MigrationKind,
  session: ForeignSession,
  standing: Standing | undefined,
  forkPoint: string | undefined,
): Plan {
  if (standing === undefined) return NOTHING;
  const { summary, checkpoints, latest } = standing;
  const source = sourceIn(summary.metadata);
  const { steps } = session;
  const places = new Map<string, string>();
  const conflict = (message: string, isOther = false): Plan => ({
    ...NOTHING,
    places,
    conflict: { message, isOther },
  });
  // A fork has the words of its parent until it is given its own.
  const isOurs = source !== undefined && source["kind"] === kind;
  const isNewFork =
    forkPoint !== undefined &&
    summary.forkPoint?.checkpointId === forkPoint &&
    source?.["id"] !== session.foreign;
  if (!isOurs || (source["id"] !== session.foreign && !isNewFork))
    return conflict("There is another session of this id here.", true);
  let isOwn = true;
  for (const { id, metadata } of checkpoints) {
    const from = sourceIn(metadata);
    if (from?.["kind"] !== kind) isOwn = false;
    else if (from["session"] === session.foreign)
      places.set(`${textAt(from, "digest")} ${textAt(from, "id")}`, id);
  }
  if (!isOwn || hasGoneOn(standing)) return conflict("It has gone on here since it was imported.");
  const isHere = steps.map((step) => places.has(keyOf(step)));
  const last = isHere.lastIndexOf(true);
  const isSame = session.identity !== undefined && source["identity"] === session.identity;
  if (steps.length > 0 && places.size > 0 && last === -1 && !isSame) return conflict(STRANGE, true);
  const isUnfinished = isNewFork || source["mark"] === undefined || source["isUnfinished"] === true;
  const counted = at(source, "count");
  const count = isCount(counted) ? counted : 0;
  const isPlace = isUnfinished
    ? isUnderWay(session, source, standing, places)
    : places.size <= count && isAtEnd(source, standing, places);
  if (!isPlace) return conflict("It was put back to an earlier checkpoint here.");
  const isPruned = places.size < count;
  const first = isPruned ? last : isHere.indexOf(true);
  const late = new Set(steps.filter((_, i) => i < first && !isHere[i]));
  const isFirst = isNewFork || source["mark"] === undefined;
  const isRelabelled = isUnfinished || source["mark"] !== markOf(session);
  const isGrown = isRelabelled || isHere.filter((is) => !is).length > late.size;
  return {
    outcome: isFirst ? "imported" : isGrown ? "grown" : "known",
    places,
    late,
    known: last + 1,
    head: latest?.id,
    count: checkpoints.length,
    isUnfinished,
    isRelabelled,
  };
}

const STRANGE =
  "There is another session of this id here: not one of the checkpoints that were imported is in this source. Import it into a store of its own.";

type Places = ReadonlyMap<string, string>;

function isAtEnd(
  source: JsonObject,
  { summary, checkpoints, latest }: Standing,
  places: Places,
): boolean {
  const expected =
    places.get(textAt(source, "at") ?? "") ?? summary.forkPoint?.checkpointId ?? checkpoints[0]?.id;
  return latest === undefined || latest.id === expected;
}

/** IMPORT-4: at the checkpoint that was written last, or on the way to the next, or to the end. */
function isUnderWay(
  { steps, current }: ForeignSession,
  source: JsonObject,
  standing: Standing,
  places: Places,
): boolean {
  const { checkpoints, latest } = standing;
  if (latest === undefined || latest.id === checkpoints[0]?.id || isAtEnd(source, standing, places))
    return true;
  if (current !== undefined && places.get(keyOf(current)) === latest.id) return true;
  const under = new Map<string, string>();
  let before = standing.summary.forkPoint?.checkpointId;
  for (const step of steps) {
    const place = places.get(keyOf(step));
    const after =
      place ?? (step.parent === undefined ? undefined : under.get(step.parent)) ?? before;
    if (place === undefined && after === latest.id) return true;
    if (after !== undefined && !under.has(step.id)) under.set(step.id, after);
    before = place ?? before;
  }
  return false;
}

/** Whether something was saved after the newest checkpoint, all of which are ours. */
function hasGoneOn({ summary, latest }: Standing): boolean {
  const { createdAt, updatedAt } = summary;
  if (latest === undefined) return updatedAt !== createdAt;
  return updatedAt !== latest.createdAt && updatedAt !== createdAt;
}
