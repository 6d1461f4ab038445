/**
 * The port of an index for search, which a store may have beside what it keeps. A store that has
 * none is searched by going over it.
 *
 * What is a word, what of a message can be found, and what is shown of it, is decided above. An
 * index keeps words and places, and is only ever a hint where to look: whatever it finds is read
 * from the store, and verified, before anybody sees it.
 *
 * INDEX-1  saving does not touch it. It takes in what has come in steps, when it is told to.
 * INDEX-2  what was taken away from the store is forgotten: the store notes it, in the same
 *          transaction, once there is an index.
 * INDEX-3  it can be made again from the store at any time; damage to it, or its loss, is never an
 *          error for whoever searches.
 * INDEX-4  it finds the texts that `core/search/match.ts` does. The order and the scores are its
 *          own.
 * INDEX-5  what is found within a scope, its scores, its order and its count depend on nothing
 *          outside of it.
 */
import type { Save } from "../core/journal/save.js";
import type { Query } from "../core/search/query.js";
import type { BranchId } from "../core/values/ids.js";
import type { BranchRow, SessionRow } from "./port/rows.js";

/** Roles as numbers; 0 is a title. */
export const ROLES = ["title", "system", "user", "assistant", "tool"] as const;

/** A passage of a message, or a title. `of` is the number of its branch, or of its session. */
export interface Document {
  readonly kind: "message" | "title";
  readonly of: number;
  readonly seq: number;
  readonly passage: number;
  /** Its place in `ROLES`. */
  readonly role: number;
  readonly at: number;
  readonly words: readonly string[];
}

export interface FindOptions {
  /**
   * Only texts of these branches, up to a number, and the title of this session, which has a number
   * too.
   */
  readonly within?: {
    readonly session: string;
    readonly no: number;
    readonly branches: ReadonlyMap<BranchId, { readonly no: number; readonly upTo: number }>;
  };
  /**
   * Sessions whose branch is theirs. Branches that no session owns are given where such a session
   * goes back to them: the caller knows whose they are.
   */
  readonly agent?: string;
  readonly tag?: string;
  readonly role?: number;
  /** Wall times: from, and before. */
  readonly since?: number;
  readonly until?: number;
}

/** Whether it is looked for in what one agent, or one session, has. */
export const isScoped = ({ agent, within }: FindOptions): boolean =>
  agent !== undefined || within !== undefined;

/**
 * A scope with so many texts is gone over text by text, in some 200 ms, and no index is asked: no
 * more work is done than it has texts (INDEX-5).
 */
export const MOST_GONE_OVER = 10_000;

/** A passage that was found, and what it was found in. */
interface MessageHit {
  readonly kind: "message";
  /** It says whose it is; a branch may be nobody's. */
  readonly branch: BranchRow;
  /** The save that holds the record, with its items; undefined where there is none any more. */
  readonly save: Save | undefined;
  readonly seq: number;
  readonly passage: number;
  readonly score: number;
}

interface TitleHit {
  readonly kind: "title";
  readonly session: SessionRow;
  readonly score: number;
}

export type Hit = MessageHit | TitleHit;

export interface DamagedPlace {
  readonly branch: BranchRow;
  readonly seq: number;
}

/**
 * What was found by one look: the best first, and of equals the newer. Only places are kept of it,
 * so that whoever passes over many of them need not look again.
 */
export interface Found {
  readonly count: number;
  /** Places where something is missing or damaged: what stands there cannot be found. */
  readonly damaged: readonly DamagedPlace[];
  /**
   * Some of them, from the `offset`th on, as they stand in the store by now. Undefined: it is not
   * there any more.
   */
  read(offset: number, limit: number): Promise<readonly (Hit | undefined)[]>;
}

/** Of more hits than these the newest are ranked. */
export const MOST_RANKED = 50_000;

/** What an index found. Of damage it knows only what it was given as a document. */
export type IndexFound = Omit<Found, "damaged">;

interface FreshSave {
  readonly branch: number;
  readonly save: Save;
  /**
   * The number of the last record before it: of the save before it, or of the place at which its
   * branch begins.
   */
  readonly before: number;
}

/** What has come since, and whose titles may have changed. */
export interface Fresh {
  readonly saves: readonly FreshSave[];
  readonly sessions: readonly SessionRow[];
  /** Nothing is left to take in, not even what these are not. */
  readonly isLast: boolean;
}

export interface SearchIndex {
  find(query: Query, options: FindOptions): Promise<IndexFound>;
  /** Whether there is one to be kept up: somebody has searched here. */
  exists(): Promise<boolean>;
  /**
   * Makes it where it is missing, or not this store's, or of another version; `anew` does so in any
   * case.
   */
  begin(anew: boolean): Promise<void>;
  /**
   * About how many saves it has not taken in. Saves of other tenants may count: it is never shown
   * to anybody.
   */
  behind(): Promise<number>;
  /** About how many saves of its tenant it has not taken in. */
  missing(): Promise<number>;
  /**
   * The next saves to take in, `limit` at most. Forgets on the way what was taken away from the
   * store.
   */
  next(limit: number): Promise<Fresh>;
  /**
   * Takes in documents of what `next` gave; with `done` they were the last of it. False where
   * somebody else has taken it in meanwhile: then it is to be asked anew.
   */
  put(fresh: Fresh, documents: readonly Document[], done: boolean): Promise<boolean>;
  /** Leaves nothing of what was forgotten in its files. */
  purge(): Promise<void>;
}
