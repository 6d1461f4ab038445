/**
 * Calls of the file system, exchanged for others: that fail, or in between which something else
 * happens.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const real = new Map<string, unknown>();
const calls = fs as unknown as Record<string, unknown>;

export const failure = (code: string): Error =>
  Object.assign(new Error(`${code}: made up`), { code });

/** Exchanges a call of the file system for another, until it is mended. Answers the real one. */
export function instead(
  name: string,
  call: (...args: never[]) => unknown,
): (...args: unknown[]) => unknown {
  if (!real.has(name)) real.set(name, calls[name]);
  calls[name] = call;
  syncBuiltinESMExports();
  return real.get(name) as (...args: unknown[]) => unknown;
}

export function mend(): void {
  for (const [name, call] of real) calls[name] = call;
  syncBuiltinESMExports();
}
