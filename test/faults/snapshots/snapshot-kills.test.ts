/** An agent is put back whole or not at all, whenever the process that does it is killed. */
import { describe, expect, test } from "vitest";
import { SEED } from "../../support/random.mjs";
import { postgresUrl } from "../../support/shared-postgres.js";
import { inDirectory, inPostgres } from "../kills/kill-campaign.mjs";
import { snapshotCampaign } from "./snapshot-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_SNAPSHOT_KILLS"] ?? 20);

const places = [
  { name: "sqlite", where: {} },
  { name: "dir", where: { place: inDirectory } },
  { name: "postgres", where: { place: inPostgres(postgresUrl()) } },
];

describe.each(places)("$name", ({ where }) => {
  test(`${KILLS} kills while snapshots are taken and restored, sessions and agents deleted`, {
    timeout: 60_000 + KILLS * 2_000,
  }, async () => {
    const result = await snapshotCampaign({ ...where, kills: KILLS, seed: SEED });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    // Kills that hit nothing would prove nothing.
    const hit = Object.values(result.inFlight).reduce((sum, n) => sum + n, 0);
    expect(hit, JSON.stringify(result)).toBeGreaterThan(KILLS / 4);
  });
});

test("negative control: a child that puts sessions back one by one is caught", async () => {
  const result = await snapshotCampaign({ kills: 1, seed: SEED, torn: true });
  expect(result.wrong.join("\n")).toMatch(/in restore: found/);
});
