/**
 * How much a client may have in progress at once. All clients share one thread and its memory:
 * without a bound, one that sends much delays the others, and makes the process grow.
 */
/** As many calls as are under way over stdio. */
export const MAX_REQUESTS = 256;
/** Two bodies of the largest size: while one is parsed, all others wait. */
export const MAX_BYTES = 32 * 1024 * 1024;

/** One request of a client. */
export interface Share {
  /**
   * Takes room for so many bytes of its body in all; false where the client's bodies would have too
   * many.
   */
  grow(this: void, bytes: number): boolean;
  /**
   * Keeps it until this is over as well: the body is read, the answer heard, each call made, also
   * of a client that is gone.
   */
  during(this: void, work: Promise<unknown>): void;
}

export class InProgress {
  readonly #of = new Map<string, { requests: number; bytes: number }>();

  /**
   * Begins a request that lasts as long as `work`, and what is named by `during`; undefined where
   * the client has too many.
   */
  begin(client: string, work: Promise<unknown>): Share | undefined {
    const used = this.#of.get(client) ?? { requests: 0, bytes: 0 };
    if (used.requests >= MAX_REQUESTS) return undefined;
    this.#of.set(client, used);
    used.requests += 1;
    let own = 0;
    let open = 0;
    const ended = () => {
      open -= 1;
      if (open > 0) return;
      used.requests -= 1;
      used.bytes -= own;
      if (used.requests === 0) this.#of.delete(client);
    };
    const share: Share = {
      grow(bytes) {
        const more = Math.max(0, bytes - own);
        if (used.bytes + more > MAX_BYTES) return false;
        used.bytes += more;
        own += more;
        return true;
      },
      during(another) {
        open += 1;
        void another.then(ended, ended);
      },
    };
    share.during(work);
    return share;
  }
}
