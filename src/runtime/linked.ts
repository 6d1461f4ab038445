/** A signal that aborts when either of two does. Unlike `AbortSignal.any`, it leaves nothing behind on one that outlives it by far. */
export function linked(own: AbortSignal, other: AbortSignal | undefined): { readonly signal: AbortSignal; readonly unlink: () => void } {
  if (other === undefined || other === own) return { signal: own, unlink: () => {} };
  const controller = new AbortController();
  const links = [own, other].map((signal) => {
    const pass = () => controller.abort(signal.reason);
    if (signal.aborted) pass();
    else signal.addEventListener("abort", pass, { once: true });
    return () => signal.removeEventListener("abort", pass);
  });
  return { signal: controller.signal, unlink: () => links.forEach((unlink) => unlink()) };
}

/**
 * Those who want to know that a run is to stop, behind one listener: adding and removing one for every model call and every tool call takes
 * longer than most of what they do.
 */
export class Stop {
  readonly signal: AbortSignal;
  readonly #told = new Set<() => void>();

  constructor(signal: AbortSignal) {
    this.signal = signal;
    signal.addEventListener(
      "abort",
      () => {
        for (const tell of this.#told) tell();
      },
      { once: true },
    );
  }

  /** Calls back when it is time to stop. Answers how to take that back. */
  on(tell: () => void): () => void {
    this.#told.add(tell);
    return () => this.#told.delete(tell);
  }
}
