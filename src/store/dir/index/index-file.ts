/**
 * The index: a file that says what there is, so that a store is opened without reading every
 * session. All of it can be made again.
 *
 * X1  a row is appended before the change it speaks of is made, and is not synced. So only the last
 *     row may speak of what never was: of the sessions it names, the files are asked. A row that
 *     takes back what never was is written after that, and is believed.
 * X2  after a power cut rows may be missing: an index that was not closed, of another boot than
 *     this, is made again. So is one with a row that is not whole.
 * X3  readers follow it as it grows, and begin again when it was exchanged.
 * X4  a session is listed once, however often rows announce it, take it back and announce it again.
 * X5  no row is overlooked. A reader believes the file's times only where they tell (STAMP-1). A
 *     process that has taken the lock looks into the file: it appends behind the last row, and
 *     would write over one that it does not know.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, ftruncateSync, lstatSync } from "node:fs";
import { bootId } from "../../machine.js";
import { Unsure } from "../files/failures.js";
import {
  openFile,
  putOpenFile,
  readPieces,
  readRange,
  syncFile,
  writeAll,
} from "../files/files.js";
import { stampOf } from "../files/stamps.js";
import type { SessionDoc } from "../sessions/session-file.js";
import { Catalogue, type Entry, entryOf, isSameEntry } from "./catalogue.js";
import { type IndexRow, indexRow, isEntries, parseIndexRow } from "./index-rows.js";

const FORMAT = 1;
const LINE_BREAK = 10;
/** A small index is not worth rewriting. */
const COMPACT_FROM = 64 * 1024;

interface Read {
  readonly catalogue: Catalogue;
  /** The entries of the last row. */
  last: readonly Entry[];
  inode: number;
  size: number;
  /**
   * How the file stood when it was last looked into, where that tells; and its first and last rows.
   */
  stamp: string | undefined;
  first: Buffer;
  end: Buffer;
  /**
   * How many entries were read, older ones of the same sessions too; and rows that say something
   * else.
   */
  rows: number;
  boot: string;
  closed: boolean;
}

const nothingRead = (): Read => ({
  catalogue: new Catalogue(),
  last: [],
  inode: 0,
  size: 0,
  stamp: undefined,
  first: Buffer.alloc(0),
  end: Buffer.alloc(0),
  rows: 0,
  boot: "",
  closed: false,
});

export class IndexFile {
  readonly #path: string;
  readonly #store: string;
  /** What a session's file says now; undefined where there is none, or it cannot be read. */
  readonly #docOf: (id: string) => SessionDoc | undefined;
  #read = nothingRead();
  /** A file that was found not to be good enough: it need not be read again. */
  #rejected = { inode: 0, size: 0 };
  #fd: number | undefined;

  constructor(path: string, store: string, docOf: (id: string) => SessionDoc | undefined) {
    this.#path = path;
    this.#store = store;
    this.#docOf = docOf;
  }

  get catalogue(): Catalogue {
    return this.#read.catalogue;
  }

  // ---- reading

