/**
 * The numbers of documents. They rise in the order of making, and none is used twice.
 *
 * DOCNO-1  documents/last.json holds a number that no document is above. It is written before a
 *          document gets a higher one, some numbers ahead, so that few documents pay for it. So the
 *          next number is known without a look at any document.
 * DOCNO-2  a process that takes the lock over goes on behind that number, and does not ask how many
 *          of those before it were used: there may be gaps.
 * DOCNO-3  where the file does not say so (it is damaged or gone), all documents are looked at,
 *          once.
 */
import { join } from "node:path";
import { sealedText, unsealed } from "../files/checksummed-json.js";
import { putFile, readFile } from "../files/files.js";

export const LAST = "last.json";
const AHEAD = 100;

interface Told {
  readonly no: number;
}

export class DocNumbers {
  readonly #path: string;
  /** The highest number of all documents there are, by looking at them. */
  readonly #highest: () => number;
  /** The last number that may be in use, and the one that the file holds. */
  #known: { last: number; told: number } | undefined;

  constructor(directory: string, highest: () => number) {
    this.#path = join(directory, LAST);
    this.#highest = highest;
  }

  /** Another process may have written since. */
  forget(): void {
    this.#known = undefined;
  }

  /** No document ever had a higher number. */
  get last(): number {
    return this.#read().last;
  }

  /** Before a document gets its number, or before one ends. */
  keep(no: number): void {
    const known = this.#read();
    const last = Math.max(known.last, no);
    if (last > known.told) {
      putFile(this.#path, sealedText({ no: last + AHEAD } satisfies Told));
      known.told = last + AHEAD;
    }
    known.last = last;
  }

  #read(): { last: number; told: number } {
    if (this.#known !== undefined) return this.#known;
    const text = readFile(this.#path)?.toString();
    const told = text === undefined ? undefined : unsealed<Told>(text);
    this.#known =
      told === undefined ? { last: this.#highest(), told: -1 } : { last: told.no, told: told.no };
    return this.#known;
  }
}
