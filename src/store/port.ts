/**
 * The store port: what a store must do, and all that it must do. Meaning lives above it, in core
 * and the engine; a store keeps texts and numbers, and checks the conditions it is told to check.
 * `holdfast/testing` exports the contract that every store passes.
 *
 * P1  `apply` is all or nothing: every condition of every change holds and all is kept, or nothing
 *     is changed.
 * P2  what `apply` answered `ok` for survives, as far as the store's traits say: the end of the
 *     process, and of the power.
 * P3  a save that is there already, with the same check, is `ok` again and changes nothing.
 * P4  applies that come together may be committed together, but succeed and fail apart.
 * P5  readers see whole applies only, in the order in which they were made.
 * P6  nothing that is passed in or handed out is changed afterwards by either side.
 * P7  ids are compared byte by byte; no text is ever taken for a pattern, a path or a query.
 * P8  lines and sessions are numbered in the order of their making; no number and no line id is
 *     used twice.
 * P9  a store is opened for one tenant. What others keep in the same place is not there for it: not
 *     to read, count, fork or delete.
 * P10 a place that a document pins stays as it is: no `replace` that did not know of it, and no
 *     `cut`, takes from what stands there.
 */
import type { Save } from "../core/journal/save.js";
import type { Digest } from "../core/values/digest.js";
import type { LineId } from "../core/values/ids.js";
import type { Applied, Change } from "./port/changes.js";
import type { ClaimQuery, Granting } from "./port/claims.js";
import type { Backup, BackupOptions, Witnesses } from "./port/copies.js";
import type { CaptureQuery, Decision, DocChange, DocQuery, DocRow, Pin } from "./port/documents.js";
import type { InboxQuery, Mail, Posted } from "./port/inbox.js";
import type { About, Counts, Traits } from "./port/info.js";
import type { Beginnings, LineQuery, SaveQuery, SessionQuery } from "./port/queries.js";
import type { Freed, KnownNeeds, Replacement, Scrubbed, Swept } from "./port/reclaim.js";
import type { LineRow, Present, SessionRow } from "./port/rows.js";
import type { SearchIndex } from "./search-port.js";

export interface Store {
  readonly traits: Traits;
  /** An index for search, where the store has one. */
  readonly index?: SearchIndex;
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
   * `frees`: a step of something that takes away, which a full disk must not stop. What removes a
   * session or a document is one in any case.
   */
  apply(changes: readonly Change[], docs?: readonly DocChange[], how?: "frees"): Promise<Applied>;
  /**
   * Looks at an agent's sessions, the oldest first and `limit` at most, and at where each stands,
   * and applies what `decide` answers, all at one moment: nothing changes in between. `decide`
   * answers undefined where nothing is to be done; it is called inside the store's transaction,
   * must neither wait nor throw, and may be called again. `hold` tells that the sessions may
   * change: then nobody else writes to them meanwhile. Documents that pin something are made by no
   * other way.
   */
  capture(
    query: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
  ): Promise<Applied>;
  doc(kind: string, id: string): Promise<(DocRow & { readonly body: string | null }) | undefined>;
  /**
   * Newest first. One that is damaged so that nobody can say whose it is comes with those of every
   * owner, last and with none.
   */
  docs(query: DocQuery): Promise<readonly DocRow[]>;
  /** The places of a line that documents pin. */
  pins(line: LineId): Promise<readonly Pin[]>;

  /** The clock of leases, in milliseconds: it never goes back while any lease lasts. */
  now(): Promise<number>;
  session(id: string): Promise<SessionRow | undefined>;
  /** The session, its line and where that ends: of one instant, and in one look. */
  present(id: string): Promise<Present | undefined>;
  /** Newest first. */
  sessions(query: SessionQuery): Promise<readonly SessionRow[]>;
  /** The epoch of a session that was deleted, or 0. */
  buriedEpoch(id: string): Promise<number>;

  /**
   * Ids of sessions, and of lines, that begin with a text: the first `limit` of each, byte by byte
   * in order.
   */
  idsFrom(beginning: string, limit: number): Promise<Beginnings>;

