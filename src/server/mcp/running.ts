/** Calls that are under way: a server that ends brings them to their end first. */
export class Running {
  readonly #calls = new Set<Promise<unknown>>();

  readonly began = (call: Promise<unknown>): void => {
    const over = call.then(
      () => {},
      () => {},
    );
    this.#calls.add(over);
    void over.then(() => this.#calls.delete(over));
  };

  /** Resolves when none is left, or the time is up. */
  async over(withinMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    const all = async () => {
      while (this.#calls.size > 0) await Promise.all(this.#calls);
    };
    await Promise.race([all(), late]);
    clearTimeout(timer);
  }
}
