/**
 * What sessions there are: a catalogue in memory, made from the sessions' files when a store is
 * opened, and a log by which processes tell each other which of these files change.
 *
 * CATALOG-1  a row with the ids of sessions is appended before their files change, and is not
 *            synced. So a change may come after its row: the files of the last row are asked again
 *            at every look.
 * CATALOG-2  the log is for processes that live. Where it is missing, or is not the one that was
 *            followed, all files are read again. What a power cut leaves of it misleads no process:
 *            those that read it have ended.
 * CATALOG-3  no row is overlooked. A reader believes the file's times only where they tell
 *            (STAMP-1). A process that has taken the lock looks into the file: it appends behind
 *            the last row.
 */
import { randomBytes } from "node:crypto";
import { closeSync, ftruncateSync, lstatSync } from "node:fs";
import { Unsure } from "../files/failures.js";
import { openFile, putFile, readRange, writeAll } from "../files/files.js";
import { stampOf } from "../files/stamps.js";
import type { SessionDoc } from "../sessions/session-file.js";
import { type Entry, entryOf, isSameEntry, SessionCatalog } from "./session-catalog.js";

/** The first row: a word of its own for each log, so that another in its place is told from it. */
const firstRow = (): Buffer => Buffer.from(`{"made":"${randomBytes(8).toString("hex")}"}\n`);
const FIRST_BYTES = firstRow().length;
const LINE_BREAK = 10;
/** One that is longer is begun anew by the next process that takes the lock. */
const MOST_BYTES = 1024 * 1024;

/** Up to where a log was followed. */
export interface Followed {
  readonly inode: number;
  readonly first: Buffer;
  size: number;
  /** The sessions of the last row. */
  last: readonly string[];
  /** How the file stood when it was last looked into, where that tells. */
  stamp: string | undefined;
}

export class SessionIndex {
  readonly #path: string;
  /** What a session's file says now; undefined where there is none, or it cannot be read. */
  readonly #docOf: (id: string) => SessionDoc | undefined;
  #catalogue = new SessionCatalog();
  #followed: Followed | undefined;
  #fd: number | undefined;

  constructor(path: string, docOf: (id: string) => SessionDoc | undefined) {
    this.#path = path;
    this.#docOf = docOf;
  }

  get catalogue(): SessionCatalog {
    return this.#catalogue;
  }

  // ---- reading

