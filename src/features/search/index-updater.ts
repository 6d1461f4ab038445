/**
 * Takes into an index what has come since: in small steps when nothing else is going on, for a
 * moment before a search, or to the end when somebody asks for it. One of these at a time.
 *
 * Idle means that nothing was saved for a while, by anybody. A step is a few messages; whoever
 * saves in between comes first. None of it keeps a process alive, and none of it is anybody's
 * error: what fails is tried again later.
 */
import type { Save } from "../../core/journal/save.js";
import type { Journal } from "../../engine/journal/journal.js";
import { Semaphore } from "../../engine/util/semaphore.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import type { Document, Fresh, SearchIndex } from "../../store/search-port.js";
import { isCutShort } from "./damaged.js";
import { readable } from "./scan.js";
import type { IndexProgress } from "./search.js";
import { damageAt, documentsOf, titlesIn } from "./search-texts.js";

/** How often it is looked whether something has come: a server is asked less often. */
const LOOK_MS = { here: 500, away: 2_000 };
const IDLE = { saves: 8, words: 1_500, pauseMs: 2 };
const BULK = { saves: 2_000, words: 3_000 };
const SHORT = { saves: 200, words: 3_000 };

/** How many saves a step is, and how many words are put into the index without a pause. */
interface Size {
  readonly saves: number;
  readonly words: number;
}

export class IndexUpdater {
  readonly #index: SearchIndex;
  readonly #journal: Journal;
  readonly #lookMs: number;
  readonly #semaphore = new Semaphore(1);
  #timer: NodeJS.Timeout | undefined;
  #watching: Promise<void> | undefined;
  #wake: () => void = () => {};
  #stopped = false;
  /** What was missing when it was last looked. */
  #lastBehind = 0;

  constructor(index: SearchIndex, journal: Journal, where: keyof typeof LOOK_MS) {
    this.#lookMs = LOOK_MS[where];
    this.#index = index;
    this.#journal = journal;
  }

  // ---- when nothing else is going on

  /** Looks now and then, from now on until it is stopped. */
  watch(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#watching = this.#look()
        .catch(() => {})
        .finally(() => this.watch());
    }, this.#lookMs).unref();
  }

  async #look(): Promise<void> {
    if (!(await this.#index.exists())) return;
    const behind = await this.#index.behind();
    const isQuiet = behind === this.#lastBehind;
    this.#lastBehind = behind;
    if (behind === 0 || !isQuiet) return;
    // Whatever was found missing, nothing came since: as long as less and less is, nobody saves.
    for (let left = behind; left > 0 && !this.#stopped; ) {
      const isLast = await this.#semaphore.pass(() => this.#step(IDLE));
      const now = isLast ? 0 : await this.#index.behind();
      if (now >= left && !isLast) return;
      left = now;
      this.#lastBehind = now;
      await this.#pause();
    }
  }

  /**
   * For others. A process that has nothing else to do ends here; one that is closing does not wait
   * for it.
   */
  #pause(): Promise<void> {
    return new Promise((resolve) => {
      // Nothing may be waited for on a clock that does not keep the process alive, once somebody
      // waits for the end.
      if (this.#stopped) return resolve();
      const timer = setTimeout(resolve, IDLE.pauseMs).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Resolves once nothing is done any more. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#wake();
    await this.#watching;
    await this.#semaphore.pass(async () => {});
  }

  // ---- when somebody waits for it

  /** Goes on until nothing is missing, or time is up. Answers about how much is. */
  async catchUp(mostMs: number): Promise<number> {
    const deadline = performance.now() + mostMs;
    while (!(await this.#semaphore.pass(() => this.#step(SHORT)))) {
      if (performance.now() > deadline || this.#stopped)
        return Math.max(1, await this.#index.missing());
    }
    return 0;
  }

  /** Goes on until nothing is missing. Answers how many saves were taken in. */
  async all(
    tell: ((progress: IndexProgress) => void) | undefined,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    let taken = 0;
    for (let isLast = false; !isLast && !this.#stopped; ) {
      signal?.throwIfAborted();
      isLast = await this.#semaphore.pass(() =>
        this.#step(BULK, (count) => {
          taken += count;
        }),
      );
      if (tell) tell({ taken, behind: isLast ? 0 : await this.#index.missing() });
    }
    return taken;
  }

  /** Takes in some saves. Answers whether those were the last. */
  async #step({ saves, words }: Size, took?: (count: number) => void): Promise<boolean> {
    const fresh = await this.#index.next(saves);
    let documents: Document[] = [];
    let held = 0;
    for await (const document of this.#documents(fresh)) {
      if (this.#stopped) return false;
      documents.push(document);
      held += document.words.length;
      if (held < words) continue;
      if (!(await this.#index.put(fresh, documents, false))) return false;
      documents = [];
      held = 0;
      await yieldToEventLoop();
    }
    if (!(await this.#index.put(fresh, documents, true))) return false;
    took?.(fresh.saves.length);
    return fresh.isLast;
  }

  async *#documents({ saves, sessions }: Fresh): AsyncGenerator<Document> {
    for (const row of sessions) yield* await readable(async () => [...titlesIn(row)]);
    const ends = new Map<number, Save>();
    for (const { branch, before, save } of saves) {
      await yieldToEventLoop();
      ends.set(branch, save);
      yield* await documentsOf(this.#journal, branch, before, save);
    }
    for (const [branch, save] of ends)
      if (await isCutShort(this.#journal, save)) yield damageAt(branch, save.seq + 1, save.at);
  }
}
