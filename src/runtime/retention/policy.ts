/** Retention policies as callers give them. */
import type { CheckpointKind } from "../../core/checkpoint.js";
import { KINDS } from "../../core/checkpoint.js";
import type { RetentionPolicy } from "../../core/policy.js";
import { flag, invalid, listOf, oneOf, options, wholeNumber } from "../options.js";

export const POLICY = [
  "keep",
  "hourly",
  "daily",
  "weekly",
  "olderThanMs",
  "labelled",
  "kinds",
] as const satisfies (keyof RetentionPolicy)[];

/** Hours, days and weeks at most: more than a century of hours would be. */
const MOST_STRETCHES = 1_000_000;
const MOST_MS = 8.64e15;

/** Answers a copy with what is given, each checked. */
export function checkPolicy(given: RetentionPolicy, what: string): RetentionPolicy {
  const o = options<RetentionPolicy>(given, what, POLICY);
  const policy: { -readonly [K in keyof RetentionPolicy]: RetentionPolicy[K] } = {};
  // One that is there and undefined is a slip, and would keep less than was meant.
  for (const name of POLICY) if (name in o && o[name] === undefined) throw invalid(name, "it is there, and undefined");
  if (o.keep !== undefined) policy.keep = wholeNumber(o.keep, "keep", 0, Number.MAX_SAFE_INTEGER);
  for (const name of ["hourly", "daily", "weekly"] as const)
    if (o[name] !== undefined) policy[name] = wholeNumber(o[name], name, 0, MOST_STRETCHES);
  if (o.olderThanMs !== undefined) policy.olderThanMs = wholeNumber(o.olderThanMs, "olderThanMs", 0, MOST_MS);
  const labelled = flag(o.labelled, "labelled");
  if (labelled !== undefined) policy.labelled = labelled;
  if (o.kinds !== undefined) policy.kinds = kindsOf(o.kinds);
  return Object.freeze(policy);
}

function kindsOf(given: unknown): readonly CheckpointKind[] {
  const kinds = listOf(given, "kinds", "a list of kinds", KINDS.length + 1);
  if (kinds.length > KINDS.length) throw invalid("kinds", `there are ${KINDS.length} kinds`);
  return Object.freeze(kinds.map((kind, i) => oneOf(kind ?? null, `kinds[${i}]`, KINDS) as CheckpointKind));
}
