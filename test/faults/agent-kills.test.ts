/**
 * E1 to E5 under kill -9: a call whose outcome was recorded is not made again, one that may have happened is finished under its key, by asking,
 * or by a person, and nobody is told anything else than what happened.
 */
import { describe, expect, inject, test } from "vitest";
import { agentCampaign, type Broken } from "./agent-campaign.mjs";
import { inDirectory, inPostgres } from "./kill-campaign.mjs";
import { newSeed } from "./random.mjs";

const KILLS = Number(process.env["HOLDFAST_AGENT_KILLS"] ?? 28);

const places = [
  { name: "sqlite", where: {} },
  { name: "dir", where: { place: inDirectory } },
  { name: "postgres", where: { place: inPostgres(inject("postgres")) } },
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

test.each(places)(`$name: ${KILLS} kills around calls`, { timeout: 60_000 + KILLS * 2_000 }, async ({ where }) => {
  const result = await agentCampaign({ ...where, kills: KILLS, seed: newSeed() });
  expect(result.wrong, `seed ${result.seed}`).toEqual([]);
  expect(result.kills).toBe(KILLS);
  // Kills that hit nothing would prove nothing.
  expect(Object.keys(result.points)).toEqual(expect.arrayContaining(POINTS));
  expect(result.acknowledged).toBeGreaterThan(KILLS);
  expect(Math.min(result.acts, result.deduped, result.checked, result.settled), JSON.stringify(result)).toBeGreaterThan(0);
});

describe("negative controls", () => {
  const controls: readonly { readonly broken: Broken; readonly says: RegExp }[] = [
    { broken: "forgets-intents", says: /was called without an intent in the journal/ },
    { broken: "forgets-outcomes", says: /was acknowledged and is gone/ },
    { broken: "strips-outcomes", says: /again after its outcome was recorded/ },
    { broken: "check-says-retry", says: /happened, and the model is told|to be called once, reached the world \d+ times/ },
    { broken: "errors-as-outcomes", says: /happened, and the model is told|to be called once, reached the world \d+ times/ },
  ];
  test.each(controls)("a child that $broken is caught", async ({ broken, says }) => {
    const seed = newSeed();
    // Each is caught by whatever is noticed first; one of them by what it is meant for.
    const heard: string[] = [];
    for (let n = 0; n < 12 && !says.test(heard.join("\n")); n++) {
      const { wrong } = await agentCampaign({ kills: 60, seed: seed + n, broken });
      expect(wrong, `seed ${seed + n}`).not.toEqual([]);
      heard.push(...wrong);
    }
    expect(heard.join("\n"), `seed ${seed}`).toMatch(says);
  });
});
