/**
 * WORKER-1 under kill -9: two workers on one store, each killed again and again. Every turn that was
 * submitted is run once and to its end, not before its time, nothing happens twice, and what nobody
 * knows is told.
 */
import { describe, expect, test } from "vitest";
import { SEED } from "../../support/random.mjs";
import { postgresUrl } from "../../support/shared-postgres.js";
import { inPostgres } from "../kills/kill-campaign.mjs";
import { type CrewBroken, crewCampaign } from "./crew-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_CREW_KILLS"] ?? 12);

const places = [
  { name: "sqlite", where: {} },
  { name: "postgres", where: { place: inPostgres(postgresUrl()) } },
];

test.each(places)(
  `$name: ${KILLS} kills of two workers`,
  { timeout: 90_000 + KILLS * 3_000 },
  async ({ where }) => {
    const result = await crewCampaign({ ...where, kills: KILLS, seed: SEED });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    expect(result.kills).toBe(KILLS);
    // Kills that hit nothing would prove nothing.
    const { acts, settled, approved, denied, signals, cancels, children, turns, later } = result;
    expect(
      Math.min(acts, settled, approved, denied, signals, cancels, children, turns, later),
      JSON.stringify(result),
    ).toBeGreaterThan(0);
  },
);

describe("negative controls", () => {
  const controls: readonly { readonly broken: CrewBroken; readonly says: RegExp }[] = [
    { broken: "drops-turns", says: /turn 0 of s2 is lost/ },
    { broken: "comes-early", says: /was begun \d+ ms too early/ },
    { broken: "keeps-turns", says: /was begun twice/ },
  ];
  test.each(controls)("a worker that $broken is caught", async ({ broken, says }) => {
    // No kills: two workers that stay show the fault, however slow the machine is.
    const { wrong } = await crewCampaign({ kills: 0, seed: SEED, broken });
    expect(wrong.join("\n")).toMatch(says);
  });
});
