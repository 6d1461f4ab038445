/**
 * Bound the inbox messages of a kind that wait in a session's inbox, without counting them for each
 * one.
 *
 * INBOXLIMIT-1  Inbox messages are counted before the first one, and again after every `STEP`. So a
 *               thousand inbox messages do not read a thousand inbox messages each, and each other
 *               process may pass the bound by `STEP` at most.
 * INBOXLIMIT-2  Those that are posted at the same moment wait for one count, and a count waits for
 *               those that are on their way: within a process the bound is exact.
 */
const STEP = 50;

export class InboxLimit {
  readonly #count: () => Promise<number>;
  /** How many more may be posted before they are counted again. */
  #left = 0;
  #counting: Promise<void> | undefined;
  readonly #onTheirWay = new Set<Promise<unknown>>();

  /** `count` tells for how many more there is room, and throws where there is none. */
  constructor(count: () => Promise<number>) {
    this.#count = count;
  }

  async post<T>(send: () => Promise<T>): Promise<T> {
    while (this.#left <= 0) {
      this.#counting ??= this.#recount().finally(() => {
        this.#counting = undefined;
      });
      await this.#counting;
    }
    this.#left -= 1;
    const sent = send();
    this.#onTheirWay.add(sent);
    try {
      return await sent;
    } finally {
      this.#onTheirWay.delete(sent);
    }
  }

  async #recount(): Promise<void> {
    await Promise.allSettled(this.#onTheirWay);
    this.#left = Math.min(STEP, await this.#count());
  }
}
