/**
 * Tells those who follow a session that it may have changed.
 *
 * However many follow one session, the store is asked once to watch it. However many follow in all,
 * one timer has them look now and then, for changes by other processes of which the store gives no
 * hint.
 */
import type { Store } from "../../store/port.js";
import { onAbort } from "../util/abort-signals.js";

/** How long another process's change may take to be seen where the store gives no hint of it. */
const POLL_MS = 1_000;

/** One follower. What happens while it looks is not slept over: it says when it begins to look. */
export class Watcher {
  readonly #following: Following;
  #changed = false;
  #wake: (() => void) | undefined;

  constructor(following: Following) {
    this.#following = following;
  }

  tell(): void {
    this.#changed = true;
    this.#wake?.();
  }

  looks(): void {
    this.#changed = false;
  }

  /**
   * Resolves when there was a change since it last looked, at the next poll, after `ms`, or when
   * the signal aborts.
   */
  async wait(signal: AbortSignal, ms = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#changed || signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        unlink();
        this.#following.slept(this);
        this.#wake = undefined;
        resolve();
      };
      // A poll comes first, unless less time is left than that.
      const timer = ms < POLL_MS ? setTimeout(done, ms) : undefined;
      const unlink = onAbort(signal, done);
      this.#wake = done;
      this.#following.sleeps(this);
    });
  }

  leave(): void {
    this.#following.leave(this);
  }
}

interface Following {
  sleeps(watcher: Watcher): void;
  slept(watcher: Watcher): void;
  leave(watcher: Watcher): void;
}

export class Watchers {
  readonly #store: Pick<Store, "watch">;
  readonly #following = new Map<
    string,
    { readonly followers: Set<Watcher>; readonly unwatch: () => void }
  >();
  readonly #all = new Set<() => void>();
  readonly #asleep = new Set<Watcher>();
  #poll: NodeJS.Timeout | undefined;

  constructor(store: Pick<Store, "watch">) {
    this.#store = store;
  }

  follow(session: string): Watcher {
    const known = this.#following.get(session);
    const { followers } = known ?? this.#watch(session);
    const watcher = new Watcher({
      sleeps: (self) => this.#sleeps(self),
      slept: (self) => this.#slept(self),
      leave: (self) => {
        followers.delete(self);
        if (followers.size > 0) return;
        this.#following.get(session)?.unwatch();
        this.#following.delete(session);
      },
    });
    followers.add(watcher);
    return watcher;
  }

  #watch(session: string) {
    const followers = new Set<Watcher>();
    const unwatch = this.#store.watch(session, () => {
      for (const watcher of followers) watcher.tell();
    });
    const following = { followers, unwatch };
    this.#following.set(session, following);
    return following;
  }

  /** Keep the process alive while a follower waits: an event may still come. */
  #sleeps(watcher: Watcher): void {
    this.#asleep.add(watcher);
    this.#poll ??= setInterval(() => {
      for (const asleep of this.#asleep) asleep.tell();
    }, POLL_MS);
  }

  #slept(watcher: Watcher): void {
    this.#asleep.delete(watcher);
    if (this.#asleep.size > 0) return;
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  /** Called for every session that may have changed, by anybody here. Answers how to stop it. */
  followAll(wake: () => void): () => void {
    this.#all.add(wake);
    return () => this.#all.delete(wake);
  }

  changed(session: string): void {
    for (const wake of this.#all) wake();
    for (const watcher of this.#following.get(session)?.followers ?? []) watcher.tell();
  }

  wakeAll(): void {
    for (const session of [...this.#following.keys()]) this.changed(session);
  }
}
