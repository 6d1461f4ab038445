/** The search for the first of many that is bad. Pure: how one is judged is the caller's. */
import { HoldfastError } from "../../../core/values/errors.js";

export type Judgement = "good" | "bad" | "skipped";

export type Found =
  | {
      readonly is: "found";
      readonly bad: number;
      readonly good: number | undefined;
      readonly skipped: readonly number[];
    }
  /** The newest is good: there is nothing to find. */
  | { readonly is: "all-good" }
  | { readonly is: "unknown" }
  | { readonly is: "empty" };

/**
 * The first that is bad, between one that is known to be good and one that is known to be bad; what
 * is not known is tried. Those that cannot be told are passed over: others near them are tried, and
 * what is left between good and bad is answered as `skipped`.
 */
export async function firstBad(
  count: number,
  known: { readonly good?: number | undefined; readonly bad?: number | undefined },
  judge: (at: number) => Promise<Judgement>,
): Promise<Found> {
  if (count === 0) return { is: "empty" };
  const untold = new Set<number>();
  const tell = async (at: number): Promise<Judgement> => {
    const judgement = await judge(at);
    if (judgement === "skipped") untold.add(at);
    return judgement;
  };
  let high = known.bad ?? count - 1;
  if (known.bad === undefined) {
    const last = await tell(high);
    if (last === "good") return { is: "all-good" };
    if (last === "skipped") return { is: "unknown" };
  }
  let low = known.good ?? -1;
  if (low >= high)
    throw new HoldfastError(
      "INVALID_OPTION",
      "The checkpoint that is good must come before the one that is bad.",
      { path: "--good" },
    );
  if (known.good === undefined && high > 0) {
    const first = await tell(0);
    if (first === "bad") return { is: "found", bad: 0, good: undefined, skipped: [] };
    if (first === "good") low = 0;
  }
  for (;;) {
    const middle = (low + high) / 2;
    const left = [];
    for (let at = low + 1; at < high; at++) if (!untold.has(at)) left.push(at);
    // The one nearest to the middle that was not tried.
    const at = left.reduce<number | undefined>(
      (best, one) =>
        best === undefined || Math.abs(one - middle) < Math.abs(best - middle) ? one : best,
      undefined,
    );
    if (at === undefined) break;
    const judgement = await tell(at);
    if (judgement === "good") low = at;
    else if (judgement === "bad") high = at;
  }
  const skipped = [...untold].filter((at) => at > low && at < high).sort((a, b) => a - b);
  return { is: "found", bad: high, good: low < 0 ? undefined : low, skipped };
}
