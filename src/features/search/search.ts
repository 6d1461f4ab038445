/**
 * Search on an open store: by its index where it has one, which is kept up here, and by going over
 * it where it has none.
 */
import type { Query } from "../../core/search/query.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { Ground } from "../../engine/journal/ground.js";
import { callback, flag, options, signalOf } from "../../engine/util/options.js";
import type { Finder, FindOptions, Found, SearchIndex } from "../../store/search-port.js";
import { Filler } from "./filler.js";
import { askedOf, findTexts, type SearchFilter, type SearchPage } from "./find.js";
import { Scan } from "./scan.js";
import { ofDamage } from "./texts.js";

export interface IndexProgress {
  /** How many saves were taken in. */
  readonly taken: number;
  /** About how many are left. */
  readonly behind: number;
}

export interface IndexOptions {
  /** Makes the index anew. */
  readonly rebuild?: boolean;
  readonly onProgress?: (progress: IndexProgress) => void;
  readonly signal?: AbortSignal;
}

export interface IndexReport {
  /** How many saves were taken in. */
  readonly taken: number;
}

/** How long a search takes in what is missing, before it looks with what there is. */
const CATCH_UP_MS = 100;
const MOST_DAMAGED = 100;

/** An index, and the damage that was met when it was filled. */
class Indexed implements Finder {
  readonly #index: SearchIndex;

  constructor(index: SearchIndex) {
    this.#index = index;
  }

  async find(query: Query, options: FindOptions): Promise<Found> {
    const { within, agent, tag } = options;
    const whose = {
      ...(within && { within }),
      ...(agent !== undefined && { agent }),
      ...(tag !== undefined && { tag }),
    };
    const [found, damage] = await Promise.all([
      this.#index.find(query, options),
      this.#index.find(ofDamage, whose),
    ]);
    const hits =
      damage.count === 0 ? [] : await damage.read(0, Math.min(damage.count, MOST_DAMAGED));
    const damaged = hits.flatMap((hit) =>
      hit?.kind === "message" ? { line: hit.line, seq: hit.seq } : [],
    );
    return { ...found, damaged };
  }
}

export class Search {
  readonly #ground: Ground;
  readonly #scan: Finder;
  readonly #index: SearchIndex | undefined;
  readonly #filler: Filler | undefined;

  /** Without `indexed` no index is made or kept up, and none is asked. */
  constructor(ground: Ground, indexed: boolean) {
    this.#ground = ground;
    this.#scan = new Scan(ground.store, ground.journal);
    this.#index = indexed ? ground.store.index : undefined;
    this.#filler =
      this.#index &&
      new Filler(this.#index, ground.journal, ground.store.traits.oneMachine ? "here" : "away");
    this.#filler?.watch();
  }

  async find(words: string, filter?: SearchFilter): Promise<SearchPage> {
    this.#ground.usable();
    const asked = await askedOf(this.#ground, words, filter);
    if (asked === undefined) return { items: [] };
    if (this.#index === undefined || this.#filler === undefined)
      return findTexts(this.#ground, this.#scan, asked);
    try {
      await this.#index.begin(false);
      const behind = await this.#filler.catchUp(CATCH_UP_MS);
      const page = await findTexts(this.#ground, new Indexed(this.#index), asked);
      return behind === 0 ? page : { ...page, behind };
    } catch (error) {
      // I3: an index that cannot be made or read is no reason not to find anything. What is wrong
      // with the store itself shows there too.
      if (error instanceof HoldfastError && error.code === "CLOSED") throw error;
      return findTexts(this.#ground, this.#scan, asked);
    }
  }

  /** Brings the index up to date, to the end. A store without one has nothing to bring. */
  async bring(given?: IndexOptions): Promise<IndexReport> {
    this.#ground.usable();
    const { rebuild, onProgress, signal } = options(given, "sessions.index", [
      "rebuild",
      "onProgress",
      "signal",
    ]);
    const tell = callback(onProgress, "onProgress");
    const anew = flag(rebuild, "rebuild") ?? false;
    const stops = signalOf(signal);
    if (this.#index === undefined || this.#filler === undefined) return { taken: 0 };
    await this.#index.begin(anew);
    return { taken: await this.#filler.all(tell, stops) };
  }

  async close(): Promise<void> {
    await this.#filler?.stop();
  }
}
