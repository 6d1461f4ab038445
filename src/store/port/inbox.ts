/** The inbox of a session: what is posted, and what is kept of it once it was taken in. */
import { digest } from "../../core/values/digest.js";
import type { Head } from "./rows.js";

export interface InboxMessage {
  readonly id: string;
  readonly text: string;
  /** Wall time from which it may be taken in; 0 for at once. */
  readonly due: number;
}

/**
 * How the ids of inbox messages begin that begin a turn. A session that waits for a decision has
 * no use for them until then.
 */
export const TURN_MESSAGES = "turn:";

/** What a session's status is while it waits for a decision. */
export const WAITS: readonly string[] = ["waiting", "in-doubt"];

/** Whether an inbox message makes a session one to be claimed. */
export const isForNow = (
  { status }: Pick<Head, "status">,
  { id }: Pick<InboxMessage, "id">,
): boolean => !WAITS.includes(status) || !id.startsWith(TURN_MESSAGES);

export type InboxQuery =
  | {
      /** Wall time: entries that are due by then. */
      readonly dueBy: number;
      readonly limit: number;
    }
  /**
   * Those of these that wait, whenever they are due. At most `MAX_IDS`: the caller sees to it.
   */
  | { readonly ids: readonly string[] };

export interface StoreInbox {
  /** Idempotent by id, and needs no lease. */
  post(session: string, message: InboxMessage): Promise<Posted>;
  /** Entries not yet taken in that are due, or that are named, oldest first. */
  list(session: string, query: InboxQuery): Promise<readonly InboxMessage[]>;
}

export const MAX_IDS = 100;

/**
 * `known`: the same entry is there already. `conflict`: another one has its id. `absent`: there is
 * no such session.
 */
export type Posted = "posted" | "known" | "conflict" | "absent";

/**
 * What is kept of an inbox entry's text once it was taken in: enough to tell another one under its
 * id.
 */
export const drainedText = (text: string): string => `${DRAINED}${digest(text)}`;

/** No text of an inbox message begins with it. */
const DRAINED = "\u0001";

/**
 * Whether an entry that waits, or what is kept of one that was taken in, allows for this text. A
 * redaction leaves nothing to compare.
 */
export const isDrained = (kept: string, text: string): boolean =>
  kept === "" || kept === text || kept === drainedText(text);
