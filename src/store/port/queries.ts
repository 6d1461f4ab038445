/** What sessions, branches and saves are read by. */

/** Newest first. */
export interface NewestSessions {
  readonly agent?: string;
  readonly status?: string;
  readonly tag?: string;
  readonly archived?: boolean;
  /** Only those made before this number. */
  readonly before?: number;
  readonly limit: number;
}

export type SessionQuery =
  | NewestSessions
  /** Those whose id begins with a text, byte by byte in the order of their ids. */
  | { readonly beginning: string; readonly limit: number };

/** Newest first, unless a kind says otherwise. */
export type BranchQuery =
  /**
   * The branch and those it goes back to, as far as they are there: the branch itself comes first.
   */
  | { readonly kind: "past"; readonly id: string; readonly limit: number }
  | { readonly kind: "session"; readonly session: string }
  /** Those that begin on a branch. */
  | { readonly kind: "forks"; readonly of: string }
  /** The same, oldest first, behind the branch with this number. */
  | {
      readonly kind: "later-forks";
      readonly of: string;
      readonly after: number;
      readonly limit: number;
    }
  /** Those whose id begins with a text, byte by byte in the order of their ids. */
  | { readonly kind: "beginning"; readonly beginning: string; readonly limit: number }
  /** All: with `limit`, so many with lower numbers than `before`. */
  | { readonly kind: "all"; readonly before?: number; readonly limit?: number };

/** Asks for one branch. */
export const oneBranch = (id: string): BranchQuery => ({ kind: "past", id, limit: 1 });

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
