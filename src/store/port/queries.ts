/** What sessions, lines and saves are read by. */

export interface SessionQuery {
  readonly agent?: string;
  readonly status?: string;
  readonly tag?: string;
  readonly archived?: boolean;
  /** Only those made before this number. */
  readonly before?: number;
  readonly limit: number;
}

/**
 * Those of a session, those that begin on a line, or all: of these, with `limit`, so many with
 * lower numbers than `before`.
 */
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

/** Ids that begin alike. */
export interface Beginnings {
  readonly sessions: readonly string[];
  readonly lines: readonly string[];
}
