/**
 * Copies of a store that Holdfast itself has put beside it. They hold what the store held then,
 * also what was redacted or deleted since.
 */
import { readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { quote } from "../../../../core/values/errors.js";
import { clearLeft, dropDraft, isDraftOf } from "./temp-files.js";

/** Between the name of a store and the time at which a restore put the store aside. */
export const REPLACED = ".replaced-";

/**
 * Removes drafts of killed restores. Names the copies that stay, in words: they are not this
 * store's to remove.
 */
export function copiesBeside(place: string): readonly string[] {
  const directory = dirname(place);
  const name = basename(place);
  clearLeft(directory, `${name}.`, dropDraft);
  const sides = readdirSync(directory).filter((other) => other.startsWith(name));
  const aside = sides.filter(
    (other) => other.startsWith(`${name}${REPLACED}`) && !/-(anchors|wal|shm)$/.test(other),
  );
  const drafts = sides.filter((other) => isDraftOf(name, other));
  return [
    ...aside.map(
      (other) =>
        `the store that a restore put aside: ${quote(join(directory, other))}. Delete it, with all that begins like it.`,
    ),
    ...drafts.map(
      (other) =>
        `a restore or backup that is being made: ${quote(join(directory, other))}. Run it again afterwards.`,
    ),
  ];
}
