/** What ends calls that are open, or a turn, and the status that follows from it. */
import { acts, type Effect } from "../../core/effects/effect.js";
import { isUnderWay } from "../../core/sessions/status.js";
import { encode } from "../../core/values/json.js";
import type { Settlement } from "../records/rows.js";
import type { WorkingCopy } from "./working-copy.js";

/** Whether a turn is under way and is to go on, as far as the session's status says. */
export const isOpen = ({ fold: { status, inFlight, isCancelling } }: WorkingCopy): boolean =>
  inFlight.turn !== undefined && isUnderWay(status) && !isCancelling;

/** Ends what is under way. Nothing of it is made any more. */
export function cancel(work: WorkingCopy, reason: string): void {
  // Whether it goes on is decided by that.
  const { standstill } = work.fold.inFlight;
  if (standstill !== undefined) finish(work, standstill, { error: reason }, "denied", {});
  leaveInDoubt(work);
  work.event("cancel", reason);
}

/**
 * Nobody goes on with this session by itself: of calls that have begun, somebody must say what
 * became of them, unless they say it themselves.
 */
export function leaveInDoubt(work: WorkingCopy): void {
  for (const effect of work.fold.inFlight.open)
    if (effect.phase === "begun" && acts(effect))
      work.inFlight({ effect: { id: effect.id, is: "doubt", inside: true } });
  restate(work);
}

/** Who decided, and which time. */
interface Decided {
  readonly by?: string;
  readonly asked?: number;
}

export function settle(work: WorkingCopy, effect: Effect, as: Settlement, decided: Decided): void {
  if (effect.whole) return settleWhole(work, effect, as, decided);
  if ("retry" in as)
    work.inFlight({ effect: { id: effect.id, is: "retry", ...decidedIn(decided) } });
  else finish(work, effect, as, "output" in as ? "ok" : "error", decided);
}

const decidedIn = ({ by, asked }: Decided): Decided => ({
  ...(by !== undefined && { by }),
  ...(asked !== undefined && { asked }),
});

/** It may go on from where it stands; or, with an error, it is not to go on here. */
function settleWhole(work: WorkingCopy, effect: Effect, as: Settlement, decided: Decided): void {
  if (!("error" in as))
    return finish(work, effect, { output: "output" in as ? as.output : null }, "ok", decided);
  finish(work, effect, as, "error", decided);
  cancel(work, as.error);
}

export function finish(
  work: WorkingCopy,
  { id }: Effect,
  as: { readonly output: unknown } | { readonly error: string; readonly happened?: true },
  outcome: "ok" | "error" | "denied",
  decided: Decided,
): void {
  const body = encode("output" in as ? as.output : as.error, "output");
  const happened = "error" in as && as.happened && { happened: as.happened };
  work.inFlight({ effect: { id, is: "done", outcome, ...decidedIn(decided), ...happened } }, body);
}

/**
 * The status that follows from the calls that are open, and when there is something to do: in-doubt
 * outranks waiting outranks in-progress.
 */
export function restate(work: WorkingCopy): void {
  const { status, reason, inFlight, isCancelling } = work.fold;
  if (isUnderWay(status)) {
    const phases = new Set(inFlight.open.map(({ phase }) => phase));
    const target = phases.has("doubt")
      ? "in-doubt"
      : phases.has("waiting")
        ? "waiting"
        : "in-progress";
    if (target !== status && status !== "in-progress" && target !== "in-doubt")
      work.event("settle");
    if (isCancelling && target !== "in-doubt") work.event("cancel", reason);
    else if (target !== status && target !== "in-progress")
      work.event(target === "in-doubt" ? "doubt" : "wait");
  }
  work.redue();
}
