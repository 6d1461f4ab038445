/** Retention policies as callers give them. */
import type { CheckpointKind } from "../../core/journal/checkpoint.js";
import { KINDS } from "../../core/journal/checkpoint.js";
import type { RetentionPolicy, RetentionRules } from "../../core/retention/policy.js";
import { flag, invalid, listOf, oneOf, options, wholeNumber } from "../util/validate.js";

export const RULES = [
  "keep",
  "hourly",
  "daily",
  "weekly",
  "olderThanMs",
  "labelled",
  "kinds",
] as const satisfies (keyof RetentionRules)[];

/** Hours, days and weeks at most: more than a century of hours would be. */
const MOST_STRETCHES = 1_000_000;
const MOST_MS = 8.64e15;

/** Answers a copy of the policy, each rule checked. */
export function checkPolicy(given: RetentionPolicy, what: string): RetentionPolicy {
  const { snapshots, ...rules } = options<RetentionPolicy>(given, what, [...RULES, "snapshots"]);
  const checked = checkRules(rules, what);
  if (!("snapshots" in given)) return checked;
  if (snapshots === undefined) throw invalid("snapshots", "it is there, and undefined");
  return Object.freeze({ ...checked, snapshots: checkRules(snapshots, "snapshots", "snapshots.") });
}

/** Answers a copy of the rules, each checked. `within` begins the path of each in errors. */
export function checkRules(given: RetentionRules, what: string, within = ""): RetentionRules {
  const o = options<RetentionRules>(given, what, RULES);
  const policy: { -readonly [K in keyof RetentionRules]: RetentionRules[K] } = {};
  // One that is there and undefined is a slip, and would keep less than was meant.
  for (const name of RULES)
    if (name in o && o[name] === undefined)
      throw invalid(within + name, "it is there, and undefined");
  if (o.keep !== undefined)
    policy.keep = wholeNumber(o.keep, `${within}keep`, 0, Number.MAX_SAFE_INTEGER);
  for (const name of ["hourly", "daily", "weekly"] as const)
    if (o[name] !== undefined)
      policy[name] = wholeNumber(o[name], within + name, 0, MOST_STRETCHES);
  if (o.olderThanMs !== undefined)
    policy.olderThanMs = wholeNumber(o.olderThanMs, `${within}olderThanMs`, 0, MOST_MS);
  const labelled = flag(o.labelled, `${within}labelled`);
  if (labelled !== undefined) policy.labelled = labelled;
  if (o.kinds !== undefined) policy.kinds = kindsOf(o.kinds, `${within}kinds`);
  return Object.freeze(policy);
}

function kindsOf(given: unknown, path: string): readonly CheckpointKind[] {
  const kinds = listOf(given, path, "a list of kinds", KINDS.length + 1);
  if (kinds.length > KINDS.length) throw invalid(path, `there are ${KINDS.length} kinds`);
  return Object.freeze(
    kinds.map((kind, i) => oneOf(kind ?? null, `${path}[${i}]`, KINDS) as CheckpointKind),
  );
}
