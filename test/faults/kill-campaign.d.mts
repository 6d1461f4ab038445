export interface KillResult {
  readonly seed: number;
  readonly kills: number;
  readonly acknowledged: number;
  /** Operations begun and not acknowledged when the kill came. */
  readonly inFlight: number;
  /** Kills that came before the store was open, and those of them that came after its file was there. */
  readonly unopened: number;
  readonly halfMade: number;
  readonly slowestCheckMs: number;
  readonly ms: number;
  readonly wrong: readonly string[];
}
export function killCampaign(options: {
  readonly kills: number;
  readonly seed: number;
  readonly ackEarly?: boolean;
  readonly birth?: boolean;
  readonly onProgress?: (result: KillResult) => void;
}): Promise<KillResult>;
