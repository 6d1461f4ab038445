import type { Place } from "../kills/kill-campaign.mjs";
export interface AgentResult {
  readonly seed: number;
  readonly kills: number;
  /** How many stores were brought to their end, and children started. */
  readonly stores: number;
  readonly runs: number;
  /** Kills at each point. */
  readonly points: Readonly<Record<string, number>>;
  /** Calls that reached the world, those that acted, and those that it knew by their key. */
  readonly calls: number;
  readonly acts: number;
  readonly deduped: number;
  /** Calls that were finished by asking what became of them, and by a person. */
  readonly checked: number;
  readonly settled: number;
  readonly acknowledged: number;
  readonly ms: number;
  readonly wrong: readonly string[];
}
export type Broken =
  | "forgets-intents"
  | "forgets-outcomes"
  | "strips-outcomes"
  | "check-says-retry"
  | "errors-as-outcomes";
export interface CampaignOptions<B, R> {
  readonly kills: number;
  readonly seed: number;
  /** Where the n-th store is; a SQLite file by default. */
  readonly place?: (directory: string, n: number) => Place;
  readonly broken?: B;
  readonly onProgress?: (result: R) => void;
}
export interface Turn {
  readonly input: string;
  readonly replies: readonly (readonly {
    readonly callId: string;
    readonly name: string;
    readonly input: object;
  }[])[];
}
export interface StageOptions<B, S> {
  /**
   * A child is killed when it reaches the first of these points, the next child at the second, and
   * so on.
   */
  readonly at: readonly string[];
  readonly script: S;
  readonly broken?: B;
  readonly place?: (directory: string, n: number) => Place;
}
export function agentStage(options: StageOptions<Broken, readonly Turn[]>): Promise<AgentResult>;
export function agentCampaign(options: CampaignOptions<Broken, AgentResult>): Promise<AgentResult>;
