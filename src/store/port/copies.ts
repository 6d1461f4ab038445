/** Backups, and the anchors by which a copy is known. */

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
