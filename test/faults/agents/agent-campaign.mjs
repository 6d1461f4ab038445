/**
 * Kills an agent around its calls, starts it again until all is done, and holds what it did against
 * a ledger of what happened.
 */
import { killRuns, stage } from "./agent-runs.mjs";
import { World } from "./agent-world.mjs";

/**
 * Where a child stands still to be killed, and how often in a round. The last is no point: it is
 * killed wherever it happens to be.
 */
const points = {
  "before-intent": 2,
  "after-intent": 3,
  "inside-tool-before-act": 3,
  "inside-tool-after-act": 4,
  "after-tool": 4,
  "after-outcome": 3,
  "before-begun": 1,
  "after-begun": 1,
  "inside-check": 1,
  "before-doubt": 1,
  "after-doubt": 1,
  anywhere: 8,
};

const counts = { acknowledged: 0, calls: 0, acts: 0, deduped: 0, checked: 0, settled: 0 };
const program = {
  child: new URL("./agent-child.mjs", import.meta.url),
  points,
  nth: 4,
  counts,
  world: (about) => new World(about),
};

/**
 * `kills` kills, over as many stores as it takes: each is worked on by one child after another
 * until all its sessions are done.
 */
export const agentCampaign = (options) => killRuns(program, options);

/**
 * One store, one session with the turns of `script`, and a kill at each point of `at`, in this
 * order.
 */
export const agentStage = (options) => stage(program, options);
