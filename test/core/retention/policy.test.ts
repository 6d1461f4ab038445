import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Dated, expired, type RetentionPolicy } from "../../../src/core/retention/policy.js";
import { checkpoints, policies, stays } from "../../support/policies.js";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const start = Date.UTC(2026, 0, 1);

type Rule = typeof expired;

/** What a rule keeps is what the words say, for any list, policy and clock. */
function holds(rule: Rule): void {
  fc.assert(
    fc.property(
      checkpoints,
      policies,
      fc.integer({ min: -40, max: 200 }),
      fc.boolean(),
      (newestFirst, policy, days, isExact) => {
        // Now and then one of them is as old as the policy says, to the millisecond.
        const exact = newestFirst[Math.abs(days) % Math.max(1, newestFirst.length)]?.at ?? start;
        const now = isExact ? exact + (policy.olderThanMs ?? 0) : start + days * DAY;
        const gone = new Set(rule(newestFirst, policy, now));
        for (const [i, one] of newestFirst.entries())
          expect([i, gone.has(one)]).toEqual([i, !stays(newestFirst, i, policy, now)]);
      },
    ),
    { numRuns: 3_000 },
  );
}

const made = (...ats: number[]): Dated[] =>
  ats.map((at) => ({ at, kind: "automatic" as const, labelled: false }));
const timesLeft = (
  all: readonly Dated[],
  policy: RetentionPolicy,
  now = start + 1_000 * DAY,
): number[] => {
  const gone = new Set(expired(all, policy, now));
  return all.filter((one) => !gone.has(one)).map(({ at }) => at);
};

describe("what a policy keeps", () => {
  test("POLICY-1 to POLICY-4: exactly what a plain reading of the rules says", () => {
    holds(expired);
  });

  test("the same reading catches rules that are wrong", () => {
    const wrong: Record<string, Rule> = {
      "the newest may go": (all, policy, now) =>
        policy.keep === 0 ? [...all] : expired(all, policy, now),
      "labels are not looked at": (all, policy, now) =>
        expired(all, { ...policy, labelled: false }, now),
      "labels always count": (all, policy, now) => expired(all, { ...policy, labelled: true }, now),
      "kinds are not looked at": (all, { kinds: _kinds, ...policy }, now) =>
        expired(all, policy, now),
      "the oldest of an hour stays": (all, policy, now) => expired(all.toReversed(), policy, now),
      "hours are half hours": (all, policy, now) =>
        expired(
          all.map((one) => ({ ...one, at: one.at * 2 })),
          policy,
          now,
        ).map((one) => all.find(({ at }) => at * 2 === one.at) ?? one),
      "an empty policy removes all but one": (all, policy, now) =>
        expired(all, { keep: 1, ...policy }, now),
      "times are believed": (all, policy, now) =>
        policy.olderThanMs === undefined
          ? expired(all, policy, now)
          : all.filter(({ at }, i) => i > 0 && now - at >= (policy.olderThanMs ?? 0)),
      "old is as old as the limit": (all, policy, now) =>
        expired(
          all,
          policy.olderThanMs === undefined
            ? policy
            : { ...policy, olderThanMs: policy.olderThanMs + 1 },
          now,
        ),
    };
    for (const [name, rule] of Object.entries(wrong)) expect(() => holds(rule), name).toThrow();
  });

  test("POLICY-1: an empty policy removes nothing, nor does one that only says what else stays", () => {
    const all = made(start + 2, start + 1, start);
    expect(timesLeft(all, {})).toHaveLength(3);
    expect(timesLeft(all, { labelled: true, kinds: ["manual"] })).toHaveLength(3);
  });

  test("`keep` alone means what it says; with any other rule labelled ones stay", () => {
    const all = made(4, 3, 2, 1).map((one, i) => ({ ...one, labelled: i === 3 }));
    expect(timesLeft(all, { keep: 2 })).toEqual([4, 3]);
    expect(timesLeft(all, { keep: 2, labelled: true })).toEqual([4, 3, 1]);
    expect(timesLeft(all, { keep: 2, daily: 0 })).toEqual([4, 3, 1]);
  });

  test("POLICY-3: the newest of each of the last hours and days that have any", () => {
    const at = (day: number, hour: number, minute = 0) =>
      start + day * DAY + hour * HOUR + minute * 60_000;
    const all = made(
      at(9, 12, 50),
      at(9, 12, 10),
      at(9, 11, 59),
      at(8, 3),
      at(8, 2),
      at(2, 23),
      at(2, 22),
      at(1, 1),
    );
    expect(timesLeft(all, { hourly: 3 })).toEqual([at(9, 12, 50), at(9, 11, 59), at(8, 3)]);
    expect(timesLeft(all, { daily: 3 })).toEqual([at(9, 12, 50), at(8, 3), at(2, 23)]);
    // The first of January 2026 was a Thursday: its week has the days up to Sunday, the fourth.
    expect(timesLeft(all, { weekly: 2 })).toEqual([at(9, 12, 50), at(2, 23)]);
  });

  test("POLICY-4: a clock that was wrong for a while makes nothing go that was young", () => {
    const now = start + 100 * DAY;
    const policy = { olderThanMs: 10 * DAY };
    // Set back to 1970 after a reboot.
    expect(timesLeft(made(now - DAY, 60_000, now - 2 * DAY, now - 50 * DAY), policy, now)).toEqual([
      now - DAY,
      60_000,
      now - 2 * DAY,
    ]);
    // Ten years ahead, and right again.
    const ahead = now + 3_650 * DAY;
    expect(
      timesLeft(made(now - 20 * DAY, ahead, now - 30 * DAY, now - 40 * DAY), policy, now),
    ).toEqual([now - 20 * DAY, ahead]);
    // The clock of who prunes is a year behind: all is yet to come, and stays.
    expect(timesLeft(made(now, now - DAY, now - 50 * DAY), policy, now - 365 * DAY)).toHaveLength(
      3,
    );
    // And for hours: those times are hours of their own, and the others stay what they are.
    expect(timesLeft(made(now, ahead, now - HOUR, now - HOUR - 1), { hourly: 3 }, now)).toEqual([
      now,
      ahead,
      now - HOUR,
    ]);
  });
});
