/**
 * Anchors: where each line was known to end, kept in a side file. A store's own file cannot tell a tail that was lost (a truncated
 * log, an old copy put back) from one that was never written; an anchor can, up to when it was written.
 *
 * The file is text, one anchor a row with a digest of its own. It is only ever a witness: losing it loses nothing else, so nothing
 * fails because it cannot be written, except to cut what it speaks for.
 *
 * A1  a line that was deleted on purpose is not reported as lost, whichever process deleted it, and whenever any of them is killed.
 * A2  a row that was cut short or damaged says nothing, and takes no other row with it.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { digest } from "../core/digest.js";
import { HoldfastError, quote } from "../core/errors.js";
import type { Anchor } from "./port.js";

const EVERY_MS = 10_000;
/** Rows that may be there in vain. */
const SPARED = 1_000;
/** Of so many bytes and fewer no matter is made. */
const SMALL_BYTES = 64 * 1024;

const doublings = (bytes: number): number => Math.max(0, Math.floor(Math.log2(bytes / SMALL_BYTES)));

type End = Omit<Anchor, "line">;
/** Stands for "no witness any more". */
const FORGOTTEN: End = { seq: 0, check: "" };

export class Anchors {
  readonly #path: string;
  readonly #storeId: string;
  readonly #isGone: (line: string) => boolean;
  readonly #timer: NodeJS.Timeout;
  #fresh = new Map<string, End>();
  #writing: Promise<void> = Promise.resolve();

  /** `isGone` says of a line whether it, or its session, was deleted. */
  constructor(path: string, storeId: string, isGone: (line: string) => boolean) {
    this.#path = path;
    this.#storeId = storeId;
    this.#isGone = isGone;
    this.#timer = setInterval(() => void this.#write().catch(() => {}), EVERY_MS).unref();
  }

  note(line: string, seq: number, check: string): void {
    this.#fresh.set(line, { seq, check });
  }

