/**
 * Kills a desk while people decide, signals come, aides run and sessions are cancelled, starts it
 * again until all is done, and holds what it did against a ledger of what happened.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { killRuns, stage, visit } from "../agents/agent-runs.mjs";
import { DeskWorld } from "./desk-world.mjs";

/**
 * Where a child stands still to be killed, and how often in a round. The last two are no points: it
 * is killed once it can do no more, or wherever it happens to be.
 */
export const points = {
  "after-intent": 1,
  "before-wait": 1,
  "after-wait": 1,
  "before-approval": 2,
  "after-approval": 2,
  "after-begun": 1,
  "inside-tool-before-act": 1,
  "inside-tool-after-act": 2,
  "after-tool": 1,
  "inside-tool-before-wait": 1,
  "inside-tool-after-wait": 1,
  "before-signal": 1,
  "after-signal": 2,
  "before-child": 1,
  "after-child": 1,
  "inside-child-before-act": 1,
  "inside-child-after-act": 2,
  "after-child-ended": 2,
  "before-waking": 1,
  "after-waking": 1,
  "before-cancel": 1,
  "after-cancel": 1,
  "after-doubt": 1,
  idle: 5,
  anywhere: 8,
};

export const counts = {
  acknowledged: 0,
  calls: 0,
  acts: 0,
  deduped: 0,
  checked: 0,
  settled: 0,
  approved: 0,
  changed: 0,
  denied: 0,
  signals: 0,
  doubled: 0,
  cancels: 0,
  children: 0,
};

const SHAPE = { s0: {}, s1: {}, s2: {}, s3: { isCut: true } };

class KilledDesk extends DeskWorld {
  #rng;

  constructor({ address, ...about }) {
    super({ ...about, shape: SHAPE });
    this.#rng = about.rng;
    this.mayWrite = !address.startsWith("dir:");
  }

  /** While the child lives, somebody may decide something. */
  async meanwhile(address) {
    if (this.#rng.next() < 0.4) return;
    await sleep(this.#rng.between(0, 60));
    await visit(address, (there) =>
      this.person.act(there, { isLive: true, mayWrite: this.mayWrite }),
    ).catch((error) => {
      // The child has not made it yet, or has just been killed while it did.
      if (error.code !== "NOT_FOUND") throw error;
    });
  }

  /** While there is no child, too. */
  async between(there) {
    if (this.wrong.length === 0 && this.#rng.next() < 0.6) await this.person.act(there, {});
  }
}

const common = { child: new URL("./desk-child.mjs", import.meta.url), points, nth: 2, counts };

export const deskCampaign = (options) =>
  killRuns({ ...common, world: (about) => new KilledDesk(about) }, options);

/** A desk with one session. The person acts when the desk can do no more, and after a kill. */
function staged({ address, script, ...about }) {
  const isCut = script.turns.some(({ cut }) => cut);
  const world = new DeskWorld({ ...about, shape: { s0: { isCut, script } } });
  world.mayWrite = !address.startsWith("dir:");
  world.between = (there) => world.person.act(there, { all: true, mayWrite: world.mayWrite });
  return world;
}

/**
 * One store, one session with the turns and signals of `script`, and a kill at each point of `at`,
 * in this order.
 */
export const deskStage = (options) => stage({ ...common, world: staged }, options);
