/**
 * Which checkpoints, and which snapshots, a retention policy keeps. Pure, and the only place that
 * decides it. The rules below speak of checkpoints along a branch; the snapshots of an agent, in
 * the order of their making, follow the same rules.
 *
 * POLICY-1  a checkpoint stays if any rule keeps it; a policy without a rule removes nothing.
 * POLICY-2  the newest stays, whatever the policy says.
 * POLICY-3  hours, days and weeks are those of UTC in which there are checkpoints, counted back
 *           along the branch: no clock is asked.
 * POLICY-4  order along the branch is believed more than times. One that is yet to come is no age,
 *           and none is older than those before it were young: a clock that was wrong for a while
 *           keeps too much, not too little.
 */
import type { CheckpointKind } from "../journal/checkpoint.js";

/** Rules for checkpoints, or for snapshots. */
export interface RetentionRules {
  /** The newest so many stay. */
  readonly keep?: number;
  /** The newest of each hour stays, for so many hours that have any. */
  readonly hourly?: number;
  readonly daily?: number;
  /** Weeks begin on Monday. */
  readonly weekly?: number;
  /** Only what is older may go. */
  readonly olderThanMs?: number;
  /**
   * Those with a label stay. True by default, but where `keep` is all that is said: `{ keep: 3 }`
   * means three.
   */
  readonly labelled?: boolean;
  /** Those of these kinds stay. None by default. */
  readonly kinds?: readonly CheckpointKind[];
}

/** Rules that say which checkpoints of sessions, and which snapshots of an agent, are kept. */
export interface RetentionPolicy extends RetentionRules {
  /**
   * Rules for snapshots, for each agent by itself; without them no snapshot goes. A snapshot with a
   * name counts as labelled, unless its kind is `recovery`: the name of such a one is Holdfast's
   * own.
   */
  readonly snapshots?: RetentionRules;
}

/** What a policy looks at. */
export interface Dated {
  readonly at: number;
  readonly kind: CheckpointKind;
  readonly labelled: boolean;
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** The first of January 1970 was a Thursday. */
const TO_MONDAY = 3 * DAY;

/** Which of the checkpoints along a branch go. Both newest first. */
export function expired<T extends Dated>(
  newestFirst: readonly T[],
  policy: RetentionRules,
  now: number,
): T[] {
  const { keep, hourly, daily, weekly, olderThanMs, kinds = [] } = policy;
  if ([keep, hourly, daily, weekly, olderThanMs].every((rule) => rule === undefined)) return [];
  const isYoung = youngest(newestFirst, olderThanMs, now);
  const rules: ((checkpoint: T, i: number) => boolean)[] = [
    (_, i) => i < Math.max(1, keep ?? 0),
    firstOfEach(hourly, (at) => Math.floor(at / HOUR)),
    firstOfEach(daily, (at) => Math.floor(at / DAY)),
    firstOfEach(weekly, (at) => Math.floor((at + TO_MONDAY) / (7 * DAY))),
    (_, i) => isYoung(i),
    ({ labelled }) => labelled && keepsLabelled(policy),
    ({ kind }) => kinds.includes(kind),
  ];
  // Every rule is asked of every checkpoint: those of hours and days remember what they have seen.
  return newestFirst.filter((checkpoint, i) =>
    rules.map((rule) => rule(checkpoint, i)).every((keeps) => !keeps),
  );
}

function keepsLabelled({
  labelled,
  keep,
  hourly,
  daily,
  weekly,
  olderThanMs,
  kinds,
}: RetentionRules): boolean {
  return (
    labelled ??
    (keep === undefined ||
      [hourly, daily, weekly, olderThanMs, kinds].some((rule) => rule !== undefined))
  );
}

/** Keeps the first one it meets of each stretch of time, for so many stretches (POLICY-3). */
function firstOfEach(count = 0, stretchOf: (at: number) => number): (checkpoint: Dated) => boolean {
  const met = new Set<number>();
  return ({ at }) => {
    const stretch = stretchOf(at);
    if (met.has(stretch) || met.size >= count) return false;
    met.add(stretch);
    return true;
  };
}

/** Which are not old enough to go, by their place in the list (POLICY-4). */
function youngest(
  newestFirst: readonly Dated[],
  olderThanMs: number | undefined,
  now: number,
): (i: number) => boolean {
  if (olderThanMs === undefined) return () => false;
  const young: boolean[] = [];
  let latest = Number.NEGATIVE_INFINITY;
  for (let i = newestFirst.length - 1; i >= 0; i--) {
    const { at } = newestFirst[i] as Dated;
    if (at <= now) latest = Math.max(latest, at);
    young[i] = at > now || latest > now - olderThanMs;
  }
  return (i) => young[i] as boolean;
}
