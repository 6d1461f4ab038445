/**
 * The store port: what a store must do, and all that it must do. Meaning lives above it, in core and runtime; a store keeps texts
 * and numbers, and checks the conditions it is told to check. `holdfast/testing` exports the contract that every store passes.
 *
 * P1  `apply` is all or nothing: every condition of every change holds and all is kept, or nothing is changed.
 * P2  what `apply` answered `ok` for survives, as far as the store's traits say: the end of the process, and of the power.
 * P3  a save that is there already, with the same check, is `ok` again and changes nothing.
 * P4  applies that come together may be committed together, but succeed and fail apart.
 * P5  readers see whole applies only, in the order in which they were made.
 * P6  nothing that is passed in or handed out is changed afterwards by either side.
 * P7  ids are compared byte by byte; no text is ever taken for a pattern, a path or a query.
 * P8  lines and sessions are numbered in the order of their making; no number and no line id is used twice.
 * P9  a store is opened for one tenant. What others keep in the same place is not there for it: not to read, count, fork or delete.
 * P10 a place that a document pins stays as it is: no `replace` that did not know of it, and no `cut`, takes from what stands there.
 */
import type { Save } from "../core/journal/save.js";
import type { Blob } from "../core/messages/message.js";
import { type Digest, digest } from "../core/values/digest.js";
import type { LineId, Place } from "../core/values/ids.js";
import type { SearchIndex } from "./search-port.js";

/** What a store is, so that tests and callers need not know its name. */
export interface Traits {
  /** What was applied is there after close and open. */
  readonly durable: boolean;
  /** All users of the store are on one machine: an owner from another boot of it is dead. */
  readonly oneMachine: boolean;
  /** Other processes may change the store while it is open. */
  readonly shared: boolean;
  /** To take from a line is to go over all of it: much at once is better than in many steps. Others can work meanwhile. */
  readonly inBulk?: true;
}

// Texts below are sealed by the runtime: they carry their own digest. Columns beside them are what stores look things up by.

/** Written by the holder, with the epoch as the condition. */
export interface Head {
  readonly status: string;
  readonly agent: string | null;
  /** The line it is on. */
  readonly line: LineId;
  /** The wall time (ms) from which a worker may take the session up; null where there is nothing to do. Only a hint to find it by. */
  readonly due: number | null;
  readonly text: string;
}

/** What people change from outside: title, tags, archived, metadata. Compared by version. */
export interface Label {
  readonly version: number;
  readonly archived: boolean;
  readonly tags: readonly string[];
  readonly text: string;
}

export interface LeaseRow {
  readonly epoch: number;
  readonly until: number;
  readonly text: string;
}

export interface SessionRow {
  readonly no: number;
  readonly id: string;
  readonly head: Head;
  readonly label: Label;
  readonly lease: LeaseRow;
}

export interface NewLine {
  readonly id: LineId;
  readonly origin: Place | null;
  readonly text: string;
}

export interface LineRow extends NewLine {
  readonly no: number;
  /** False once its session was deleted: then only forks need it. */
  readonly owned: boolean;
  /** The session it belongs to; null where it is not owned, or where damage has taken its owner's row. */
  readonly session: string | null;
}

/** Where a session stands. `line` is undefined where damage has taken it, `end` where the line has no save yet. */
export interface Present {
  readonly session: SessionRow;
  readonly line: LineRow | undefined;
  /** The line's last save, without items and state. */
  readonly end: Save | undefined;
}

/** A save and the blobs its records refer to. */
export interface NewSave {
  readonly save: Save;
  readonly refs: readonly Digest[];
  readonly blobs: readonly Blob[];
}

/** A save that stands in for others, and those as they were read: the same sections there and gone, under the same note. */
export interface Replacement {
  readonly save: Save;
  readonly refs: readonly Digest[];
  readonly was: readonly Save[];
  /** Bodies that it refers to and that may not be there yet. */
  readonly blobs?: readonly Blob[];
}

