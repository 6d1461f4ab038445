import type {
  AgentResult,
  CampaignOptions,
  StageOptions,
  Turn,
} from "../agents/agent-campaign.mjs";
export interface DeskResult extends AgentResult {
  /** Calls that a person let be made, let be made otherwise, and did not let be made. */
  readonly approved: number;
  readonly changed: number;
  readonly denied: number;
  /** Signals that were sent, and those of them that were sent twice. */
  readonly signals: number;
  readonly doubled: number;
  readonly cancels: number;
  readonly children: number;
}
export type DeskBroken =
  | "acts-unasked"
  | "takes-no-for-yes"
  | "keeps-input"
  | "says-repeatable"
  | "check-says-nothing-happened"
  | "signals-under-two-keys"
  | "runs-anew"
  | "lists-no-doubt"
  | "goes-on";
export function deskCampaign(options: CampaignOptions<DeskBroken, DeskResult>): Promise<DeskResult>;
export interface DeskScript {
  /** One that is `cut` is cancelled. */
  readonly turns: readonly (Turn & { readonly cut?: boolean })[];
  readonly signals: readonly { readonly name: string; readonly value: string }[];
}
export function deskStage(options: StageOptions<DeskBroken, DeskScript>): Promise<DeskResult>;
