/**
 * What is written to the file, also on a full disk: a write goes on in the log, and what takes away
 * is given the room that it needs.
 */
import { setImmediate as breathe } from "node:timers/promises";
import type { Freed } from "../../port/reclaim.js";
import { freeing, isFull, type Reserve } from "../../reserve.js";
import type { Committer, Work } from "./driver/committer.js";
import type { SpaceReclaimer } from "./reclaim-space.js";

/** So many pages take some milliseconds. */
const SHRUNK_PAGES = 1_000;

export class Writes {
  readonly #committer: Committer;
  readonly #room: SpaceReclaimer;
  readonly #place: string;
  readonly #reserve: Reserve | undefined;

  /** `place` is the file that the caller named; `reserve` is room to delete by, on a full disk. */
  constructor(
    committer: Committer,
    room: SpaceReclaimer,
    place: string,
    reserve: Reserve | undefined,
  ) {
    this.#committer = committer;
    this.#room = room;
    this.#place = place;
    this.#reserve = reserve;
  }

  /** After a full disk: the log moves into the file again as soon as there is room for it. */
  add<T>(work: Work<T>): Promise<T> {
    const written = this.#committer.submit(work);
    return this.#room.isHeld ? written.finally(() => this.#room.letGo()) : written;
  }

  /**
   * On a full disk, first the log is emptied, then the reserve is given up. The log is emptied
   * after that only if the reserve alone was not enough: the file may grow by all of it. Much is
   * written by what takes away: moved into the file a little at a time, its share of the log keeps
   * no save waiting.
   */
  async remove<T>(run: () => Promise<T>): Promise<T> {
    const emptyLog = () => this.#room.emptyLog();
    const known = await freeing(this.#place, run, [
      emptyLog,
      () => void this.#reserve?.give(),
      emptyLog,
    ]);
    await breathe();
    if (this.#room.isHeld && this.#room.isShrinkable) await this.#shrink();
    this.#room.shortenLog();
    return known;
  }

  /** Makes the file shorter, so that the log can be moved into it. */
  async #shrink(): Promise<void> {
    try {
      while ((await this.giveBack(SHRUNK_PAGES)).count > 0) await breathe();
    } catch (error) {
      // What was to be removed is removed. `gc` tries again.
      if (!isFull(error)) throw error;
    }
    this.#room.emptyLog();
  }

  /** Makes the file so many pages shorter at most, in its turn among the writes. */
  giveBack(limit: number): Promise<Freed> {
    return this.#committer.submit({
      simple: true,
      refused: () => false,
      run: () => this.#room.giveBack(limit),
    });
  }
}
