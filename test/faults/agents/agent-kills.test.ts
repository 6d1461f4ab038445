/**
 * EFFECT-1 to EFFECT-5 under kill -9: a call whose outcome was recorded is not made again, one that may have
 * happened is finished under its key, by asking, or by a person, and nobody is told anything else
 * than what happened.
 */
import { describe, expect, test } from "vitest";
import { SEED } from "../../support/random.mjs";
import { postgresUrl } from "../../support/shared-postgres.js";
import { inDirectory, inPostgres } from "../kills/kill-campaign.mjs";
import {
  agentCampaign,
  agentStage,
  type Broken,
  type StageOptions,
  type Turn,
} from "./agent-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_AGENT_KILLS"] ?? 28);

const places = [
  { name: "sqlite", where: {} },
  { name: "dir", where: { place: inDirectory } },
  { name: "postgres", where: { place: inPostgres(postgresUrl()) } },
];

const POINTS = [
  "before-intent",
  "after-intent",
  "inside-tool-before-act",
  "inside-tool-after-act",
  "after-tool",
  "after-outcome",
  "anywhere",
];

test.each(places)(
  `$name: ${KILLS} kills around calls`,
  { timeout: 60_000 + KILLS * 2_000 },
  async ({ where }) => {
    const result = await agentCampaign({ ...where, kills: KILLS, seed: SEED });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    expect(result.kills).toBe(KILLS);
    // Kills that hit nothing would prove nothing.
    expect(Object.keys(result.points)).toEqual(expect.arrayContaining(POINTS));
    expect(result.acknowledged).toBeGreaterThan(KILLS);
    expect(
      Math.min(result.acts, result.deduped, result.checked, result.settled),
      JSON.stringify(result),
    ).toBeGreaterThan(0);
  },
);

describe("negative controls", () => {
  const call = (id: string, name: string, input: object = {}) => ({ callId: id, name, input });
  const turn = (...calls: Turn["replies"][number]): readonly Turn[] => [
    { input: "s0: turn 0", replies: [calls] },
  ];
  const controls: readonly (StageOptions<Broken, readonly Turn[]> & { readonly says: RegExp })[] = [
    {
      broken: "forgets-intents",
      script: turn(call("0.0", "charge")),
      at: ["inside-tool-after-act"],
      says: /was called without an intent in the journal/,
    },
    {
      broken: "forgets-outcomes",
      script: turn(call("0.0", "charge")),
      at: ["after-outcome"],
      says: /was acknowledged and is gone/,
    },
    {
      broken: "strips-outcomes",
      script: turn(call("0.0", "charge"), call("0.1", "charge", { inFlight: ["hang"] })),
      at: ["after-outcome"],
      says: /again after its outcome was recorded/,
    },
    {
      broken: "check-says-retry",
      script: turn(call("0.0", "email")),
      at: ["inside-tool-after-act"],
      says: /to be called once, reached the world 2 times/,
    },
    {
      broken: "errors-as-outcomes",
      script: turn(call("0.0", "post", { inFlight: ["drop"] })),
      at: [],
      says: /happened, and the model is told/,
    },
  ];
  test.each(controls)("a child that $broken is caught", async ({ says, ...scene }) => {
    expect((await agentStage(scene)).wrong.join("\n")).toMatch(says);
  });
});
