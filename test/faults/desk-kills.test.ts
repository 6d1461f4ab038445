/**
 * What people decide, signals, children and cancels under kill -9: a call is made once it is approved, as it was approved, and never twice; a
 * signal is received once; a child is run once; what was cancelled does nothing more; and nobody is told anything else than what happened.
 */
import { describe, expect, inject, test } from "vitest";
import { type DeskBroken, deskCampaign } from "./desk-campaign.mjs";
import { inDirectory, inPostgres } from "./kill-campaign.mjs";
import { newSeed } from "./random.mjs";

const KILLS = Number(process.env["HOLDFAST_DESK_KILLS"] ?? 8);

const places = [
  { name: "sqlite", where: {} },
  { name: "dir", where: { place: inDirectory } },
  { name: "postgres", where: { place: inPostgres(inject("postgres")) } },
];

test.each(places)(`$name: ${KILLS} kills around people, signals and children`, { timeout: 60_000 + KILLS * 3_000 }, async ({ where }) => {
  const result = await deskCampaign({ ...where, kills: KILLS, seed: newSeed() });
  expect(result.wrong, `seed ${result.seed}`).toEqual([]);
  expect(result.kills).toBe(KILLS);
  // Kills that hit nothing would prove nothing.
  expect(Object.keys(result.points).length).toBeGreaterThan(KILLS > 100 ? 15 : 1);
  const { acts, settled, approved, changed, denied, signals, doubled, cancels, children } = result;
  expect(Math.min(acts, settled, approved, changed, denied, signals, doubled, cancels, children), JSON.stringify(result)).toBeGreaterThan(
    0,
  );
});

describe("negative controls", () => {
  const afterActs = { "inside-tool-after-act": 1, "inside-child-after-act": 1 };
  const controls: readonly { readonly broken: DeskBroken; readonly says: RegExp; readonly points?: Record<string, number> }[] = [
    { broken: "acts-unasked", says: /was made before anybody had approved it/ },
    { broken: "takes-no-for-yes", says: /was made although it was denied/ },
    { broken: "keeps-arguments", says: /was made with .*, which nobody approved/ },
    { broken: "says-repeatable", says: /happened \d+ times in all/, points: afterActs },
    { broken: "check-says-nothing-happened", says: /happened, and the model is told/, points: afterActs },
    { broken: "signals-under-two-keys", says: /should have heard .* and heard/ },
    { broken: "runs-anew", says: /has \d+ children|happened \d+ times in all/ },
    { broken: "lists-no-doubt", says: /is open \(\w+\), and nobody is told/ },
    { broken: "goes-on", says: /was begun after s\d was cancelled/ },
  ];
  test.each(controls)("what $broken is caught", async ({ broken, says, points }) => {
    const seed = newSeed();
    // Each is caught by whatever is noticed first; one of them by what it is meant for.
    const heard: string[] = [];
    for (let n = 0; n < 12 && !says.test(heard.join("\n")); n++)
      heard.push(...(await deskCampaign({ kills: 60, seed: seed + n, broken, ...(points && { points }) })).wrong);
    expect(heard.join("\n"), `seed ${seed}`).toMatch(says);
  });
});
