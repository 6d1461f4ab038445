/**
 * The processor time that a call took, in milliseconds: on a busy machine the time by the clock
 * says nothing of the call.
 */
export function cpuMs(run: () => unknown): number {
  const began = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(began);
  return (user + system) / 1_000;
}
