import type { Place } from "../kills/kill-campaign.mjs";

export interface SnapshotKills {
  readonly seed: number;
  readonly kills: number;
  /** How often each operation was done, and how often it was under way when the kill came. */
  readonly done: Readonly<Record<string, number>>;
  readonly inFlight: Readonly<Record<string, number>>;
  readonly wrong: readonly string[];
}
export function snapshotCampaign(options: {
  readonly kills: number;
  readonly seed: number;
  readonly place?: (directory: string, n: number) => Place;
  /** Puts sessions back one by one, to see that it is seen. */
  readonly torn?: boolean;
  readonly onProgress?: (result: SnapshotKills) => void;
}): Promise<SnapshotKills>;