/** A change to one session. */
export interface Change {
  readonly session: string;
  readonly when: {
    /** There is no such session. `head`, `label` and `lease` must then be given, unless only lines are brought in. */
    readonly absent?: true;
    /** With `absent`: the epoch that a deleted session of this id has left, or 0. Another refuses with `epoch`. */
    readonly buried?: number;
    readonly epoch?: number;
    readonly until?: number;
    readonly version?: number;
  };
  /** Begins a line. Its origin, if it has one, must be a save that still has its checkpoint, or that is pinned. */
  readonly line?: NewLine;
  /**
   * With `absent`: begins a line that belongs to nobody yet, and makes no session, so that a whole journal can be brought in before
   * anybody sees it. One that is there already, and the same, stays as it is. Its origin must be a save, be it without its checkpoint.
   */
  readonly loose?: NewLine;
  /** Lines that belong to nobody become this session's. */
  readonly claims?: readonly LineId[];
  /** Appended in order. Each must follow the last record of its line; a line with no save ends at its origin. */
  readonly saves?: readonly NewSave[];
  readonly head?: Head;
  readonly label?: Label;
  readonly lease?: LeaseRow;
  /** Inbox entries that this change takes in. Of what they said only a digest is kept. */
  readonly drained?: readonly string[];
  /** Other texts for inbox entries that wait; those that do not are passed over. */
  readonly reworded?: readonly { readonly id: string; readonly text: string }[];
  /** Forgets also the digests of what was taken in. From then on the id of such an entry is known, whatever is posted under it. */
  readonly forgets?: true;
  /** Ends the session: its row goes, its lines have no owner, its epoch is kept so that it never falls. */
  readonly remove?: true;
}

/**
 * A small text beside the sessions, under a kind and an id: an agent, a snapshot, a policy. What is long and not wanted in lists stands in
 * `body`. It may pin places, which then stay (P10).
 */
export interface Doc {
  readonly kind: string;
  readonly id: string;
  /** Whose it is, to list it by: an agent's id. */
  readonly of: string | null;
  readonly version: number;
  readonly text: string;
  readonly body: string | null;
  readonly pins: readonly Place[];
}

/** The kind of documents that stand for agents: `counts` counts those that have no session, too. */
export const AGENT = "agent";
/** The kind of documents that stand for snapshots: `counts` counts them. */
export const SNAPSHOT = "snapshot";
/** The kind of documents that say what was done under a key: of these there are most. */
export const RECEIPT = "receipt";
/** The kind of documents that remember what was redacted on a line. */
export const REDACTED = "redacted";
/** Kinds that pin nothing. A store need not look at their documents to know what is pinned, and may refuse one that has pins. */
export const PINS_NOTHING: ReadonlySet<string> = new Set([AGENT, RECEIPT, REDACTED]);

/** As it is listed. Numbers rise in the order of making, and none is used twice. */
export interface DocRow extends Omit<Doc, "pins" | "body"> {
  readonly no: number;
}

/** With neither `put` nor `remove` it is a condition, and changes nothing. */
export interface DocChange {
  readonly kind: string;
  readonly id: string;
  readonly when: { readonly absent?: true; readonly version?: number };
  /** Its pins are those it was made with: none are given to one that is there. */
  readonly put?: Omit<Doc, "kind" | "id">;
  /** Ends it, and lets go of its pins. */
  readonly remove?: true;
}

export interface DocQuery {
  readonly kind: string;
  readonly of?: string;
  readonly before?: number;
  readonly limit: number;
}

/** A place that stays, and the number of the document that pins it. */
export interface Pin {
  readonly seq: number;
  readonly doc: number;
}

/** What whoever plans to take something from a line knew of: the newest line that begins on it, and the newest document that pins it. */
export interface KnownNeeds {
  readonly line: number;
  readonly doc: number;
}

export interface CaptureQuery {
  readonly agent: string;
  readonly limit: number;
  readonly hold: boolean;
  /** Other sessions that may be made or changed. */
  readonly also?: readonly string[];
  /** As for `apply`. */
  readonly how?: "frees";
}

