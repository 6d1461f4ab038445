/**
 * One read for all who ask for the same at the same moment. A change wakes every follower of a
 * session at once, and each looks at the same rows. A read that has begun is not joined: who asks
 * later must see what was written before it asked.
 */
export class SharedReads {
  readonly #asked = new Map<string, Promise<unknown>>();

  /** `key` says what is read: the same key is the same read. */
  share<T>(key: string, read: () => Promise<T>): Promise<T> {
    const asked = this.#asked.get(key) as Promise<T> | undefined;
    if (asked !== undefined) return asked;
    const reading = Promise.resolve().then(() => {
      this.#asked.delete(key);
      return read();
    });
    this.#asked.set(key, reading);
    return reading;
  }
}