  line(id: string): Promise<LineRow | undefined>;
  /**
   * The line and those it goes back to, newest first, as far as they are there, and so many at
   * most.
   */
  past(id: string, limit: number): Promise<readonly LineRow[]>;
  /** Newest first, unless the query says otherwise. */
  lines(of: LineQuery): Promise<readonly LineRow[]>;

  saves(line: LineId, query: SaveQuery): Promise<readonly Save[]>;
  /**
   * Puts saves in the place of others with the same records. Refused whole (false) if what is there
   * is not what was read, or if a line was begun on this one, or a place on it pinned, of which
   * whoever planned it did not know.
   */
  replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Promise<boolean>;
  /**
   * Removes the saves of an ownerless line behind `after`, at most `limit`, newest first; with
   * `after` -1 the line too, once it is empty. Never what a line that begins on this one needs, or
   * what is pinned, whatever `after` says: a fork may have come in between. Answers how many went,
   * and what they held; `dryRun` only answers. A store that takes `inBulk` may take fewer than
   * there are, but not none.
   */
  cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed>;

  blob(digest: Digest): Promise<Uint8Array | undefined>;
  /**
   * Looks at blobs, at most `limit`, and removes those that no save refers to. `after` is where an
   * earlier call ended, by its `next`: the order is the store's own, and stays.
   */
  sweep(limit: number, dryRun: boolean, after?: Digest): Promise<Swept>;

  /** Idempotent by id, and needs no lease. */
  post(session: string, mail: Mail): Promise<Posted>;
  /** Entries not yet taken in that are due, or that are named, oldest first. */
  inbox(session: string, query: InboxQuery): Promise<readonly Mail[]>;

  /**
   * Takes sessions of an agent that are due, or for which mail waits that is due: the longest due
   * first, and of those that are due since the same time the one with the lower number. `grant` is
   * given each candidate's row and the store's clock, and answers the lease to be written, or
   * undefined to pass it over; it is called inside the store's transaction, must neither wait nor
   * throw, and may be called again for the same row. Answers the rows as they are afterwards. No
   * two claims are given the same session, as long as `grant` passes over those that are held. A
   * store whose users are on many machines only offers sessions whose lease has run out or is free.
   */
  claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]>;

  /**
   * Calls `wake` when another process may have changed the session. Only a hint, which may come too
   * often or not at all: whoever waits also looks now and then. Answers how to stop it.
   */
  watch(session: string, wake: () => void): () => void;
  /**
   * Calls `wake` when anything may have changed in the store by another process: a hint for
   * workers, as `watch` is for followers.
   */
  watchAll(wake: () => void): () => void;

  /**
   * Which incarnation this is: empty until the store was first put back from a copy. The same for
   * all tenants.
   */
  incarnation(): Promise<string>;
  /**
   * Begins another, and answers its name: the store is a copy, and the original may go on. Others
   * who have it open learn of that when they open it again. It concerns all tenants, and is
   * UNSUPPORTED where the store was opened for one.
   */
  beginIncarnation(): Promise<string>;
  /**
   * Writes a copy of the whole place, all tenants, as it is at one moment, while others go on
   * writing. UNSUPPORTED, with what to do instead, where that is not the store's to do, or where it
   * was opened for one tenant.
   */
  backup(path: string, o: BackupOptions): Promise<Backup>;

  counts(): Promise<Counts>;
  about(): Promise<About>;
  /**
   * The last place known to have been on each line, or on each of these, from outside the store's
   * own file.
   */
  anchors(of?: ReadonlySet<string>): Promise<Witnesses>;
  /** Damage that the store can see by itself, in words. */
  check(): Promise<readonly string[]>;
  /**
   * Gives room back to the file system where that can be done without stopping writers: so many
   * parts of it at most, of the kind that the store has. To one of several tenants that share a
   * file, the bytes are told as 0. Answers how many it were, and their bytes; fewer than `limit`:
   * there are no more.
   */
  compact(limit: number): Promise<Freed>;
  /**
   * Leaves nothing in the store's files of what was replaced, removed or taken in before, as far as
   * that is in its hands: neither in free space nor in logs, indexes and files set aside. `holds`
   * says of a text whether it must go; what no longer counts and holds none stays.
   */
  scrub(holds: (text: string) => boolean): Promise<Scrubbed>;
  close(): Promise<void>;
}