/** What is to be done about an agent's sessions at the moment at which they were looked at. */
export interface Decision {
  readonly changes: readonly Change[];
  readonly docs: readonly DocChange[];
}

/**
 * `line`: the line to bring in is there and is another, or a line to claim is not there or has an owner. `origin`: what a line begins at, or
 * a document pins, is not there.
 */
export type Refusal = "exists" | "absent" | "epoch" | "until" | "version" | "tail" | "origin" | "line";

/** `change` counts on from the changes to the documents. */
export type Applied = { readonly ok: true } | { readonly ok: false; readonly change: number; readonly why: Refusal };

export interface SessionQuery {
  readonly agent?: string;
  readonly status?: string;
  readonly tag?: string;
  readonly archived?: boolean;
  /** Only those made before this number. */
  readonly before?: number;
  readonly limit: number;
}

/** Those of a session, those that begin on a line, or all: of these, with `limit`, so many with lower numbers than `before`. */
export type LineQuery =
  | { readonly session: string }
  | { readonly origin: string }
  /** Oldest first, behind the line with this number. */
  | { readonly origin: string; readonly after: number; readonly limit: number }
  | { readonly all: true; readonly before?: number; readonly limit?: number };

export interface SaveQuery {
  /** The saves that hold any of these records. */
  readonly from: number;
  readonly to: number;
  readonly limit: number;
  readonly newestFirst?: true;
  /** Sections to read; the mark always is. Those left out come as null. */
  readonly items: boolean;
  readonly state: boolean;
}

export interface Mail {
  readonly id: string;
  readonly text: string;
  /** Wall time from which it may be taken in; 0 for at once. */
  readonly due: number;
}

/** How the ids of mail begin that begins a turn. A session that waits for somebody has no use for it until then. */
export const TURN_MAIL = "turn:";

/** What a session's status is while it waits for somebody. */
export const WAITS: readonly string[] = ["waiting", "in-doubt"];

/** Whether mail makes a session one to be claimed. */
export const isForNow = ({ status }: Pick<Head, "status">, { id }: Pick<Mail, "id">): boolean =>
  !WAITS.includes(status) || !id.startsWith(TURN_MAIL);

export type InboxQuery =
  | {
      /** Wall time: entries that are due by then. */
      readonly dueBy: number;
      readonly limit: number;
    }
  /** Those of these that wait, whenever they are due. At most `MAX_IDS`: whoever asks sees to it. */
  | { readonly ids: readonly string[] };

export const MAX_IDS = 100;

export interface ClaimQuery {
  readonly agent: string;
  /** Wall time: sessions that are due by then, or have mail that is. For turns a session that waits for somebody is not offered. */
  readonly dueBy: number;
  readonly limit: number;
}

/** Answers the lease that a session is given, by its row and the store's clock; undefined to pass it over. */
export type Granting = (row: SessionRow, now: number) => LeaseRow | undefined;

/** How many sessions a claim looks at, however few of them are granted. */
export const MAX_CANDIDATES = 1_000;

/** `known`: the same entry is there already. `conflict`: another one has its id. `absent`: there is no such session. */
export type Posted = "posted" | "known" | "conflict" | "absent";

export interface Freed {
  readonly count: number;
  readonly bytes: number;
}

/** `next`: where to go on; absent where all was looked at. */
export interface Swept extends Freed {
  readonly next?: Digest;
}

/** What may still be found in the store's files of what is not in the store any more, in words. */
export interface Scrubbed {
  readonly left: readonly string[];
}

export interface Counts {
  readonly agents: number;
  readonly sessions: number;
  readonly checkpoints: number;
  /** Snapshots of agents, damaged ones included. */
  readonly snapshots: number;
  readonly messages: number;
  readonly sizeBytes: number;
}

export interface Anchor {
  readonly line: string;
  readonly seq: number;
  readonly check: string;
}

