/**
 * One attempt at a call: run with a deadline, until it answers, throws, waits for something, runs
 * out of time, or must stop.
 */
import { NotDone, type WaitsFor } from "../../core/effects/effect.js";
import type { StoreContext } from "../journal/store-context.js";
import { onAbort } from "../util/abort-signals.js";
import { answerOf, readable, UnreadableAnswer } from "../util/thrown.js";

export type Attempted =
  | { readonly is: "answered"; readonly value: unknown }
  /** The tool says that nothing happened. */
  | { readonly is: "not-done"; readonly error: unknown }
  /**
   * What became of it is not known. `inside`: it may still be at it. `final`: it has answered, so
   * that making it again finds out nothing.
   */
  | {
      readonly is: "unknown";
      readonly error: unknown;
      readonly inside: boolean;
      readonly final?: true;
    }
  | { readonly is: "suspended"; readonly waits: WaitsFor }
  /** `begun`: what became of it is not known. */
  | { readonly is: "stopped"; readonly begun: boolean };

export interface Attempting {
  readonly id: string;
  /** For how long it may still last. */
  readonly leftMs: number;
  /** Aborts when the run is to stop. */
  readonly stop: AbortSignal;
  readonly run: (handle: Handle) => unknown;
  /** Told what it answers after nobody waited any more. */
  readonly late: (answered: Extract<Attempted, { is: "answered" | "not-done" }>) => Promise<void>;
}

export interface Handle {
  readonly signal: AbortSignal;
  /** While something else is waited for that has its own limits, this call's time stands still. */
  outOfTime<T>(wait: () => Promise<T>): Promise<T>;
  /** Ends the attempt, to be begun again once something has come. What called it never goes on. */
  suspend(waits: WaitsFor): Promise<never>;
  /** Ends the attempt because the run is being stopped. What called it never goes on. */
  stopped(): Promise<never>;
}

/** For how long a call that was told to stop may take to end by itself. */
const GRACE_MS = 1_000;

export async function attempt(
  ctx: StoreContext,
  { id, leftMs, stop, run, late }: Attempting,
): Promise<Attempted> {
  if (stop.aborted) return { is: "stopped", begun: false };
  // Others take it for ended by now, and may have done something about it: a process that was
  // stopped meanwhile must not begin it.
  if (leftMs <= 0)
    return {
      is: "not-done",
      error: new NotDone("The call was not made: its time was up before it could begin."),
    };
  let leave: (attempted: Attempted) => void = () => {};
  const other = new Promise<Attempted>((resolve) => {
    leave = resolve;
  });
  // Most calls never look at their signal, and making one takes longer than the rest of this.
  let abort: AbortController | undefined;
  let aborted: { readonly reason: unknown } | undefined;
  const handle: Handle = {
    get signal() {
      abort ??= new AbortController();
      if (aborted !== undefined) abort.abort(aborted.reason);
      return abort.signal;
    },
    suspend,
    stopped: giveUp,
    outOfTime,
  };
  const end = (reason: unknown) => {
    aborted = { reason };
    abort?.abort(reason);
  };
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  let spentMs = 0;
  let since = performance.now();
  let waits = 0;
  async function outOfTime<T>(wait: () => Promise<T>): Promise<T> {
    waits += 1;
    if (waits === 1) {
      spentMs += performance.now() - since;
      clearTimeout(timer);
    }
    try {
      return await wait();
    } finally {
      waits -= 1;
      if (waits === 0 && !over) {
        since = performance.now();
        runOn();
      }
    }
  }
  const answer = answered(() => run(handle));
  enter(ctx, id);
  let isInside = true;
  const goesOut = () => {
    if (isInside) exit(ctx, id);
    isInside = false;
  };
  void answer.then(async (attempted) => {
    // What it answers too late is posted before it counts as gone: whoever looks in between must
    // not take it for unknown.
    if (over && (attempted.is === "answered" || attempted.is === "not-done")) await late(attempted);
    goesOut();
  });

  function suspend(waits: WaitsFor): Promise<never> {
    leave({ is: "suspended", waits });
    return new Promise(() => {});
  }
  let gaveUp = false;
  function giveUp(): Promise<never> {
    gaveUp = true;
    leave({ is: "stopped", begun: true });
    return new Promise(() => {});
  }
  let grace: NodeJS.Timeout | undefined;
  const stopped = () => {
    end(stop.reason);
    grace = setTimeout(() => leave({ is: "stopped", begun: true }), GRACE_MS);
  };
  const leaveStop = onAbort(stop, stopped);
  function runOn(): void {
    timer = setTimeout(
      () => {
        const error = new DOMException(
          `The call took longer than it may (${Math.ceil(leftMs)} ms).`,
          "TimeoutError",
        );
        end(error);
        leave({ is: "unknown", error, inside: true });
      },
      Math.max(0, leftMs - spentMs),
    );
  }
  if (waits === 0) runOn();
  const attempted = await Promise.race([answer, other]);
  over = true;
  clearTimeout(timer);
  clearTimeout(grace);
  leaveStop();
  // It never answers, and is not to be taken for one that is still at it.
  if (gaveUp) goesOut();
  if (attempted.is === "suspended") {
    // Nobody will take its answer: whatever it still holds on to, this is when to let go. It never
    // goes on.
    goesOut();
    end(new DOMException("The call waits for something, and will be begun again.", "AbortError"));
  }
  // Told to stop, it threw: that is how calls stop, and says nothing else.
  return stop.aborted && attempted.is === "unknown" ? { is: "stopped", begun: true } : attempted;
}

async function answered(run: () => unknown): Promise<Attempted> {
  try {
    return { is: "answered", value: await answerOf(run()) };
  } catch (thrown) {
    const error = readable(thrown);
    if (error instanceof NotDone) return { is: "not-done", error };
    return {
      is: "unknown",
      error,
      inside: false,
      ...(error instanceof UnreadableAnswer && { final: true }),
    };
  }
}

function enter({ running }: StoreContext, id: string): void {
  running.set(id, (running.get(id) ?? 0) + 1);
}

function exit({ running }: StoreContext, id: string): void {
  const left = (running.get(id) ?? 1) - 1;
  if (left > 0) running.set(id, left);
  else running.delete(id);
}
