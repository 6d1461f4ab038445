/**
 * Search on an open store: by its index where it has one, which is kept up here, and by going over
 * it where it has none.
 */
import { HoldfastError } from "../../core/values/errors.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { callback, flag, options, signalOf } from "../../engine/util/validate.js";
import { type Found, MOST_GONE_OVER, type SearchIndex } from "../../store/search-port.js";
import { type Asked, askedOf, pageOf, type SearchFilter, type SearchPage } from "./find.js";
import { IndexUpdater } from "./index-updater.js";
import { Scan } from "./scan.js";
import { ofDamage } from "./search-texts.js";

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
const MOST_LARGE = 1_000;

export class Search {
  readonly #ctx: StoreContext;
  readonly #scan: Scan;
  /** Scopes that were found to be large. They may be smaller by now. */
  readonly #large = new Set<string>();
  readonly #index: SearchIndex | undefined;
  readonly #filler: IndexUpdater | undefined;

  /** Without `indexed` no index is made or kept up, and none is asked. */
  constructor(ctx: StoreContext, indexed: boolean) {
    this.#ctx = ctx;
    this.#scan = new Scan(ctx.store, ctx.journal);
    this.#index = indexed ? ctx.store.index : undefined;
    this.#filler =
      this.#index &&
      new IndexUpdater(this.#index, ctx.journal, ctx.store.traits.oneMachine ? "here" : "away");
    this.#filler?.watch();
  }

  async find(words: string, filter?: SearchFilter): Promise<SearchPage> {
    this.#ctx.usable();
    const asked = await askedOf(this.#ctx, words, filter);
    if (asked === undefined) return { items: [] };
    const found = this.#index === undefined ? undefined : await this.#findSmall(asked);
    if (found !== undefined || this.#index === undefined || this.#filler === undefined)
      return this.#page(found ?? (await this.#scan.find(asked.query, asked.filter)), asked);
    try {
      await this.#index.begin(false);
      const behind = await this.#filler.catchUp(CATCH_UP_MS);
      const page = await this.#page(await findIn(this.#index, asked), asked);
      return behind === 0 ? page : { ...page, behind };
    } catch (error) {
      // INDEX-3: an index that cannot be made or read is no reason not to find anything. What is wrong
      // with the store itself shows there too.
      if (error instanceof HoldfastError && error.code === "CLOSED") throw error;
      return this.#page(await this.#scan.find(asked.query, asked.filter), asked);
    }
  }

  #page(found: Found, asked: Asked): Promise<SearchPage> {
    return pageOf(this.#ctx, found, asked);
  }

  /** INDEX-5: in a scope that is not large. Undefined where it is, or there is no scope. */
  async #findSmall({ query, filter }: Asked): Promise<Found | undefined> {
    const scope = filter.within?.session ?? filter.agent;
    if (scope === undefined) return undefined;
    const known = `${filter.within ? "session" : "agent"} ${scope}`;
    if (this.#large.has(known)) return undefined;
    const found = await this.#scan.findAmong(query, filter, MOST_GONE_OVER);
    if (this.#large.size >= MOST_LARGE) this.#large.clear();
    if (found === undefined) this.#large.add(known);
    return found;
  }

  /** Brings the index up to date, to the end. A store without one has nothing to bring. */
  async bring(given?: IndexOptions): Promise<IndexReport> {
    this.#ctx.usable();
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

/** What an index finds, and the damage that was met when it was filled. */
async function findIn(index: SearchIndex, { query, filter }: Asked): Promise<Found> {
  const { role: _role, since: _since, until: _until, ...whose } = filter;
  const [found, damage] = await Promise.all([
    index.find(query, filter),
    index.find(ofDamage, whose),
  ]);
  const hits = damage.count === 0 ? [] : await damage.read(0, Math.min(damage.count, MOST_DAMAGED));
  const damaged = hits.flatMap((hit) =>
    hit?.kind === "message" ? { branch: hit.branch, seq: hit.seq } : [],
  );
  return { ...found, damaged };
}
