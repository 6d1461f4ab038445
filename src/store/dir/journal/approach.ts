/**
 * On the way to a save that is far from the end of its branch: some saves at a time, others have
 * their turn in between.
 */
import type { JournalFile } from "./journal-file.js";

/** How many saves are walked over at once: some milliseconds. */
const FAR = 200;

export class Approach {
  #most = FAR;
  #reached = 0;

  /** Comes nearer. Answers whether it is there. */
  step(journal: JournalFile, seq: number): boolean {
    // It was closed meanwhile, and begins again at its end: more branches are read side by side
    // than are kept open. Further at once, or none of them would ever arrive.
    if (journal.length < this.#reached) this.#most *= 2;
    const isThere = journal.approach(seq, this.#most);
    this.#reached = journal.length;
    return isThere;
  }
}
