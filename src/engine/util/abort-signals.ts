/**
 * Listening to abort signals, by many at once and for a short while each. However many listen, a
 * signal has one listener of ours: Node warns of a leak where there are more than ten, and adding
 * and removing one takes longer than most of what is done in between.
 */
import { setMaxListeners } from "node:events";

/** One whose signal may be listened to by any number: callers do so as well. */
export function abortController(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

const listening = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when a signal aborts. Answers how to take that back. */
export function onAbort(signal: AbortSignal, end: () => void): () => void {
  let ends = listening.get(signal);
  if (ends === undefined) {
    const all = new Set<() => void>();
    ends = all;
    listening.set(signal, all);
    signal.addEventListener("abort", () => all.forEach((each) => each()), { once: true });
  }
  const ours = ends;
  ours.add(end);
  return () => ours.delete(end);
}

/**
 * A signal that aborts when either of two does. `AbortSignal.any` would leave a trace on one that
 * outlives it by far.
 */
export function linked(
  own: AbortSignal,
  other: AbortSignal | undefined,
): { readonly signal: AbortSignal; readonly unlink: () => void } {
  if (other === undefined || other === own) return { signal: own, unlink: () => {} };
  const controller = abortController();
  const links = [own, other].map((signal) => {
    const pass = () => controller.abort(signal.reason);
    if (signal.aborted) pass();
    return onAbort(signal, pass);
  });
  return { signal: controller.signal, unlink: () => links.forEach((unlink) => unlink()) };
}
