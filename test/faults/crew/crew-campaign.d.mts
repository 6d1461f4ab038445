import type { CampaignOptions } from "../agents/agent-campaign.mjs";
import type { DeskResult } from "../desk/desk-campaign.mjs";
export interface CrewResult extends DeskResult {
  /** Turns that were submitted, and those of them that were for later. */
  readonly turns: number;
  readonly later: number;
}
export type CrewBroken = "drops-turns" | "comes-early" | "keeps-turns";
export function crewCampaign(
  options: Omit<CampaignOptions<CrewBroken, CrewResult>, "points">,
): Promise<CrewResult>;
