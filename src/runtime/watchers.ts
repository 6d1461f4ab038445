/** Tells those who follow a session that it may have changed. */

/** One follower. What happens while it looks is not slept over: it says when it begins to look. */
export class Watcher {
  readonly #leave: (self: Watcher) => void;
  #changed = false;
  #wake: (() => void) | undefined;

  constructor(leave: (self: Watcher) => void) {
    this.#leave = leave;
  }

  tell(): void {
    this.#changed = true;
    this.#wake?.();
  }

  looks(): void {
    this.#changed = false;
  }

  /** Resolves when there was a change since it last looked, after `ms`, or when the signal aborts. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#changed || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        this.#wake = undefined;
        resolve();
      };
      const timer = setTimeout(done, ms);
      this.#wake = done;
      signal.addEventListener("abort", done);
    });
  }

  leave(): void {
    this.#leave(this);
  }
}

export class Watchers {
  readonly #following = new Map<string, Set<Watcher>>();
  readonly #all = new Set<() => void>();

  follow(session: string): Watcher {
    const followers = this.#following.get(session) ?? new Set();
    this.#following.set(session, followers);
    const watcher = new Watcher((self) => {
      followers.delete(self);
      if (followers.size === 0 && this.#following.get(session) === followers) this.#following.delete(session);
    });
    followers.add(watcher);
    return watcher;
  }

  /** Called for every session that may have changed, by anybody here. Answers how to stop it. */
  followAll(wake: () => void): () => void {
    this.#all.add(wake);
    return () => this.#all.delete(wake);
  }

  changed(session: string): void {
    for (const wake of this.#all) wake();
    for (const watcher of this.#following.get(session) ?? []) watcher.tell();
  }

  wakeAll(): void {
    for (const session of [...this.#following.keys()]) this.changed(session);
  }
}
