/**
 * The parts that a database brings to the SQL store. SQLite answers in the same tick, Postgres over
 * a wire; what is asked, and in which order, is written once (`writer.ts`), as procedures that
 * yield what they ask and are given what it answered.
 */
import type { BranchId } from "../../core/values/ids.js";
import type { Applied, Change, NewSave } from "../port/changes.js";
import type { StoreCopies } from "../port/copies.js";
import type { About, Traits } from "../port/info.js";
import type { StoreReclaim } from "../port/reclaim.js";
import type { Store } from "../port.js";

export type Param = string | number | Uint8Array | null;
export type Row = readonly unknown[];

/**
 * A statement to run. `changes` tells that it changes rows, and that only how many is of interest.
 */
export interface SqlCall {
  readonly text: string;
  readonly params: readonly Param[];
  readonly changes: boolean;
}

/** The rows of each statement; of one that changes rows, a single row with their number. */
export type Procedure<T> = Generator<readonly SqlCall[], T, readonly (readonly Row[])[]>;

/**
 * What a job must have for itself while it looks and writes. `session`: all that is written to a
 * session. `branch`: what begins on a branch, and what is taken away from it. `blobs`: bodies that
 * come to be used, and bodies that nobody uses; many may use some at once. `pins`: places that come
 * to be kept, and what is taken away; many may take something away at once.
 */
export type Lock =
  | { readonly session: string }
  | { readonly branch: string }
  | { readonly blobs: "use" | "sweep" }
  | { readonly pins: "keep" | "take" };

/** Work in one transaction. */
export interface Job<T> {
  readonly locks: readonly Lock[];
  readonly steps: () => Procedure<T>;
  /** Whether an answer says that nothing may be changed. */
  readonly refused: (answer: T) => boolean;
  /**
   * Looks whether all is as it was asked for: an earlier try was committed perhaps, and its answer
   * lost. Undefined where it is not, or where that cannot be told; then it is done again.
   */
  readonly settle?: () => Procedure<T | undefined>;
  /** Told the answer once it is committed, before anybody else is. It does not throw. */
  readonly committed?: (answer: T) => void;
  /**
   * It takes away, or is a step of something that does: on a full disk it may use the reserve
   * (RESERVE-1).
   */
  readonly removes?: true;
}

/** A branch that a job has begun for a session. */
export interface Begun {
  readonly id: string;
  readonly no: number;
  readonly forkSeq: number;
  readonly sessionId: string;
  readonly session: number;
  readonly epoch: number | undefined;
}

/** Tables whose rows have numbers that are never used twice. */
type Numbered = "session" | "branch" | "doc";

/** How two databases say the same. */
export interface Dialect {
  /** A number for a new row, one that no row had before. */
  readonly fresh: (table: Numbered) => string;
  /** Notes that a number was used, where the database would not remember it. */
  readonly spend: (table: Numbered) => string | undefined;
  /** A section of a save, as it is kept, and as it is read among other columns. */
  readonly section: (text: string | null) => Param;
  readonly text: (column: string) => string;
  /**
   * The statement for `readSaves`: the number and `columns` of those that end from the second
   * parameter on, up to the first that ends at the third or behind it. Parameters: branch, from,
   * to, branch, to, limit.
   */
  readonly savesWithin: (columns: string, order: "ASC" | "DESC", limit: string) => string;
  /**
   * The save of a branch `l` that holds a record, as a join; its number is a parameter. The tables
   * stand in a schema.
   */
  readonly saveWith: (schema: string) => string;
  /** The number of the save that came last, where saves have numbers by their coming. */
  readonly lastSaveNo: string;
  /** How many messages a save's head says that there are. */
  readonly messages: (head: string) => string;
  /** Whether branches that were cut are noted, for anchors. */
  readonly notesCuts: boolean;
  /**
   * The last save of a branch `l`, as a join, and what orders and limits the whole where the join
   * does not.
   */
  readonly lastSave: { readonly join: string; readonly order: string };
  /** The last save of each of many branches `l`, as a join. */
  readonly lastOfEach: string;
  /** What is added to the join of tags with their sessions. */
  readonly tagsOfTenant: string;
  /** The store's clock as a column, and the parameters that stand in it. */
  readonly clock: { readonly column: string; readonly params: () => readonly Param[] };
  /**
   * What is added to a search for sessions `s` to be claimed, and to looking at one of them before
   * it is.
   */
  readonly claimable: string;
  readonly claiming: string;
  /**
   * What is added to looking at a row that is about to be changed, so that nobody else changes it
   * meanwhile.
   */
  readonly locking: string;
}

/** Reads and writes rows. */
export interface Database {
  readonly traits: Traits;
  /** As the port's. */
  readonly gone?: AbortSignal;
  readonly dialect: Dialect;
  /**
   * Takes a session's lock if it is free, and answers whether it did. Undefined where transactions
   * that write are alone.
   */
  readonly tryLock: ((session: string) => SqlCall) | undefined;
  /** Takes the locks of sessions, in the order that all take them in. Undefined as above. */
  readonly lockAll: ((sessions: readonly string[]) => readonly SqlCall[]) | undefined;
  now(): Promise<number>;
  /** `long`: it goes over much of the store, and may take its time. */
  read(text: string, params: readonly Param[], how?: "long"): Promise<readonly Row[]>;
  /** Saves: a number, and texts of which some are long. */
  readSaves(text: string, params: readonly Param[]): Promise<readonly Row[]>;
  write<T>(job: Job<T>): Promise<T>;
  /** The quick way for a save and nothing else. Undefined where this is none of those it knows. */
  append(change: Change, fresh: NewSave): Promise<Applied> | undefined;
  /** Told what was committed, unless it was an `append`. */
  applied(changes: readonly Change[], begun: readonly Begun[]): void;
  /** Told of a session that an inbox message was posted to. */
  posted(session: string): void;
  wasCut(branch: BranchId): void;
}

/** Hears of what other processes change. */
export type Watching = Pick<Store, "watch">;

/** Looks after the place that the rows are in. The port says what each method does. */
export interface Maintenance
  extends Pick<Store, "check" | "close">,
    Pick<StoreCopies, "anchors" | "backup">,
    Pick<StoreReclaim, "compact" | "scrub"> {
  about(): Promise<About>;
}

export interface DatabaseParts {
  readonly db: Database;
  readonly watching: Watching;
  readonly maintenance: Maintenance;
}
