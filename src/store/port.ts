/**
 * The store port: what a store must do, and all that it must do. Meaning lives above it, in core
 * and the engine; a store keeps texts and numbers, and checks the conditions it is told to check.
 * `holdfast/testing` exports the contract that every store passes.
 *
 * The methods of `Store` are required. The capabilities beside them are optional: without one, the
 * calls that need it fail with UNSUPPORTED, and all else works (docs/store.md).
 *
 * PORT-1  `apply` is all or nothing: every condition of every change holds and all is kept, or
 *         nothing is changed.
 * PORT-2  what `apply` answered `ok` for survives, as far as the store's traits say: the end of the
 *         process, and of the power.
 * PORT-3  a save that is there already, with the same check, is `ok` again and changes nothing.
 * PORT-4  applies that come together may be committed together, but succeed and fail apart.
 * PORT-5  readers see whole applies only, in the order in which they were made.
 * PORT-6  nothing that is passed in or handed out is changed afterwards by either side.
 * PORT-7  ids are compared byte by byte; no text is ever taken for a pattern, a path or a query.
 * PORT-8  branches and sessions are numbered in the order of their making; no number and no branch
 *         id is used twice.
 * PORT-9  a store is opened for one tenant. What others keep in the same place is not there for it:
 *         not to read, count, fork or delete.
 * PORT-10  a place that a document pins stays as it is: no `replace` that did not know of it, and
 *          no `cut`, takes from what stands there.
 */
import type { Save } from "../core/journal/save.js";
import type { Digest } from "../core/values/digest.js";
import type { BranchId } from "../core/values/ids.js";
import type { Applied, Change } from "./port/changes.js";
import type { StoreClaims } from "./port/claims.js";
import type { StoreCopies } from "./port/copies.js";
import type { DocChange, StoreDocuments } from "./port/documents.js";
import type { StoreInbox } from "./port/inbox.js";
import type { Info, Traits } from "./port/info.js";
import type { BranchQuery, SaveQuery, SessionQuery } from "./port/queries.js";
import type { StoreReclaim } from "./port/reclaim.js";
import type { BranchRow, SessionFound, SessionRow } from "./port/rows.js";
import type { SearchIndex } from "./search-port.js";

/** What a store may have besides its required methods. */
export interface Capabilities {
  /** Messages for a session that another process may hold. */
  readonly inbox?: StoreInbox;
  /** Gives workers the sessions that are due. */
  readonly claims?: StoreClaims;
  /** Small texts beside the sessions: keys, agent records, snapshots, policies. */
  readonly documents?: StoreDocuments;
  /** Takes saves and blobs away, and gives room back. */
  readonly reclaim?: StoreReclaim;
  /** Backups, and what tells a copy from the original. */
  readonly copies?: StoreCopies;
  /** An index for search. Without one, search goes over the store. */
  readonly index?: SearchIndex;
}

export interface Store extends Capabilities {
  readonly traits: Traits;
  /**
   * Aborts when the store's files were deleted, moved or replaced while it is open. The reason is
   * the error (IO) that every call but `close` gives from then on. Absent where a store has no
   * files.
   */
  readonly gone?: AbortSignal;
  /**
   * Present where the store was opened for one tenant, and numbers of sessions and documents count
   * those of all tenants: cursors are sealed with it. The same in every process, and secret.
   */
  readonly cursorKey?: string;

  /**
   * Applies changes under their conditions. `docs` come only where the store has `documents`.
   * `frees`: a step of something that takes away, which a full disk must not stop. What removes a
   * session or a document is one in any case.
   */
  apply(changes: readonly Change[], docs?: readonly DocChange[], how?: "frees"): Promise<Applied>;
  /**
   * Finds a session, or what is left of one that was deleted, in one look. With `end` the answer
   * also has the session's branch and its last save, all of one instant.
   */
  session(id: string, how?: "end"): Promise<SessionFound>;
  sessions(query: SessionQuery): Promise<readonly SessionRow[]>;
  branches(query: BranchQuery): Promise<readonly BranchRow[]>;
  saves(branch: BranchId, query: SaveQuery): Promise<readonly Save[]>;
  blob(digest: Digest): Promise<Uint8Array | undefined>;
  /** The clock of leases, in milliseconds: it never goes back while any lease lasts. */
  now(): Promise<number>;
  /**
   * Calls `wake` when another process may have changed the session; without a session, anything in
   * the store. Only a hint, which may come too often or not at all: callers also look now and then.
   * Answers how to stop it.
   */
  watch(session: string | undefined, wake: () => void): () => void;
  /** What the store is; counted too, where the caller asks for it: that may go over all of it. */
  info(how?: "counts"): Promise<Info>;
  /** Damage that the store can see by itself, in words. */
  check(): Promise<readonly string[]>;
  close(): Promise<void>;
}
