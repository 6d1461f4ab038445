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
