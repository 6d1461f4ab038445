/**
 * Room to delete by. On a full disk a delete fails, too: it must write before it frees anything. So
 * a store keeps a file of nothing beside itself, and gives it up when something that frees room
 * meets a full disk.
 *
 * RESERVE-1  only what takes away may use it, with each of its steps: deletes, prunes, redactions
 *            and gc. Saves would use it up, and leave none for a delete. A process that opens the
 *            store may borrow from it: it may be about to delete.
 * RESERVE-2  it holds nothing. Any process may give it up or make it at any time, and a kill leaves
 *            one that is shorter, or none.
 * RESERVE-3  a file or link of the same name that is not a reserve is left alone.
 * RESERVE-4  a process that borrows takes a little at a time, and puts it back when it closes the
 *            store, as far as there is room: any number of looks leave it as it was.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  statfsSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";
import { HoldfastError, quote } from "../core/values/errors.js";
import type { Decision } from "./port/documents.js";

const NOTE = Buffer.from(
  "Holdfast keeps this room to be able to delete when the disk is full. It may be removed.\n",
);
/** It is made where so many times its size is free. */
const SPARE = 4;
/** SQLite needs 32 KB to open a store, and as much again for each 32 MB of its log. */
const LENT_BYTES = 64 * 1024;
/** A process that is soon over makes none. */
const FIRST_MS = 10_000;
const EVERY_MS = 60_000;

export class Reserve {
  readonly #path: string;
  readonly #bytes: number;
  readonly #isWorth: () => boolean;
  #timer: NodeJS.Timeout | undefined;
  #lentBytes = 0;

  /** `isWorth` says whether the store is large enough for one. */
  constructor(path: string, bytes: number, isWorth: () => boolean = () => true) {
    this.#path = path;
    this.#bytes = bytes;
    this.#isWorth = isWorth;
  }

  /** Makes it soon, and again whenever it is missing, until `close`. */
  keep(): void {
    this.#timer ??= setTimeout(() => {
      void this.make();
      this.#timer = setInterval(() => void this.make(), EVERY_MS).unref();
    }, FIRST_MS).unref();
  }

  /**
   * Makes it, unless it is whole, where there is room for it: soon after a store is opened, and
   * with each `gc`. Many processes are over before that, or never run `gc`, so it is for each to
   * make what another gave up. Nothing fails because it cannot be made.
   */
  async make(): Promise<void> {
    try {
      const { bavail, bsize } = statfsSync(dirname(this.#path));
      if (bavail * bsize < SPARE * this.#bytes || !this.#isWorth()) return;
      const found = lstatSync(this.#path, { throwIfNoEntry: false });
      if (found !== undefined && (found.size >= this.#bytes || !this.give())) return;
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
      const file = await open(this.#path, flags, 0o600);
      try {
        // Random, because some file systems give no room to zeros.
        await file.writeFile(Buffer.concat([NOTE, randomBytes(this.#bytes - NOTE.length)]));
      } finally {
        await file.close();
      }
    } catch {
      // Another process was first, or the disk is full or read-only.
    }
  }

  /** Gives it up. Answers whether it was there. */
  give(): boolean {
    try {
      this.#within(constants.O_RDONLY, () => {});
      unlinkSync(this.#path);
      return true;
    } catch {
      return false;
    }
  }

  /** Lends a little of it, to open a store by. Answers whether there was any left. */
  lend(): boolean {
    try {
      return this.#within(constants.O_RDWR, (fd) => {
        const { size } = fstatSync(fd);
        // The note stays, so that there is something to put it back to.
        const lent = Math.min(LENT_BYTES, size - NOTE.length);
        if (lent <= 0) return false;
        ftruncateSync(fd, size - lent);
        this.#lentBytes += lent;
        return true;
      });
    } catch {
      return false;
    }
  }

  /**
   * RESERVE-4: puts back what it has lent. Where it was given up or made again since, nothing is
   * owed.
   */
  takeBack(): void {
    const owed = this.#lentBytes;
    this.#lentBytes = 0;
    if (owed === 0) return;
    try {
      this.#within(constants.O_RDWR | constants.O_APPEND, (fd) => this.#grow(fd, owed));
    } catch {
      // Others took the room meanwhile: it stays shorter.
    }
  }

  /**
   * Puts all the room that is left into it, up to its size: what comes next would take that room,
   * and free nothing.
   */
  keepRest(): void {
    try {
      if (!this.#isWorth()) return;
      if (!this.isFound) {
        const fd = openSync(
          this.#path,
          constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
          0o600,
        );
        try {
          writeSync(fd, NOTE);
        } finally {
          closeSync(fd);
        }
      }
      this.#within(constants.O_RDWR | constants.O_APPEND, (fd) => this.#grow(fd, this.#bytes));
    } catch {
      // There is no more.
    }
  }

  /** By so many bytes at most, a little at a time: so it takes what there is. */
  #grow(fd: number, most: number): void {
    for (let left = Math.min(most, this.#bytes - fstatSync(fd).size); left > 0; )
      left -= writeSync(fd, randomBytes(Math.min(left, LENT_BYTES)));
  }

  /** Whether something stands in its place. */
  get isFound(): boolean {
    return lstatSync(this.#path, { throwIfNoEntry: false }) !== undefined;
  }

  get path(): string {
    return this.#path;
  }

  /** RESERVE-3: throws where it is not there. */
  #within<T>(flags: number, run: (fd: number) => T): T {
    const fd = openSync(
      this.#path,
      flags | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0),
    );
    try {
      const found = Buffer.alloc(NOTE.length);
      if (readSync(fd, found, 0, found.length, 0) < found.length || !found.equals(NOTE))
        throw new Error(`${this.#path} is no reserve`);
      return run(fd);
    } finally {
      closeSync(fd);
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }
}

/** RESERVE-1: whether something goes by it, and nothing comes in its place. */
export const takesAway = ({ changes, docs }: Decision): boolean =>
  changes.some(({ remove }) => remove) ||
  docs.some(({ remove, put }) => remove && put === undefined);

/**
 * Runs what frees room. On a full disk, each of the measures is followed by another try. `place` is
 * the store.
 */
export async function freeing<T>(
  place: string,
  run: () => Promise<T>,
  measures: readonly (() => void)[],
): Promise<T> {
  for (const measure of measures) {
    try {
      return await run();
    } catch (error) {
      if (!isFull(error)) throw error;
      measure();
    }
  }
  try {
    return await run();
  } catch (error) {
    throw isFull(error) ? noRoom(place, error) : error;
  }
}

export const isFull = (error: unknown): boolean =>
  error instanceof HoldfastError && error.code === "DISK_FULL";

const noRoom = (place: string, cause: unknown): HoldfastError =>
  new HoldfastError(
    "DISK_FULL",
    `The disk of ${quote(place)} is full, and to delete needs room, too. This step changed nothing. Free about 20 MB of other files there, do it again, and run gc.`,
    { path: place },
    cause,
  );

/** `reserve`: the path of one that could not be used, or is used up. */
export const noRoomToOpen = (
  place: string,
  reserve: string | undefined,
  cause: unknown,
): HoldfastError =>
  new HoldfastError(
    "DISK_FULL",
    `The disk of ${quote(place)} is full. To open the store needs some room, too. Nothing was changed. Free about 20 MB of other files there, and open it again.${reserve === undefined ? "" : ` You may remove ${quote(reserve)}, too.`}`,
    { path: place },
    cause,
  );
