/**
 * Runs synchronous work with a bound on its time, also inside one match of a regular expression.
 *
 * WITHIN-1  work that takes longer is ended, and `TimeUp` is thrown. It is ended at any point, and
 *           its `finally` blocks do not run: give it only work that changes nothing, or changes
 *           what is thrown away with it. Time for which the process had no processor does not
 *           count: such work is tried again, and so must give the same each time. After four tries
 *           it is ended all the same.
 * WITHIN-2  inside of a bound there is no other: the outer one counts.
 *
 * A bound costs a thread for its time, 50 to 100 µs: put one around many small pieces of work, not
 * around each.
 */
import { type Context, createContext, Script } from "node:vm";
import { readable } from "./thrown.js";

export class TimeUp extends Error {
  override readonly name = "TimeUp";
}

/**
 * Nothing but this script runs there: the work that it calls is a function of ours, and sees what
 * it always sees.
 */
const script = new Script("work()", { filename: "holdfast:within" });
let context: (Context & { work?: () => unknown }) | undefined;
let isInside = false;

const TRIES = 4;
/**
 * With less processor time than this share of its bound, work was kept waiting by other processes.
 */
const BUSY = 0.8;

export function within<T>(ms: number, work: () => T): T {
  if (isInside) return work();
  context ??= createContext(Object.create(null));
  context.work = work;
  isInside = true;
  const began = process.cpuUsage();
  try {
    for (let tries = 1; ; tries++) {
      try {
        return script.runInContext(context, { timeout: Math.ceil(ms), displayErrors: false }) as T;
      } catch (error) {
        // An error of that other realm: one that the work throws is passed on, be it unreadable.
        if (
          readable(error) !== error ||
          (error as NodeJS.ErrnoException | null)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT"
        )
          throw error;
        const { user, system } = process.cpuUsage(began);
        if (tries === TRIES || (user + system) / 1_000 > BUSY * ms)
          throw new TimeUp(`It took longer than ${Math.ceil(ms)} ms.`);
      }
    }
  } finally {
    isInside = false;
    delete context.work;
  }
}
