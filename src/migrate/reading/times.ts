/** Times as they wrote them: RFC 3339 with up to nine digits of a second, or seconds since 1970. */
import type { Json } from "../../index.js";

export interface Moment {
  readonly ms: number;
  /** Order comes from these: a millisecond holds many checkpoints. */
  readonly ns: bigint;
}

const RFC_3339 =
  /^([+-]?\d{4,6})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,30}))?(?:[Zz]|([+-])(\d\d):?(\d\d))$/;
const LAST_MS = 8.64e15;

/** Undefined for what is no time, or none that a calendar has. */
export function momentOf(value: Json | undefined): Moment | undefined {
  if (typeof value === "number")
    return Number.isInteger(value) ? within(BigInt(value) * 1_000_000_000n) : undefined;
  const found = typeof value === "string" ? RFC_3339.exec(value) : null;
  if (found === null) return undefined;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const whole = new Date(0);
  whole.setUTCFullYear(year, month - 1, day);
  // A day that its month does not have would be one of the next.
  if (
    whole.getUTCMonth() !== month - 1 ||
    whole.getUTCDate() !== day ||
    hour > 23 ||
    minute > 59 ||
    second > 60
  )
    return undefined;
  const [, , , , , , , fraction = "", sign, hours = "0", minutes = "0"] = found;
  const offset = (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes));
  const ms = whole.getTime() + ((hour * 60 + minute - offset) * 60 + second) * 1000;
  return Number.isNaN(ms)
    ? undefined
    : within(BigInt(ms) * 1_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, "0")));
}

function within(ns: bigint): Moment | undefined {
  const ms = Number(ns / 1_000_000n) - (ns % 1_000_000n < 0n ? 1 : 0);
  return Math.abs(ms) <= LAST_MS ? { ms, ns } : undefined;
}

/**
 * Before, after, or neither. One without a time comes first: what it led to is known, what led to
 * it is not.
 */
export function compareTimes(a: Moment | undefined, b: Moment | undefined): number {
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? -1 : 1;
  return a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0;
}

export const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
