/**
 * Time slices for work that goes on beside that of others: steps of so many milliseconds, not of so
 * many rows, and a rest after each. A writer in this process waits for one step at most; one in
 * another process finds the store busy for the length of a step, looks again a millisecond later,
 * and then it is free.
 */
import { setImmediate as breathe, setTimeout as sleep } from "node:timers/promises";
import type { Store } from "../../store/port.js";

export interface TimeSliceOptions {
  /** What a step looks at, at least and at most, and at first. */
  readonly least: number;
  readonly most: number;
  readonly first: number;
  /** Whether others have to wait while a step lasts, and are given time in between. */
  readonly rests: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Whether its rests keep the process alive; they do by default. */
  readonly idle?: boolean | undefined;
}

/**
 * How long a step should take: where it keeps writers waiting, and where only its own answers are
 * waited for.
 */
const STEP_MS = { here: 1, away: 40 };
/** A rest, by how long the step took. */
const REST = { times: 2, least: 2, most: 40 };

export class TimeSlice {
  readonly #options: TimeSliceOptions;
  readonly #stepMs: number;
  readonly #sleeps: boolean;
  #size: number;
  #rest: number | undefined;

  constructor(
    { traits: { oneMachine, shared } }: Pick<Store, "traits">,
    options: TimeSliceOptions,
  ) {
    this.#options = options;
    this.#stepMs = oneMachine ? STEP_MS.here : STEP_MS.away;
    this.#sleeps = oneMachine && shared && options.rests;
    this.#size = options.first;
  }

  /**
   * Runs the next step once others have had their time, and makes the one after it larger or
   * smaller by how long it takes.
   */
  async step<T>(run: (size: number) => Promise<T>): Promise<T> {
    const { least, most, signal, idle } = this.#options;
    if (this.#rest !== undefined)
      await (this.#sleeps ? sleep(this.#rest, undefined, { ref: idle !== true }) : breathe());
    signal?.throwIfAborted();
    const begun = performance.now();
    const answer = await run(this.#size);
    const took = performance.now() - begun;
    // By half or to the double at most: one step that something else held up says little about the
    // next.
    const fits = Math.round(this.#size * Math.min(2, Math.max(0.5, this.#stepMs / took)));
    this.#size = Math.min(most, Math.max(least, fits));
    this.#rest = Math.min(REST.most, Math.max(REST.least, took * REST.times));
    return answer;
  }
}

/**
 * Where every step goes over all of the store, there are few: blobs at once, branches and saves
 * some hundreds at a time.
 */
export const IN_BULK = { blobs: 100_000, branches: 1_000, saves: 250 };

export const fixed = (size: number) => ({ least: size, most: size, first: size });
