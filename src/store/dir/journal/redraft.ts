/**
 * A journal that is written anew while others, and other processes, go on appending to it (K3).
 * What it holds up to now is copied a little at a time into a draft, with other saves in the place
 * of some; at the end, and at once, what was appended meanwhile follows, and the files are
 * exchanged. Only the beginning and the end need the lock.
 */
import { closeSync, fdatasync, fdatasyncSync, fstatSync, lstatSync } from "node:fs";
import { setImmediate as breathe } from "node:timers/promises";
import {
  createFile,
  draftName,
  openToRead,
  readPieces,
  remove,
  renameDraft,
  writeAll,
} from "../files/files.js";

/**
 * A stretch of the file as it stands, damage too; or what stands there from now on, asked for when
 * its turn comes, and undefined where what it takes the place of is not what it should be.
 */
export type Piece =
  | { readonly from: number; readonly to: number }
  | { readonly text: (fd: number) => string | undefined };

/** So long at once, and then others have their turn. */
const AT_ONCE_MS = 1;
/** Some tenths of a millisecond. */
const COPIED_AT_ONCE = 256 * 1024;
/** What is left to sync at the end shall be little. */
const SYNCED_AT_ONCE = 8 * 1024 * 1024;

export class Redraft {
  readonly #path: string;
  readonly #fd: number;
  readonly #pieces: readonly Piece[];
  readonly #draft: string;
  readonly #made: number;
  #at = 0;
  #synced = 0;

  constructor(path: string, pieces: readonly Piece[]) {
    this.#path = path;
    this.#pieces = pieces;
    this.#draft = draftName(path);
    this.#made = createFile(this.#draft);
    try {
      // Its own: that of the journal is closed whenever many others are used.
      this.#fd = openToRead(path);
    } catch (error) {
      closeSync(this.#made);
      remove(this.#draft);
      throw error;
    }
  }

  /** The inode of the journal that is copied. */
  get inode(): number {
    return fstatSync(this.#fd).ino;
  }

  /**
   * Whether the draft stands where it was made: a process that scrubs the store removes it
   * (scrub.ts).
   */
  get isThere(): boolean {
    return lstatSync(this.#draft, { throwIfNoEntry: false })?.ino === fstatSync(this.#made).ino;
  }

  /** False where a piece is not to be had: then it is not put in place. */
  async copy(): Promise<boolean> {
    let since = performance.now();
    for (const piece of this.#pieces) {
      for (const bytes of this.#bytesOf(piece)) {
        if (bytes === undefined) return false;
        this.#put(bytes);
        if (performance.now() - since > AT_ONCE_MS) {
          await breathe();
          since = performance.now();
        }
        if (this.#at - this.#synced < SYNCED_AT_ONCE) continue;
        this.#synced = this.#at;
        await new Promise<void>((resolve, reject) =>
          fdatasync(this.#made, (error) => (error === null ? resolve() : reject(error))),
        );
      }
    }
    return true;
  }

  /** All of it at once. */
  copyNow(): boolean {
    for (const piece of this.#pieces) {
      for (const bytes of this.#bytesOf(piece)) {
        if (bytes === undefined) return false;
        this.#put(bytes);
      }
    }
    return true;
  }

  /**
   * Puts the draft in the place of the journal, with what stands behind `from` and before `to` of
   * it by now.
   */
  exchange(from: number, to: number): void {
    for (const bytes of readPieces(this.#fd, from, to, COPIED_AT_ONCE)) this.#put(bytes);
    // As any draft: one that could not be synced is thrown away, and nothing is lost by it.
    fdatasyncSync(this.#made);
    renameDraft(this.#made, this.#draft, this.#path);
  }

  /** In any case: a draft that was not put in place goes. */
  end(): void {
    closeSync(this.#fd);
    closeSync(this.#made);
    remove(this.#draft);
  }

  *#bytesOf(piece: Piece): Generator<Uint8Array | undefined> {
    if ("from" in piece) {
      let at = piece.from;
      for (const bytes of readPieces(this.#fd, piece.from, piece.to, COPIED_AT_ONCE)) {
        at += bytes.length;
        yield bytes;
      }
      // Another process has cut it short.
      if (at < piece.to) yield undefined;
      return;
    }
    const text = piece.text(this.#fd);
    yield text === undefined ? undefined : Buffer.from(text);
  }

  #put(bytes: Uint8Array): void {
    writeAll(this.#made, bytes, this.#at);
    this.#at += bytes.length;
  }
}
