/** How workers claim sessions that are due. */
import type { LeaseRow, SessionRow } from "./rows.js";

export interface ClaimQuery {
  readonly agent: string;
  /**
   * Wall time: sessions that are due by then, or have an inbox message that is. For turns a session
   * that waits for a decision is not offered.
   */
  readonly dueBy: number;
  readonly limit: number;
}

/**
 * Answers the lease that a session is given, by its row and the store's clock; undefined to pass it
 * over.
 */
export type Granting = (row: SessionRow, now: number) => LeaseRow | undefined;

export interface StoreClaims {
  /**
   * Takes sessions of an agent that are due, or for which an inbox message waits that is due: the
   * longest due first, and of those that are due since the same time the one with the lower number.
   * `grant` is given each candidate's row and the store's clock, and answers the lease to be
   * written, or undefined to pass it over; it is called inside the store's transaction, must
   * neither wait nor throw, and may be called again for the same row. Answers the rows as they are
   * afterwards. No two claims are given the same session, as long as `grant` passes over those that
   * are held. A store whose users are on many machines only offers sessions whose lease has run out
   * or is free.
   */
  claim(query: ClaimQuery, grant: Granting): Promise<readonly SessionRow[]>;
}

/** How many sessions a claim looks at, however few of them are granted. */
export const MAX_CANDIDATES = 1_000;
