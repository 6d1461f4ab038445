/**
 * For how long a process keeps the lock.
 *
 * TENURE-1  while another process waits for the lock, it is released between two changes, once its
 *           holder has had a turn.
 * TENURE-2  a process that has not written for a moment releases the lock unasked, also if it holds
 *           a session: it may be stopped, or be inside a tool that blocks it, when others ask. An
 *           agent that saves in a loop takes the lock once.
 * TENURE-3  work that goes on over several turns of the event loop, and relies on being the only
 *           writer, keeps the lock until it ends.
 */

/**
 * Taking the lock costs several syncs, so each holder may write for this long before it gives way.
 */
const TURN_MS = 20;
const IDLE_MS = 200;
const LOOK_EVERY_MS = 20;

export interface Tenancy {
  /** Whether another process waits for the lock. */
  readonly isWanted: () => boolean;
  /** Whether nothing is being written, so that the lock can be released. */
  readonly isIdle: () => boolean;
  readonly end: () => void;
}

/** A group of changes that has ended. */
export interface Group {
  /** TENURE-2: a change that was refused, or found nothing to do, is no reason to keep the lock. */
  readonly hasWritten: boolean;
}

export class Tenure {
  readonly #of: Tenancy;
  #timer: NodeJS.Timeout | undefined;
  #kept = 0;
  #began = 0;
  #wrote = 0;
  #looked = 0;

  constructor(of: Tenancy) {
    this.#of = of;
  }

  /** The lock was taken, or a turn begins only now. */
  begin(): void {
    this.stop();
    this.#began = this.#wrote = this.#looked = performance.now();
    // Never the reason that a process stays alive.
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
  }

  /** The lock was released, or the store is closed. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /**
   * TENURE-1, between two groups of changes. A loop of saves leaves timers no turn, so the time is looked
   * at here too.
   */
  ended({ hasWritten }: Group): void {
    const now = performance.now();
    if (hasWritten) this.#wrote = now;
    if (this.#timer === undefined || now - this.#looked < LOOK_EVERY_MS) return;
    this.#looked = now;
    this.#endIf(() => this.#isDue());
  }

  /** TENURE-3 */
  async keep<T>(run: () => Promise<T>): Promise<T> {
    this.#kept += 1;
    try {
      return await run();
    } finally {
      this.#kept -= 1;
    }
  }

  /** Releases the lock, or tries again at the next look. */
  end(): void {
    this.#endIf(() => true);
  }

  #look(): void {
    this.#endIf(() => this.#of.isIdle() && (this.#isDue() || this.#isOver()));
  }

  #endIf(isTime: () => boolean): void {
    try {
      if (isTime()) this.#of.end();
    } catch {
      // There are too many open files to look, or the directory cannot be written: the lock is
      // still held here.
    }
  }

  /** TENURE-1 */
  #isDue(): boolean {
    return this.#kept === 0 && performance.now() - this.#began >= TURN_MS && this.#of.isWanted();
  }

  /** TENURE-2 */
  #isOver(): boolean {
    return this.#kept === 0 && performance.now() - this.#wrote >= IDLE_MS;
  }
}
