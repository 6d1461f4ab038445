export interface KillResult {
  readonly seed: number;
  readonly kills: number;
  readonly acknowledged: number;
  /** Operations begun and not acknowledged when the kill came. */
  readonly inFlight: number;
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