  /** The last anchor of every line, or of each of these. */
  async read(of?: ReadonlySet<string>): Promise<WitnessRows> {
    await this.#write().catch(() => {});
    const text = await this.#text();
    return new WitnessRows(text, this.#storeId, this.#path, of);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write().catch(() => {});
  }

  async #text(): Promise<string> {
    try {
      return await withFile(this.#path, constants.O_RDONLY, whole);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
      throw new HoldfastError("IO", `The anchors beside the store could not be read (${quote(this.#path)}).`, {}, error);
    }
  }

  #write(): Promise<void> {
    const fresh = this.#fresh;
    if (fresh.size === 0) return this.#writing;
    this.#fresh = new Map();
    const written = this.#writing.then(
      () => this.#append(fresh),
      () => this.#append(fresh),
    );
    this.#writing = written.catch((error) => {
      // Kept for the next time, unless something newer is known by now.
      this.#fresh = new Map([...fresh, ...this.#fresh]);
      throw new HoldfastError("IO", `The anchors beside the store could not be written (${quote(this.#path)}).`, {}, error);
    });
    return this.#writing;
  }

  async #append(fresh: ReadonlyMap<string, End>): Promise<void> {
    const wanted = [...fresh].filter(([line]) => !this.#isGone(line));
    await this.#appendRows(wanted);
    // A1: a session that was deleted while its rows were being written leaves them without a line to witness for.
    await this.#appendRows(wanted.filter(([line]) => this.#isGone(line)).map(([line]) => [line, FORGOTTEN]));
  }

  async #appendRows(ends: readonly (readonly [string, End])[]): Promise<void> {
    if (ends.length === 0) return;
    // A2: a line of its own, also after a row that a kill cut short.
    const text = `\n${ends.map(([line, end]) => this.#row(line, end)).join("")}`;
    const before = await withFile(this.#path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, async (file) => {
      const { size } = await file.stat();
      await file.appendFile(text);
      return size;
    });
    // A look at all of it each time it has doubled: so it is never many times as long as it has to be, and seldom gone over.
    if (doublings(before + text.length) > doublings(before)) await this.#tidy().catch(() => {});
  }

  async #tidy(): Promise<void> {
    const text = await this.#text();
    const rows = new WitnessRows(text, this.#storeId, this.#path);
    if (rows.count > 2 * rows.size + SPARED) await this.#rewrite([...rows], text.length);
  }

  async #rewrite(anchors: readonly Anchor[], bytes: number): Promise<void> {
    const draft = `${this.#path}.${randomBytes(6).toString("hex")}.draft`;
    await writeFile(draft, anchors.map(({ line, ...end }) => this.#row(line, end)).join(""), { mode: 0o600, flag: "wx" });
    // Another process wrote meanwhile, perhaps that a line was deleted: better a long file than a false witness.
    if ((await stat(this.#path)).size === bytes) await rename(draft, this.#path);
    else await rm(draft);
  }

  #row(line: string, { seq, check }: End): string {
    const text = `${this.#storeId} ${line} ${seq} ${check} `;
    return `${text}${sumOf(text)}\n`;
  }
}

/** So many lines are looked for in the text; where more are asked for, all rows are put in order first. */
const LOOKED_FOR = 8;

/**
 * The rows of the file. There may be very many of them, and few be asked for by whoever only has a look: a row is found, and held against
 * its digest, when it is asked for.
 */
export class WitnessRows {
  readonly #text: string;
  readonly #ours: string;
  /** How many rows there are, also of lines that were forgotten. */
  readonly count: number;
  #asked = 0;
  /** What was asked for and found, or not. */
  readonly #known = new Map<string, Anchor | undefined>();
  /** Where the rows of each line begin. */
  #places: Map<string, number | number[]> | undefined;

  /** Of all lines, or of those that are `wanted`. */
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
        const line = this.#lineAt(at);
        if (wanted.has(line)) note(this.#places as Map<string, number | number[]>, line, at);
      }
    });
    this.count = count;
  }

  /** How many lines there are anchors of. */
  get size(): number {
    return this.#all().size;
  }

  of(line: string): Anchor | undefined {
    if (this.#known.has(line)) return this.#known.get(line);
    this.#asked += 1;
    const isLookedFor = this.#places === undefined && this.#asked <= LOOKED_FOR;
    const anchor = this.#furthest(isLookedFor ? this.#lookFor(line) : this.#all().get(line));
    this.#known.set(line, anchor);
    return anchor;
  }

  *[Symbol.iterator](): Generator<Anchor> {
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

  #lineAt(at: number): string {
    const from = at + this.#ours.length;
    return this.#text.slice(from, this.#text.indexOf(" ", from));
  }

  #lookFor(line: string): number[] {
    const places: number[] = [];
    for (let at = this.#text.indexOf(line); at !== -1; at = this.#text.indexOf(line, at + 1)) {
      const from = at - this.#ours.length;
      const isItsOwn = from >= 0 && this.#text.startsWith(this.#ours, from) && this.#text[at + line.length] === " ";
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
      const line = this.#lineAt(at);
      note(all, line, at);
      if (this.#text.startsWith(" 0 ", at + this.#ours.length + line.length)) forgotten.add(line);
    });
    for (const line of forgotten) if (this.#furthest(all.get(line)) === undefined) all.delete(line);
    this.#places = all;
    return all;
  }

  #furthest(places: number | readonly number[] = []): Anchor | undefined {
    return typeof places === "number" ? furthest([this.#row(places)]) : furthest(places.map((at) => this.#row(at)));
  }
}

function note(places: Map<string, number | number[]>, line: string, at: number): void {
  const before = places.get(line);
  if (before === undefined) places.set(line, at);
  else if (typeof before === "number") places.set(line, [before, at]);
  else before.push(at);
}

function endOfRow(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

/** What rows of one line come to: a process that was slower to write may have known less, and one may have said that it is forgotten. */
function furthest(rows: Iterable<string>): Anchor | undefined {
  let found: Anchor | undefined;
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

/** A2: what a row says, if it is whole. */
function anchorIn(row: string): Anchor | undefined {
  const [store, line, seq, check, sum] = row.split(" ");
  if (store === undefined || line === undefined || sum === undefined || sum !== sumOf(row.slice(0, -sum.length))) return undefined;
  return { line, seq: Number(seq), check: check ?? "" };
}

/** How far the anchors in a text say that a line has gone, or 0. */
export const anchoredSeq = (text: string, line: string): number =>
  furthest(text.split("\n").filter((row) => row.split(" ", 2)[1] === line))?.seq ?? 0;

const sumOf = (text: string): string => digest(text).slice(0, 16);

/** All of a file at once: in pieces, decoding takes longer than reading. Others may append to it meanwhile; that is read the next time. */
async function whole(file: FileHandle): Promise<string> {
  const bytes = Buffer.allocUnsafe((await file.stat()).size);
  let filled = 0;
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.toString("latin1", 0, filled);
}

/** Opens a file and nothing else: a FIFO in its place would be waited at for ever. */
async function withFile<T>(path: string, flags: number, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0), 0o600);
  try {
    if (!(await file.stat()).isFile()) throw new Error("it is not a file");
    return await use(file);
  } finally {
    await file.close();
  }
}
