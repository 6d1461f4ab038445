/**
 * Retention policies at random, and what they keep, said word for word: each checkpoint is judged
 * by itself, from the whole list.
 */
import fc from "fast-check";
import type { Dated, RetentionPolicy } from "../../src/core/retention/policy.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const KINDS = ["automatic", "manual", "pre-operation", "recovery"] as const;

const rules = {
  keep: fc.nat({ max: 5 }),
  hourly: fc.nat({ max: 4 }),
  daily: fc.nat({ max: 4 }),
  weekly: fc.nat({ max: 3 }),
  olderThanMs: fc.constantFrom(0, 1, HOUR, DAY, 30 * DAY),
  labelled: fc.boolean(),
  kinds: fc.subarray([...KINDS]),
};

/** Some rules, of any number: also none. */
export const policies: fc.Arbitrary<RetentionPolicy> = fc
  .subarray(Object.keys(rules) as (keyof typeof rules)[])
  .chain(
    (some) =>
      fc.record(
        Object.fromEntries(some.map((name) => [name, rules[name]])),
      ) as fc.Arbitrary<RetentionPolicy>,
  );

const names = { hourly: 13, daily: 10 } as const;

/**
 * A stretch of time by its name: the text of a date up to the hour or the day, or the Monday of its
 * week.
 */
function stretchOf(at: number, rule: "hourly" | "daily" | "weekly"): string {
  if (rule !== "weekly") return new Date(at).toISOString().slice(0, names[rule]);
  const date = new Date(at);
  date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7));
  return date.toISOString().slice(0, 10);
}

/** Whether the checkpoint at a place of the list, newest first, stays. */
export function stays(
  newestFirst: readonly Dated[],
  i: number,
  policy: RetentionPolicy,
  now: number,
): boolean {
  const one = newestFirst[i] as Dated;
  const { keep, olderThanMs, labelled, kinds } = policy;
  const says = (name: keyof RetentionPolicy) => policy[name] !== undefined;
  if (!(["keep", "hourly", "daily", "weekly", "olderThanMs"] as const).some(says)) return true;
  if (i === 0 || i < (keep ?? 0)) return true;
  const onlyKeep =
    says("keep") && Object.keys(policy).every((name) => name === "keep" || name === "labelled");
  if (one.labelled && (labelled ?? !onlyKeep)) return true;
  if (kinds?.includes(one.kind)) return true;
  if (olderThanMs !== undefined) {
    const before = newestFirst.slice(i).filter(({ at }) => at <= now);
    if (one.at > now || before.some(({ at }) => now - at < olderThanMs)) return true;
  }
  return (["hourly", "daily", "weekly"] as const).some((rule) => {
    const own = stretchOf(one.at, rule);
    const newer = newestFirst.slice(0, i).map(({ at }) => stretchOf(at, rule));
    return !newer.includes(own) && new Set(newer).size < (policy[rule] ?? 0);
  });
}

/**
 * Times as they come, mostly: a little later each, and now and then a clock that was set back, or
 * far ahead.
 */
export const steps: fc.Arbitrary<number> = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: 2 * HOUR }) },
  { weight: 4, arbitrary: fc.nat({ max: 3 * DAY }) },
  // To the millisecond, so that some are as old as a policy says.
  { weight: 12, arbitrary: fc.constantFrom(0, HOUR, DAY, 10 * DAY) },
  fc.constantFrom(0, -DAY, -400 * DAY, 3_650 * DAY),
);

export const checkpoints: fc.Arbitrary<Dated[]> = fc
  .array(fc.record({ step: steps, kind: fc.constantFrom(...KINDS), labelled: fc.boolean() }), {
    maxLength: 25,
  })
  .map((drafts) => {
    let at = Date.UTC(2026, 0, 1);
    return drafts
      .map(({ step, kind, labelled }) => {
        at += step;
        return { at, kind, labelled };
      })
      .toReversed();
  });
