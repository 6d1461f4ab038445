/**
 * Ctrl-C and SIGTERM. The exit code says which of the two it was, as shells do: 128 and the number
 * of the signal.
 */

export const EXIT_BY = { SIGINT: 130, SIGTERM: 143 } as const;
type Stop = keyof typeof EXIT_BY;

/**
 * For commands that ask for it: the first signal stops them between two steps, the second at once.
 */
export class Stopping {
  #stop: AbortController | undefined;
  #by: Stop | undefined;

  get signal(): AbortSignal {
    if (this.#stop === undefined) {
      const stop = new AbortController();
      this.#stop = stop;
      for (const name of Object.keys(EXIT_BY) as Stop[])
        process.on(name, () => {
          if (stop.signal.aborted) process.exit(EXIT_BY[name]);
          this.#by = name;
          stop.abort();
        });
    }
    return this.#stop.signal;
  }

  /** The signal that stopped the command, if one did. */
  get by(): Stop | undefined {
    return this.#by;
  }
}

const CLEANLY = { SIGHUP: 129, ...EXIT_BY } as const;
let isClean = false;

/**
 * Let a signal end the process by its exit handlers. They remove the copy that a look at a
 * read-only store makes; without them, it would stay among the temporary files. A signal that a
 * command handles is left to that command.
 */
export function endCleanly(): void {
  if (isClean) return;
  isClean = true;
  for (const [name, code] of Object.entries(CLEANLY))
    process.on(name, () => {
      if (process.listenerCount(name) === 1) process.exit(code);
    });
}
