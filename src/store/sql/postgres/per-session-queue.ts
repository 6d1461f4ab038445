/**
 * Keeps what is done to one session in the order in which it was asked for. Sessions do not wait
 * for each other.
 */
export class PerSessionQueue {
  readonly #last = new Map<string, Promise<void>>();

  /** The last thing that was asked for on a session and has not ended. */
  last(session: string): Promise<void> | undefined {
    return this.#last.get(session);
  }

  /** Runs once all that was asked for before on these sessions has ended, however it did. */
  take<T>(sessions: readonly string[], run: () => Promise<T>): Promise<T> {
    const before = sessions.flatMap((session) => this.#last.get(session) ?? []);
    const result = before.length === 0 ? run() : Promise.all(before).then(run);
    this.#remember(sessions, result);
    return result;
  }

  #remember(sessions: readonly string[], result: Promise<unknown>): void {
    const ended: Promise<void> = result.then(
      () => this.#forget(sessions, ended),
      () => this.#forget(sessions, ended),
    );
    for (const session of sessions) this.#last.set(session, ended);
  }

  #forget(sessions: readonly string[], ended: Promise<void>): void {
    for (const session of sessions)
      if (this.#last.get(session) === ended) this.#last.delete(session);
  }
}
