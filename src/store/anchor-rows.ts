/** The rows of an anchors file, as whoever compares them with a store reads them (ANCHOR-2). */
import { digest } from "../core/values/digest.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import type { TailAnchor } from "./port/copies.js";

/**
 * So many branches are looked for in the text; where more are asked for, all rows are put in order
 * first.
 */
const LOOKED_FOR = 8;

/**
 * The rows of the file. There may be very many of them, and few be asked for by whoever only has a
 * look: a row is found, and held against its digest, when it is asked for.
 */
export class AnchorRows {
  readonly #text: string;
  readonly #ours: string;
  /** How many rows there are, also of branches that were forgotten. */
  readonly count: number;
  #asked = 0;
  /** What was asked for and found, or not. */
  readonly #known = new Map<string, TailAnchor | undefined>();
  /** Where the rows of each branch begin. */
  #places: Map<string, number | number[]> | undefined;

  /** Of all branches, or of those that are `wanted`. */
  constructor(text: string, storeId: string, path: string, wanted?: ReadonlySet<string>) {
    this.#text = text;
    this.#ours = `${storeId} `;
    if (wanted !== undefined) this.#places = new Map();
    let count = 0;
    this.#eachRow((at) => {
      count += 1;
      if (!text.startsWith(this.#ours, at)) {
        if (anchorIn(this.#row(at)) !== undefined) throw exchanged(path);
      } else if (wanted !== undefined) {
        const branch = this.#branchAt(at);
        if (wanted.has(branch)) note(this.#places as Map<string, number | number[]>, branch, at);
      }
    });
    this.count = count;
  }

  /** How many branches there are anchors of. */
  get size(): number {
    return this.#all().size;
  }

  of(branch: string): TailAnchor | undefined {
    if (this.#known.has(branch)) return this.#known.get(branch);
    this.#asked += 1;
    const isLookedFor = this.#places === undefined && this.#asked <= LOOKED_FOR;
    const anchor = this.#furthest(isLookedFor ? this.#lookFor(branch) : this.#all().get(branch));
    this.#known.set(branch, anchor);
    return anchor;
  }

  *[Symbol.iterator](): Generator<TailAnchor> {
    for (const places of this.#all().values()) {
      const anchor = this.#furthest(places);
      if (anchor !== undefined) yield anchor;
    }
  }

  #eachRow(visit: (at: number) => void): void {
    for (let at = 0; at < this.#text.length; ) {
      const end = endOfRow(this.#text, at);
      if (end > at) visit(at);
      at = end + 1;
    }
  }

  #row(at: number): string {
    return this.#text.slice(at, endOfRow(this.#text, at));
  }

  #branchAt(at: number): string {
    const from = at + this.#ours.length;
    return this.#text.slice(from, this.#text.indexOf(" ", from));
  }

  #lookFor(branch: string): number[] {
    const places: number[] = [];
    for (let at = this.#text.indexOf(branch); at !== -1; at = this.#text.indexOf(branch, at + 1)) {
      const from = at - this.#ours.length;
      const isItsOwn =
        from >= 0 &&
        this.#text.startsWith(this.#ours, from) &&
        this.#text[at + branch.length] === " ";
      if (isItsOwn && (from === 0 || this.#text[from - 1] === "\n")) places.push(from);
    }
    return places;
  }

  #all(): ReadonlyMap<string, number | number[]> {
    if (this.#places !== undefined) return this.#places;
    const all = new Map<string, number | number[]>();
    const forgotten = new Set<string>();
    this.#eachRow((at) => {
      if (!this.#text.startsWith(this.#ours, at)) return;
      const branch = this.#branchAt(at);
      note(all, branch, at);
      if (this.#text.startsWith(" 0 ", at + this.#ours.length + branch.length))
        forgotten.add(branch);
    });
    for (const branch of forgotten)
      if (this.#furthest(all.get(branch)) === undefined) all.delete(branch);
    this.#places = all;
    return all;
  }

  #furthest(places: number | readonly number[] = []): TailAnchor | undefined {
    return typeof places === "number"
      ? furthest([this.#row(places)])
      : furthest(places.map((at) => this.#row(at)));
  }
}

function note(places: Map<string, number | number[]>, branch: string, at: number): void {
  const before = places.get(branch);
  if (before === undefined) places.set(branch, at);
  else if (typeof before === "number") places.set(branch, [before, at]);
  else before.push(at);
}

function endOfRow(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

/**
 * What rows of one branch come to: a process that was slower to write may have known less, and one
 * may have said that it is forgotten.
 */
export function furthest(rows: Iterable<string>): TailAnchor | undefined {
  let found: TailAnchor | undefined;
  for (const row of rows) {
    const anchor = anchorIn(row);
    if (anchor?.seq === 0) found = undefined;
    else if (anchor !== undefined && anchor.seq >= (found?.seq ?? 0)) found = anchor;
  }
  return found;
}

const exchanged = (path: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The anchors in ${quote(path)} belong to another store: a file, or its write-ahead log, was exchanged. Put back what belongs together, or delete the anchors to accept what is there.`,
  );

/** ANCHOR-2: what a row says, if it is whole. */
function anchorIn(row: string): TailAnchor | undefined {
  const [store, branch, seq, check, sum] = row.split(" ");
  if (
    store === undefined ||
    branch === undefined ||
    sum === undefined ||
    sum !== sumOf(row.slice(0, -sum.length))
  )
    return undefined;
  return { branch, seq: Number(seq), check: check ?? "" };
}

/** A row ends with a digest of itself. */
export const sumOf = (text: string): string => digest(text).slice(0, 16);
