/** Tells those who follow a session, in this process, that it may have changed. */
export class Watchers {
  readonly #waiting = new Map<string, Set<() => void>>();

  changed(session: string): void {
    const waiting = this.#waiting.get(session);
    if (waiting === undefined) return;
    this.#waiting.delete(session);
    for (const wake of waiting) wake();
  }

  /** Resolves at the next change in this process, after `ms`, or when the signal aborts. */
  wait(session: string, ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(session) ?? new Set();
      this.#waiting.set(session, waiting);
      const done = () => {
        clearTimeout(timer);
        waiting.delete(done);
        if (waiting.size === 0 && this.#waiting.get(session) === waiting) this.#waiting.delete(session);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      waiting.add(done);
      signal?.addEventListener("abort", done);
      if (signal?.aborted) done();
    });
  }

  wakeAll(): void {
    for (const session of [...this.#waiting.keys()]) this.changed(session);
  }
}