/** Anchors as they were at one moment: of one line, or of each. */
export interface Witnesses extends Iterable<Anchor> {
  of(line: string): Anchor | undefined;
}

export const noWitnesses: Witnesses = { of: () => undefined, [Symbol.iterator]: () => [].values() };

/** Something about where a store stands that somebody should know, and what to do about it. */
export interface Concern {
  readonly code: string;
  readonly message: string;
  readonly fix: string;
}

/** What a store is and stands on, for people. */
export interface About {
  readonly kind: "memory" | "sqlite" | "dir" | "postgres";
  /** Where it is; an address has no password. */
  readonly place: string;
  /** What keeps it, with its version. */
  readonly engine: string;
  readonly format: number;
  /**
   * What it takes on the disk, with all that stands beside it; of a database server, its tables and indexes. Absent for one of several
   * tenants that share them.
   */
  readonly diskBytes?: number;
  /** How what was acknowledged is kept, in words. */
  readonly synced: string;
  readonly concerns: readonly Concern[];
}

/** Ids that begin alike. */
export interface Beginnings {
  readonly sessions: readonly string[];
  readonly lines: readonly string[];
}

export interface BackupOptions {
  /** Told how far it is, in bytes. */
  readonly onProgress?: ((progress: BackupProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether a backup that is there already is replaced. */
  readonly force: boolean;
}

export interface BackupProgress {
  readonly bytes: number;
  readonly of: number;
}

/** A backup that was made: its size, and how many sessions are in it, of all tenants. */
export interface Backup {
  readonly bytes: number;
  readonly sessions: number;
}

export interface Store {
  readonly traits: Traits;
  /** An index for search, where the store has one. */
  readonly index?: SearchIndex;
  /**
   * Aborts when the store's files were deleted, moved or replaced while it is open. The reason is the error (IO) that every call but `close`
   * gives from then on. Absent where a store has no files.
   */
  readonly gone?: AbortSignal;
  /**
   * Present where the store was opened for one tenant, and numbers of sessions and documents count those of all tenants: cursors are sealed
   * with it. The same in every process, and secret.
   */
  readonly cursorKey?: string;

  /**
   * `frees`: a step of something that takes away, which a full disk must not stop. What removes a session or a document is one in any case.
   */
  apply(changes: readonly Change[], docs?: readonly DocChange[], how?: "frees"): Promise<Applied>;
  /**
   * Looks at an agent's sessions, the oldest first and `limit` at most, and at where each stands, and applies what `decide` answers, all at
   * one moment: nothing changes in between. `decide` answers undefined where nothing is to be done; it is called inside the store's
   * transaction, must neither wait nor throw, and may be called again. `hold` tells that the sessions may change: then nobody else writes
   * to them meanwhile. Documents that pin something are made by no other way.
   */
  capture(query: CaptureQuery, decide: (sessions: readonly Present[]) => Decision | undefined): Promise<Applied>;
  doc(kind: string, id: string): Promise<(DocRow & { readonly body: string | null }) | undefined>;
  /** Newest first. One that is damaged so that nobody can say whose it is comes with those of every owner, last and with none. */
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

  /** Ids of sessions, and of lines, that begin with a text: the first `limit` of each, byte by byte in order. */
  idsFrom(beginning: string, limit: number): Promise<Beginnings>;

  line(id: string): Promise<LineRow | undefined>;
  /** The line and those it goes back to, newest first, as far as they are there, and so many at most. */
  past(id: string, limit: number): Promise<readonly LineRow[]>;
  /** Newest first, unless the query says otherwise. */
  lines(of: LineQuery): Promise<readonly LineRow[]>;

  saves(line: LineId, query: SaveQuery): Promise<readonly Save[]>;
  /**
   * Puts saves in the place of others with the same records. Refused whole (false) if what is there is not what was read, or if a line
   * was begun on this one, or a place on it pinned, of which whoever planned it did not know.
   */
  replace(line: LineId, replacements: readonly Replacement[], known: KnownNeeds): Promise<boolean>;
  /**
   * Removes the saves of an ownerless line behind `after`, at most `limit`, newest first; with `after` -1 the line too, once it is empty.
   * Never what a line that begins on this one needs, or what is pinned, whatever `after` says: a fork may have come in between. Answers how
   * many went, and what they held; `dryRun` only answers. A store that takes `inBulk` may take fewer than there are, but not none.
   */
  cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed>;

  blob(digest: Digest): Promise<Uint8Array | undefined>;
  /**
   * Looks at blobs, at most `limit`, and removes those that no save refers to. `after` is where an earlier call ended, by its `next`: the
   * order is the store's own, and stays.
   */
  sweep(limit: number, dryRun: boolean, after?: Digest): Promise<Swept>;

  /** Idempotent by id, and needs no lease. */
  post(session: string, mail: Mail): Promise<Posted>;
  /** Entries not yet taken in that are due, or that are named, oldest first. */
  inbox(session: string, query: InboxQuery): Promise<readonly Mail[]>;

  /**
   * Takes sessions of an agent that are due, or for which mail waits that is due: the longest due first, and of those that are due since
   * the same time the one with the lower number. `grant` is given each candidate's row and the store's clock, and answers the lease to be
   * written, or undefined to pass it over; it is called inside the store's transaction, must neither wait nor throw, and may be called
   * again for the same row. Answers the rows as they are afterwards. No two claims are given the same session, as long as `grant` passes
   * over those that are held. A store whose users are on many machines only offers sessions whose lease has run out or is free.
   */
  claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]>;

  /**
   * Calls `wake` when another process may have changed the session. Only a hint, which may come too often or not at all: whoever waits
   * also looks now and then. Answers how to stop it.
   */
  watch(session: string, wake: () => void): () => void;
  /** Calls `wake` when anything may have changed in the store by another process: a hint for workers, as `watch` is for followers. */
  watchAll(wake: () => void): () => void;

  /** Which incarnation this is: empty until the store was first put back from a copy. The same for all tenants. */
  incarnation(): Promise<string>;
  /**
   * Begins another, and answers its name: the store is a copy, and the original may go on. Others who have it open learn of that when they
   * open it again. It concerns all tenants, and is UNSUPPORTED where the store was opened for one.
   */
  beginIncarnation(): Promise<string>;
  /**
   * Writes a copy of the whole place, all tenants, as it is at one moment, while others go on writing. UNSUPPORTED, with what to do
   * instead, where that is not the store's to do, or where it was opened for one tenant.
   */
  backup(path: string, o: BackupOptions): Promise<Backup>;

  counts(): Promise<Counts>;
  about(): Promise<About>;
  /** The last place known to have been on each line, or on each of these, from outside the store's own file. */
  anchors(of?: ReadonlySet<string>): Promise<Witnesses>;
  /** Damage that the store can see by itself, in words. */
  check(): Promise<readonly string[]>;
  /**
   * Gives room back to the file system where that can be done without stopping writers: so many parts of it at most, of the kind that the
   * store has. To one of several tenants that share a file, the bytes are told as 0. Answers how many it were, and their bytes; fewer than `limit`: there are no more.
   */
  compact(limit: number): Promise<Freed>;
  /**
   * Leaves nothing in the store's files of what was replaced, removed or taken in before, as far as that is in its hands: neither in free
   * space nor in logs, indexes and files set aside. `holds` says of a text whether it must go; what no longer counts and holds none stays.
   */
  scrub(holds: (text: string) => boolean): Promise<Scrubbed>;
  close(): Promise<void>;
}

/** What is kept of an inbox entry's text once it was taken in: enough to tell another one under its id. */
export const drainedText = (text: string): string => `${DRAINED}${digest(text)}`;
/** No text of a letter begins with it. */
const DRAINED = "\u0001";

/** Whether an entry that waits, or what is kept of one that was taken in, allows for this text. A redaction leaves nothing to compare. */
export const isDrained = (kept: string, text: string): boolean => kept === "" || kept === text || kept === drainedText(text);
