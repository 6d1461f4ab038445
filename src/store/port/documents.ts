/** Documents: small texts beside the sessions, which may pin places. */
import type { BranchId, Place } from "../../core/values/ids.js";
import type { Applied, Change } from "./changes.js";
import type { Present } from "./rows.js";

/**
 * A small text beside the sessions, under a kind and an id: an agent, a snapshot, a policy. What is
 * long and not wanted in lists stands in `body`. It may pin places, which then stay (PORT-10).
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

/** The kind of documents that remember what was redacted on a branch. */
export const REDACTED = "redacted";

/**
 * Kinds that pin nothing. A store need not look at their documents to know what is pinned, and may
 * refuse one that has pins.
 */
export const PINS_NOTHING: ReadonlySet<string> = new Set([AGENT, RECEIPT, REDACTED]);

/** As it is listed. Numbers rise in the order of making, and none is used twice. */
export interface DocRow extends Omit<Doc, "pins" | "body"> {
  readonly no: number;
}

/** With its body, as it is read alone. */
export interface WholeDoc extends DocRow {
  readonly body: string | null;
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

export interface StoreDocuments {
  get(kind: string, id: string): Promise<WholeDoc | undefined>;
  /**
   * Newest first. One that is damaged so that its owner cannot be told comes with those of every
   * owner, last and with none.
   */
  list(query: DocQuery): Promise<readonly DocRow[]>;
  /** The places of a branch that documents pin. */
  pins(branch: BranchId): Promise<readonly Pin[]>;
  /**
   * Looks at an agent's sessions, the oldest first and `limit` at most, and at where each stands,
   * and applies what `decide` answers, all at one moment: nothing changes in between. `decide`
   * answers undefined where nothing is to be done; it is called inside the store's transaction,
   * must neither wait nor throw, and may be called again. `hold` tells that the sessions may
   * change: then no other process writes to them meanwhile. Documents that pin something are made
   * by no other way.
   */
  capture(
    query: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
  ): Promise<Applied>;
}
