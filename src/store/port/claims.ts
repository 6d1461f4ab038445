/** How workers claim sessions that are due. */
import type { LeaseRow, SessionRow } from "./rows.js";

export interface ClaimQuery {
  readonly agent: string;
  /**
   * Wall time: sessions that are due by then, or have mail that is. For turns a session that waits
   * for somebody is not offered.
   */
  readonly dueBy: number;
  readonly limit: number;
}

/**
 * Answers the lease that a session is given, by its row and the store's clock; undefined to pass it
 * over.
 */
export type Granting = (row: SessionRow, now: number) => LeaseRow | undefined;

/** How many sessions a claim looks at, however few of them are granted. */
export const MAX_CANDIDATES = 1_000;
