export interface KillResult {
  readonly seed: number;
  readonly kills: number;
  readonly acknowledged: number;
  /** Operations begun and not acknowledged when the kill came. */
  readonly inFlight: number;
  /**
   * Kills that came before the store was open, and those of them that came after its file was
   * there.
   */
  readonly unopened: number;
  readonly halfMade: number;
  readonly slowestCheckMs: number;
  readonly ms: number;
  readonly wrong: readonly string[];
}
export interface Place {
  readonly address: string;
  /** What is there once the store begins to be made, where that can be seen. */
  readonly path?: string;
  /** How long after a kill the store is left alone. */
  readonly settleMs?: number;
}
export const inDirectory: (directory: string, n: number) => Place;
export const inPostgres: (url: string) => (directory: string, n: number) => Place;
export function killCampaign(options: {
  readonly kills: number;
  readonly seed: number;
  /** Where the n-th store is; a SQLite file by default. */
  readonly place?: (directory: string, n: number) => Place;
  readonly ackEarly?: boolean;
  /** Kills while the store is made: at some instant, or before calls that make it. */
  readonly birth?: boolean | "points";
  readonly onProgress?: (result: KillResult) => void;
}): Promise<KillResult>;
