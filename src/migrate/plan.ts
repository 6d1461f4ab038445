/**
 * What is to be done with a session, decided from what the source has and what the store has.
 *
 * P1  a step is known again by its id and the digest of what was written: it is imported once, however often the import is run or killed.
 * P2  only what comes after all that is here is added. What would have to stand before is named, and left out.
 * P3  a session that is not an import of this source, or that has gone on here by itself, is left as it is.
 */
import type { Checkpoint, JsonObject, SessionSummary } from "../index.js";
import { isObject, textAt } from "./fields.js";
import { sortedText } from "./json.js";
import type { ForeignSession, MigrationKind, Step } from "./model.js";
import { digestOf } from "./names.js";

/** How a session stands in the store. */
export interface Standing {
  readonly summary: SessionSummary;
  /** On all its lines, also what it shares with the session it was forked from. */
  readonly checkpoints: readonly Pick<Checkpoint, "id" | "metadata">[];
  readonly latest: Pick<Checkpoint, "id" | "createdAt"> | undefined;
}

export interface Decision {
  readonly outcome: "imported" | "grown" | "known" | "conflict";
  readonly message?: string;
  /** Steps to write, in order. */
  readonly fresh: ReadonlySet<Step>;
  /** Steps that came too late to be written in order. */
  readonly late: ReadonlySet<Step>;
  /** The checkpoints of the steps that are here, by their keys. */
  readonly places: ReadonlyMap<string, string>;
  /** How many checkpoints it has here. */
  readonly count: number;
  /** Whether the source says other things beside its steps than it did. */
  readonly isRelabelled?: boolean;
  /** Whether what has this id here is something else altogether. */
  readonly isOther?: boolean;
}

export const keyOf = ({ id, digest }: Pick<Step, "id" | "digest">): string => `${digest} ${id}`;

/** What stands beside the steps, and where it ends: where this is the same, there is nothing to be done at the end. */
export function markOf({ title, tags, archived, metadata, source, current, steps }: ForeignSession): string {
  const end = steps.at(-1);
  const places = [current && keyOf(current), end && keyOf(end)].map((key) => key ?? null);
  return digestOf(sortedText([title ?? null, tags ?? [], archived ?? false, metadata ?? {}, source ?? {}, places]));
}

export const sourceIn = (metadata: JsonObject): JsonObject | undefined => {
  const source = Object.hasOwn(metadata, "source") ? metadata["source"] : undefined;
  return isObject(source) ? source : undefined;
};

export function decide(kind: MigrationKind, session: ForeignSession, standing: Standing | undefined, origin: string | undefined): Decision {
  if (standing === undefined) return { outcome: "imported", fresh: new Set(session.steps), late: new Set(), places: new Map(), count: 0 };
  const { summary, checkpoints } = standing;
  const source = sourceIn(summary.metadata);
  const places = new Map<string, string>();
  const count = checkpoints.length;
  const conflict = (message: string): Decision => ({ outcome: "conflict", message, fresh: new Set(), late: new Set(), places, count });
  // A fork has the words of its parent until it is given its own.
  const isOurs = source !== undefined && source["kind"] === kind;
  const isNewFork = origin !== undefined && summary.origin?.checkpointId === origin && source?.["id"] !== session.foreign;
  if (!isOurs || (source["id"] !== session.foreign && !isNewFork))
    return { ...conflict("There is another session of this id here."), isOther: true };
  let isOwn = true;
  for (const { id, metadata } of checkpoints) {
    const from = sourceIn(metadata);
    if (from?.["kind"] !== kind) isOwn = false;
    else if (from["session"] === session.foreign) places.set(`${textAt(from, "digest")} ${textAt(from, "id")}`, id);
  }
  if (!isOwn || hasGoneOn(standing)) return conflict(GONE_ON);
  const { steps } = session;
  const last = steps.findLastIndex((step) => places.has(keyOf(step)));
  const late = new Set(steps.slice(0, last + 1).filter((step) => !places.has(keyOf(step))));
  const fresh = new Set(steps.slice(last + 1));
  if (hasMoved(session, source, standing, places, fresh)) return conflict("It was put back to an earlier checkpoint here.");
  const mark = isNewFork ? undefined : source["mark"];
  const isRelabelled = mark !== markOf(session);
  const outcome = mark === undefined ? "imported" : fresh.size > 0 || isRelabelled ? "grown" : "known";
  return { outcome, fresh, late, places, count, isRelabelled };
}

const GONE_ON = "It has gone on here since it was imported.";

/** Whether it stands elsewhere than an import leaves it, at its end or where it was killed: others can rewind it too. */
function hasMoved(
  { steps, current }: ForeignSession,
  source: JsonObject,
  { checkpoints, latest }: Standing,
  places: ReadonlyMap<string, string>,
  fresh: ReadonlySet<Step>,
): boolean {
  if (latest === undefined) return false;
  // The newest of its newest line was written last.
  if (latest.id === checkpoints[0]?.id) return false;
  const [next] = fresh;
  const parents = next?.parent === undefined ? [] : steps.filter(({ id }) => id === next.parent).map(keyOf);
  const expected = [current && keyOf(current), textAt(source, "at"), ...parents];
  return !expected.some((key) => key !== undefined && places.get(key) === latest.id);
}

/** Whether something was saved after the newest checkpoint, all of which are ours. */
function hasGoneOn({ summary, latest }: Standing): boolean {
  const { createdAt, updatedAt } = summary;
  if (latest === undefined) return updatedAt !== createdAt;
  return updatedAt !== latest.createdAt && updatedAt !== createdAt;
}