  /** Where the log ends: to be asked before all files are read, and followed from there on. */
  end(): Followed | undefined {
    const opened = openFile(this.#path);
    if (opened === undefined) return undefined;
    try {
      const bytes = readRange(opened.fd, 0, opened.stat.size);
      const size = bytes.lastIndexOf(LINE_BREAK) + 1;
      if (size < FIRST_BYTES) return undefined;
      const last = rowsIn(bytes.subarray(FIRST_BYTES, size))?.at(-1) ?? [];
      const first = bytes.subarray(0, FIRST_BYTES);
      return { inode: opened.stat.ino, first, size, last, stamp: undefined };
    } finally {
      closeSync(opened.fd);
    }
  }

  /** Begins anew, with what the sessions' files say. */
  reset(entries: Iterable<Entry>, followed: Followed | undefined): void {
    this.#catalogue = new SessionCatalog();
    for (const entry of entries) this.#catalogue.set(entry);
    this.#followed = followed;
  }

  /**
   * Sees what changed since. False: it is not known, and all files are to be read again (CATALOG-2).
   * `how`: the process that has taken the lock looks into the file in any case (CATALOG-3).
   */
  follow(how: "by its times" | "always" = "by its times"): boolean {
    if (this.#followOn(how)) return true;
    this.#followed = undefined;
    return false;
  }

  #followOn(how: "by its times" | "always"): boolean {
    const at = this.#followed;
    const found = at && lstatSync(this.#path, { throwIfNoEntry: false, bigint: true });
    if (at === undefined || found === undefined || Number(found.ino) !== at.inode) return false;
    const stamp = stampOf(found);
    if (how === "by its times" && stamp !== undefined && stamp === at.stamp) this.#ask(at.last);
    else if (!this.#grow(at)) return false;
    at.stamp = stamp;
    return true;
  }

  /** Reads on from where it ended, if it is still the same file. */
  #grow(at: Followed): boolean {
    const opened = openFile(this.#path);
    if (opened === undefined) return false;
    try {
      const { fd, stat } = opened;
      if (stat.ino !== at.inode || stat.size < at.size) return false;
      if (!readRange(fd, 0, FIRST_BYTES).equals(at.first)) return false;
      const bytes = readRange(fd, at.size, stat.size);
      const size = bytes.lastIndexOf(LINE_BREAK) + 1;
      const rows = rowsIn(bytes.subarray(0, size));
      if (rows === undefined) return false;
      this.#ask([...at.last, ...rows.flat()]);
      Object.assign(at, { size: at.size + size, last: rows.at(-1) ?? at.last });
      return true;
    } finally {
      closeSync(opened.fd);
    }
  }

  #ask(ids: readonly string[]): void {
    for (const id of new Set(ids)) this.correct(this.#docOf(id));
  }

  /** Believes a session's file, where the catalogue says something else. */
  correct(doc: SessionDoc | undefined): void {
    if (doc !== undefined && this.#isNews(entryOf(doc))) this.#catalogue.set(entryOf(doc));
  }

  #isNews(entry: Entry): boolean {
    const known = this.#catalogue.entry(entry.id);
    return known === undefined || !isSameEntry(known, entry);
  }

  // ---- writing

  /** For the writer alone, once all that there is is known. */
  beginWriting(): void {
    if ((this.#followed?.size ?? MOST_BYTES) >= MOST_BYTES) {
      // After a power cut it may be gone again: then there is none who has followed it (CATALOG-2).
      putFile(this.#path, firstRow(), { lasting: false });
      this.#followed = this.end();
    }
    this.close();
    const opened = openFile(this.#path, "write");
    if (opened === undefined || this.#followed === undefined)
      throw new Error(`${this.#path} is gone`);
    this.#fd = opened.fd;
    // The beginning of a row that a killed process left.
    if (opened.stat.size > this.#followed.size) ftruncateSync(opened.fd, this.#followed.size);
  }

  /**
   * Says what will be once the change that is under way is made. Answers what to call when it is.
   */
  announce(docs: readonly SessionDoc[]): () => void {
    const entries = docs.map(entryOf).filter((entry) => this.#isNews(entry));
    if (entries.length > 0) this.#append(entries.map(({ id }) => id));
    return () => {
      for (const entry of entries) this.#catalogue.set(entry);
    };
  }

  #append(ids: readonly string[]): void {
    const [fd, at] = [this.#fd as number, this.#followed as Followed];
    const bytes = Buffer.from(`${JSON.stringify(ids)}\n`);
    try {
      writeAll(fd, bytes, at.size);
    } catch (error) {
      try {
        ftruncateSync(fd, at.size);
      } catch (failure) {
        throw new Unsure(failure);
      }
      throw error;
    }
    Object.assign(at, { size: at.size + bytes.length, last: [] });
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  /** It is unknown whether the last change was made: from here on all files are read again. */
  forsake(): void {
    this.close();
    this.#followed = undefined;
  }
}

/** The rows, each the ids of sessions. Undefined where one is damaged. */
function rowsIn(bytes: Buffer): readonly (readonly string[])[] | undefined {
  try {
    const rows: unknown = JSON.parse(`[${bytes.toString().trimEnd().replaceAll("\n", ",")}]`);
    const isOurs = (row: unknown) =>
      Array.isArray(row) && row.every((id) => typeof id === "string");
    return (rows as unknown[]).every(isOurs) ? (rows as string[][]) : undefined;
  } catch {
    return undefined;
  }
}
