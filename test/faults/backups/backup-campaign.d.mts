export interface BackupResult {
  readonly seed: number;
  readonly kills: number;
  /** Kills that left a draft: they came in the middle of a backup. */
  readonly left: number;
  readonly wrong: readonly string[];
  /** What is there beside the backup after one that was not killed. */
  readonly names: readonly string[];
}
export function backupCampaign(options: {
  readonly seed: number;
  readonly kills: number;
  readonly torn?: boolean;
  readonly onProgress?: (result: BackupResult) => void;
}): Promise<BackupResult>;
export function largeStore(path: string, megabytes: number): Promise<void>;
export function lookInto(
  backup: string,
  to: string,
  acknowledged: readonly string[],
): Promise<readonly string[]>;
