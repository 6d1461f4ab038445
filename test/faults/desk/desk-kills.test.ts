/**
 * What people decide, signals, children and cancels under kill -9: a call is made once it is
 * approved, as it was approved, and never twice; a signal is received once; a child is run once;
 * what was cancelled does nothing more; and nobody is told anything else than what happened.
 */
import { describe, expect, test } from "vitest";
import { SEED } from "../../support/random.mjs";
import { postgresUrl } from "../../support/shared-postgres.js";
import type { StageOptions } from "../agents/agent-campaign.mjs";
import { inDirectory, inPostgres } from "../kills/kill-campaign.mjs";
import { type DeskBroken, type DeskScript, deskCampaign, deskStage } from "./desk-campaign.mjs";

const KILLS = Number(process.env["HOLDFAST_DESK_KILLS"] ?? 8);

const places = [
  { name: "sqlite", where: {} },
  { name: "dir", where: { place: inDirectory } },
  { name: "postgres", where: { place: inPostgres(postgresUrl()) } },
];

test.each(places)(
  `$name: ${KILLS} kills around people, signals and children`,
  { timeout: 60_000 + KILLS * 3_000 },
  async ({ where }) => {
    const result = await deskCampaign({ ...where, kills: KILLS, seed: SEED });
    expect(result.wrong, `seed ${result.seed}`).toEqual([]);
    expect(result.kills).toBe(KILLS);
    // Kills that hit nothing would prove nothing.
    expect(Object.keys(result.points).length).toBeGreaterThan(KILLS > 100 ? 15 : 1);
    const { acts, settled, approved, changed, denied, signals, doubled, cancels, children } =
      result;
    expect(
      Math.min(acts, settled, approved, changed, denied, signals, doubled, cancels, children),
      JSON.stringify(result),
    ).toBeGreaterThan(0);
  },
);

describe("negative controls", () => {
  let count = 0;
  const call = (name: string, input: object = {}) => {
    const id = `0.${++count}`;
    return { callId: id, name, input: { id: `s0/${id}`, ...input } };
  };
  const wire = (decision: string, input: object = {}) =>
    call("wire", { amount: 5, decision, ...input });
  type Calls = DeskScript["turns"][number]["replies"][number];
  const one = (...replies: readonly Calls[]): DeskScript => ({
    turns: [{ input: "s0: turn 0", replies }],
    signals: [],
  });
  const parts = ["part one", "part two"];
  const cut: DeskScript = {
    turns: [
      { input: "s0: turn 0", replies: [[call("debit")]], cut: true },
      { input: "s0: turn 1", replies: [[call("debit")]] },
    ],
    signals: [],
  };
  const controls: readonly (StageOptions<DeskBroken, DeskScript> & { readonly says: RegExp })[] = [
    {
      broken: "acts-unasked",
      script: one([wire("approve")]),
      at: [],
      says: /was made before anybody had approved it/,
    },
    {
      broken: "takes-no-for-yes",
      script: one([wire("deny")]),
      at: [],
      // Where one process writes, a person only posts letters, and the child takes them in.
      place: inDirectory,
      says: /was made although it was denied/,
    },
    {
      broken: "keeps-input",
      script: one([wire("change")]),
      at: [],
      says: /was made with .*, which nobody approved/,
    },
    {
      broken: "says-repeatable",
      script: one([call("email")]),
      at: ["inside-tool-after-act"],
      says: /happened 2 times in all/,
    },
    {
      broken: "check-says-nothing-happened",
      script: one([call("email")]),
      at: ["inside-tool-after-act"],
      says: /happened, and the model is told/,
    },
    {
      broken: "signals-under-two-keys",
      script: {
        ...one([call("pair", { hears: parts })]),
        signals: parts.map((value) => ({ name: "part", value })),
      },
      at: [],
      says: /should have heard .* and heard/,
    },
    {
      broken: "runs-anew",
      script: one([call("delegate", { errand: [[call("post")]] })]),
      at: ["inside-child-after-act"],
      says: /has 2 children/,
    },
    {
      broken: "lists-no-doubt",
      script: one([wire("approve", { inFlight: ["drop"] })]),
      at: [],
      says: /is open \(\w+\), and nobody is told/,
    },
    {
      broken: "goes-on",
      script: cut,
      at: ["before-intent"],
      says: /was begun after s0 was cancelled/,
    },
  ];
  test.each(controls)("what $broken is caught", async ({ says, ...scene }) => {
    expect((await deskStage(scene)).wrong.join("\n")).toMatch(says);
  });
});
