/**
 * Checks of what callers pass to an open store. Everything else is refused before it reaches a
 * store.
 */
import { isOfServer } from "../../core/values/address.js";
import { invalid, wholeNumber } from "../../core/values/check-options.js";
import { quote } from "../../core/values/errors.js";
import { typeName } from "../../core/values/ids.js";
import { openNumber, sealNumber } from "../../core/values/sealed-number.js";

export {
  callback,
  entriesIn,
  flag,
  invalid,
  listOf,
  oneOf,
  options,
  scopeOf,
  signalOf,
  wholeNumber,
} from "../../core/values/check-options.js";

/** One page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** Pass it as `cursor` to go on; absent at the end. */
  readonly next?: string;
}

/** Which page of a list is wanted. */
export interface PageOptions {
  /** How many items; 20 by default, 1,000 at most. */
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

/** Something of a page that cannot be shown. */
export interface Damaged {
  readonly id: string;
  readonly message: string;
}

const MAX_PAGE = 1_000;

export function limitOf(value: unknown, path: string, standard = 20): number {
  return value === undefined ? standard : wholeNumber(value, path, 1, MAX_PAGE);
}

/** A letter tells the cursors of one list from those of another. */
type Letter = "s" | "m" | "d" | "f" | "c";

/** The cursor for a number. With a key (`Store.cursorKey`), the number cannot be read off it. */
export const cursorAt = (no: number, letter: Letter, key?: string): string =>
  `${letter}${key === undefined ? no : sealNumber(no, letter, key)}`;

/** The number in a cursor that a list has given out. */
export function numberOf(cursor: unknown, letter: Letter, key?: string): number {
  const text = typeof cursor === "string" && cursor.startsWith(letter) ? cursor.slice(1) : "";
  const plain = /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : undefined;
  const no = key === undefined ? plain : openNumber(text, letter, key);
  if (no === undefined)
    throw invalid(
      "cursor",
      `${typeof cursor === "string" ? quote(cursor) : "it"} did not come from this list`,
    );
  return no;
}

/** A path in the file system that Node and SQLite take for the same. */
export function pathOf(value: unknown, path: string): string {
  if (typeof value !== "string") throw invalid(path, `a path is text, not ${typeName(value)}`);
  if (value === "") throw invalid(path, "the path is empty");
  if (value.includes("\0")) throw invalid(path, "the path holds a NUL character");
  if (!value.isWellFormed())
    throw invalid(path, "the path holds half a character (a lone surrogate)");
  // Not said again: a password may be in it.
  if (isOfServer(value))
    throw invalid(path, "it looks like the address of a server. Give the path of a file");
  return value;
}

export interface KeyOptions {
  /**
   * Names this call: the same key is the same call. Asked again, nothing is done, and the answer
   * says how what it made stands now. Known for a week at least.
   */
  readonly key?: string;
}
