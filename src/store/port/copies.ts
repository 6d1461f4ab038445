/** Backups, and the anchors by which a copy is known. */

export interface TailAnchor {
  readonly branch: string;
  readonly seq: number;
  readonly check: string;
}

/** Anchors as they were at one moment: of one branch, or of each. */
export interface TailAnchors extends Iterable<TailAnchor> {
  of(branch: string): TailAnchor | undefined;
}

export const noTailAnchors: TailAnchors = {
  of: () => undefined,
  [Symbol.iterator]: () => [].values(),
};

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

export interface StoreCopies {
  /**
   * Which generation this is: empty until the store was first put back from a copy. The same for
   * all tenants.
   */
  generation(): Promise<string>;
  /**
   * Begins another, and answers its name: the store is a copy, and the original may go on. Others
   * who have it open learn of that when they open it again. It concerns all tenants, and is
   * UNSUPPORTED where the store was opened for one.
   */
  begin(): Promise<string>;
  /**
   * Writes a copy of the whole place, all tenants, as it is at one moment, while others go on
   * writing. UNSUPPORTED, with what to do instead, where that is not the store's to do, or where it
   * was opened for one tenant.
   */
  backup(path: string, o: BackupOptions): Promise<Backup>;
  /**
   * The last place known to have been on each branch, or on each of these, from outside the store's
   * own file.
   */
  anchors(of?: ReadonlySet<string>): Promise<TailAnchors>;
}
