/**
 * Tells by its size and its times whether a file is still as it was.
 *
 * STAMP-1  a system takes the time of a change from a clock that goes in steps: of up to 10 ms on
 *          Linux before 6.13 and in ramfs, of whole seconds in old file systems. Two changes in one
 *          step have the same time. So a stamp counts only when that step is over.
 * STAMP-2  a stamp saves a reader a look into the file. A process that is about to write looks.
 */
import type { BigIntStats } from "node:fs";

/** Twice the longest step of a clock that counts parts of a second; and of one that does not. */
const STEP_MS = 20;
const LONG_STEP_MS = 4_000;
const SECOND_NS = 1_000_000_000n;

/**
 * Undefined where the file was changed a moment ago, or in the future: then it may change again
 * without another stamp.
 */
export function stampOf({ ino, size, ctimeNs, mtimeNs }: BigIntStats): string | undefined {
  const step = ctimeNs % SECOND_NS === 0n ? LONG_STEP_MS : STEP_MS;
  const isOver = Date.now() - Number(ctimeNs / 1_000_000n) >= step;
  return isOver ? `${ino} ${size} ${mtimeNs} ${ctimeNs}` : undefined;
}