  /**
   * Reads it from the beginning. False: it is not there, or cannot be relied on (X2); then what was
   * known before stands.
   */
  load(): boolean {
    const opened = openFile(this.#path);
    if (opened === undefined) return false;
    const { ino: inode, size } = opened.stat;
    const before = this.#read;
    try {
      if (this.#rejected.inode === inode && this.#rejected.size === size) return false;
      this.#read = { ...nothingRead(), inode };
      const isWhole = this.#take(opened.fd, size);
      const { closed, boot } = this.#read;
      if (isWhole && (closed || (boot === bootId() && boot !== ""))) {
        this.#askLast();
        return true;
      }
    } catch (error) {
      // X2: else the next look would follow a file that was never checked.
      this.#read = { ...before, inode: 0 };
      throw error;
    } finally {
      closeSync(opened.fd);
    }
    this.#rejected = { inode, size };
    this.#read = { ...before, inode: 0 };
    return false;
  }

  /** X3, X5: for a reader. False: it has to be loaded, or made again. */
  follow(): boolean {
    const found = lstatSync(this.#path, { throwIfNoEntry: false, bigint: true });
    if (found === undefined || Number(found.ino) !== this.#read.inode) return false;
    // Inodes are used again, and what was announced is taken back: the same file and as long is not
    // the same.
    const stamp = stampOf(found);
    if (stamp === undefined || stamp !== this.#read.stamp) {
      if (!this.#grow()) return false;
      this.#read.stamp = stamp;
    }
    this.#askLast();
    return true;
  }

  /** X5: for a process that has taken the lock. False: it has to be made again. */
  catchUp(): boolean {
    if (this.#read.inode === 0 || !this.#grow()) return this.load();
    this.#askLast();
    return true;
  }

  /** Reads on from where it ended, if that is still what stands before it. */
  #grow(): boolean {
    const { inode, size, first, end } = this.#read;
    const opened = openFile(this.#path);
    if (opened === undefined) return false;
    try {
      if (opened.stat.ino !== inode || opened.stat.size < size) return false;
      const isSame = (bytes: Buffer, at: number) =>
        readRange(opened.fd, at, at + bytes.length).equals(bytes);
      if (!isSame(first, 0) || !isSame(end, size - end.length)) return false;
      return opened.stat.size === size || this.#take(opened.fd, opened.stat.size);
    } finally {
      closeSync(opened.fd);
    }
  }

  /**
   * Takes in what stands behind what was read, up to `to`, some rows at a time. False where a row
   * is not whole.
   */
  #take(fd: number, to: number): boolean {
    let rest: Buffer = Buffer.alloc(0);
    for (const piece of readPieces(fd, this.#read.size, to)) {
      const bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
      const taken = this.#takeRows(bytes);
      if (taken === undefined) return false;
      rest = bytes.subarray(taken);
    }
    return rest.length === 0 && this.#read.size > 0;
  }

  /**
   * Takes in rows up to the last line break, and answers where that is. Undefined where one is
   * damaged.
   */
  #takeRows(bytes: Buffer): number | undefined {
    const read = this.#read;
    let at = 0;
    for (let end = bytes.indexOf(LINE_BREAK); end >= 0; end = bytes.indexOf(LINE_BREAK, at)) {
      const row = parseIndexRow(bytes.subarray(at, end));
      if (row === undefined || (read.size === 0 && !this.#isOurs(row))) return undefined;
      this.#takeRow(row);
      read.end = Buffer.from(bytes.subarray(at, end + 1));
      if (read.size === 0) read.first = read.end;
      read.size += end + 1 - at;
      at = end + 1;
    }
    return at;
  }

  #isOurs(row: IndexRow): boolean {
    return "index" in row && row.index === FORMAT && row.store === this.#store;
  }

  #takeRow(row: IndexRow): void {
    const read = this.#read;
    // X1: another follows it, so the last row was meant.
    for (const entry of read.last) read.catalogue.set(entry);
    read.last = [];
    read.closed = "closed" in row;
    if ("boot" in row) read.boot = row.boot;
    read.rows += isEntries(row) ? row.length : 1;
    if (!isEntries(row)) return;
    read.last = row.filter((entry) => !isRetracted(entry));
    for (const entry of row) if (isRetracted(entry)) read.catalogue.set(entry);
  }

  /** X1 */
  #askLast(): void {
    for (const { id } of this.#read.last) this.correct(this.#docOf(id));
  }

  /** Believes a session's file, where the index says something else. Answers whether it did. */
  correct(doc: SessionDoc | undefined): boolean {
    if (doc === undefined) return false;
    const known = this.#read.catalogue.entry(doc.id);
    const entry = entryOf(doc);
    if (known !== undefined && isSameEntry(known, entry)) return false;
    this.#read.catalogue.set(entry);
    return true;
  }

  /** Begins anew, with what the sessions' files say. */
  reset(entries: Iterable<Entry>): void {
    this.#read = nothingRead();
    for (const entry of entries) this.#read.catalogue.set(entry);
  }

  // ---- writing

  /** For the writer alone. `isSound`: the file was read, and says what the catalogue does. */
  beginWriting({ isSound }: { readonly isSound: boolean }): void {
    const { last } = this.#read;
    if (!isSound || this.#isLong()) this.rewrite();
    else this.#openToWrite();
    if (last.some((entry) => !this.#isTrue(entry))) this.#correctLast(last);
    if (this.#read.closed || this.#read.boot !== bootId() || bootId() === "") {
      // X2: from here on it counts as not closed, also if the power fails before the first change.
      this.#append({ boot: bootId() });
      syncFile(this.#fd as number);
      this.#read.rows += 1;
    }
    this.#read = { ...this.#read, last: [], boot: bootId(), closed: false };
  }

  #isTrue(entry: Entry): boolean {
    const known = this.#read.catalogue.entry(entry.id);
    return known !== undefined && isSameEntry(entry, known);
  }

  /** The last row spoke of a change that was never made. */
  #correctLast(last: readonly Entry[]): void {
    this.#append(last.map(({ id }) => this.#read.catalogue.entry(id) ?? retracted(id)));
  }

  #openToWrite(): void {
    this.#close();
    const opened = openFile(this.#path, "write");
    if (opened === undefined) throw new Error(`${this.#path} is gone`);
    this.#fd = opened.fd;
    this.#read.inode = opened.stat.ino;
  }

  /** Says what will be once the change that is under way is made. Answers how to take it back. */
  announce(entries: readonly Entry[]): () => void {
    const { size, end } = this.#read;
    this.#append(entries);
    return () => {
      ftruncateSync(this.#fd as number, size);
      Object.assign(this.#read, { size, end });
    };
  }

  /** The change that was announced is made: from here on nothing may make it seem otherwise. */
  made(entries: readonly Entry[]): void {
    for (const entry of entries) this.#read.catalogue.set(entry);
    this.#read.rows += entries.length;
    if (!this.#isLong()) return;
    try {
      this.rewrite();
    } catch (error) {
      if (error instanceof Unsure) throw error;
      // There is no room for a second one now: the long one is as good.
    }
  }

  #append(row: IndexRow): void {
    const bytes = Buffer.from(indexRow(row));
    try {
      writeAll(this.#fd as number, bytes, this.#read.size);
    } catch (error) {
      this.#cutBack();
      throw error;
    }
    this.#read.size += bytes.length;
    this.#read.end = bytes;
  }

  #cutBack(): void {
    try {
      ftruncateSync(this.#fd as number, this.#read.size);
    } catch (error) {
      throw new Unsure(error);
    }
  }

  #isLong(): boolean {
    return this.#read.size > COMPACT_FROM && this.#read.rows > 2 * this.#read.catalogue.size;
  }

  /** Writes it anew, a row for each session. Answers the bytes that were saved. */
  rewrite(): number {
    const { catalogue, size } = this.#read;
    const made = randomBytes(6).toString("hex");
    const rows = [
      indexRow({ index: FORMAT, store: this.#store, made }),
      indexRow({ boot: bootId() }),
    ];
    for (const entry of catalogue.entries()) rows.push(indexRow([entry]));
    const bytes = Buffer.from(rows.join(""));
    const { fd, inode } = this.#exchange(bytes);
    const [first, end] = [rows[0], rows.at(-1)].map((row) => Buffer.from(row as string)) as [
      Buffer,
      Buffer,
    ];
    this.#read = {
      ...nothingRead(),
      catalogue,
      inode,
      size: bytes.length,
      first,
      end,
      rows: rows.length,
      boot: bootId(),
    };
    this.#close();
    this.#fd = fd;
    return Math.max(0, size - bytes.length);
  }

  /** Puts another file in its place. All that can fail but the last sync comes before that. */
  #exchange(bytes: Buffer): { readonly fd: number; readonly inode: number } {
    let inode = 0;
    const drafted = (fd: number) => {
      inode = fstatSync(fd).ino;
    };
    try {
      return { fd: putOpenFile(this.#path, bytes, { drafted }), inode };
    } catch (error) {
      // It stands there, and perhaps not for good. The file that is open here has no name any more:
      // nothing may be written to it.
      if (error instanceof Unsure) this.#close();
      throw error;
    }
  }

  /** For `compact`: rewrites where that frees something. */
  compact(): number {
    // One that was just written has two rows before its entries, and one that says which boot goes
    // on.
    return this.#fd === undefined || this.#read.rows <= this.#read.catalogue.size + 3
      ? 0
      : this.rewrite();
  }

  /** Says that all that was announced is in it, for good. */
  close(): void {
    if (this.#fd === undefined) return;
    this.#append({ closed: true });
    syncFile(this.#fd);
    this.#read.rows += 1;
    this.#read.closed = true;
    this.#close();
  }

  #close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  /** Ends without a word, as a kill would: the next one who opens it looks more closely. */
  abandon(): void {
    this.#close();
  }

  /**
   * The same, where it is unknown whether the last change was made: who reads on here reads all of
   * it again.
   */
  forsake(): void {
    this.#close();
    this.#read.inode = 0;
  }
}

const retracted = (id: string): Entry => ({
  id,
  no: 0,
  status: null,
  agent: null,
  due: null,
  archived: false,
  tags: [],
  lines: [],
  lastLine: 0,
  cut: [],
});

/**
 * Whether an entry says that the session was announced and never made. A session that was deleted
 * keeps its number.
 */
const isRetracted = ({ no }: Entry): boolean => no === 0;
