/**
 * D1, D2: what was acknowledged survives kill -9 at any instant, nothing is torn, and the next save
 * works at once.
 */
import { describe, expect, test } from "vitest";
import { SEED } from "../../support/random.mjs";
import { postgresUrl } from "../../support/shared-postgres.js";
import { inDirectory, inPostgres, killCampaign } from "./kill-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_KILLS"] ?? 20);

const places = [
  { name: "sqlite", where: {}, birth: "points" },
  { name: "dir", where: { place: inDirectory }, birth: "points" },
  { name: "postgres", where: { place: inPostgres(postgresUrl()) }, birth: true },
] as const;

describe.each(places)("$name", ({ where, birth }) => {
  test(`D1: ${KILLS} kills at random instants lose nothing that was acknowledged`, {
    timeout: 60_000 + KILLS * 1_000,
  }, async () => {
    const result = await killCampaign({ ...where, kills: KILLS, seed: SEED });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    expect(result.kills).toBe(KILLS);
    // Kills that hit nothing would prove nothing.
    expect(result.inFlight, "operations in flight at a kill").toBeGreaterThan(KILLS / 4);
    expect(result.acknowledged).toBeGreaterThan(KILLS);
  });

  test("D2: a kill while the store is being made leaves a store that opens", async () => {
    const result = await killCampaign({ ...where, kills: 16, seed: SEED, birth });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    // Kills before there was a file, or after the store was open, would prove nothing.
    expect(
      birth === "points" ? result.halfMade : result.unopened,
      "kills between the file and the open store",
    ).toBeGreaterThan(5);
  });

  test("negative control: a child that acknowledges a save before it is committed is caught", async () => {
    const result = await killCampaign({ ...where, kills: 1, seed: SEED, ackEarly: true });
    expect(result.wrong.join("\n")).toMatch(/ is gone$/m);
  });
});
