/**
 * D7: the same program gives the same results on every store, whatever it does and whenever it is
 * reopened. Memory is the reference.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { baseTuning } from "../../src/core/journal/session-state.js";
import { runs } from "../support/runs.js";
import { everyStore } from "../support/stores.js";
import { commands as some, World } from "../support/world.js";

const slackBytes = baseTuning.slackBytes;
beforeAll(() => {
  baseTuning.slackBytes = 300;
});
afterAll(() => {
  baseTuning.slackBytes = slackBytes;
});

const RUNS = runs(6, 90);

describe.each(everyStore)("D7: $name", ({ address, traits }) => {
  test("answers as memory does, and every checkpoint that is left holds what it held", {
    timeout: 300_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(some, async (commands) => {
        const reference = new World("memory:", false);
        const world = new World(address(), traits.durable);
        try {
          await reference.run(commands);
          await world.run(commands);
          expect(world.log).toEqual(reference.log);
          const end = world.log.at(-1) as [
            string,
            { verdict: { ok: boolean; findings: unknown[] }; left: { same: boolean }[] },
          ];
          expect(end[1].verdict).toMatchObject({ ok: true, findings: [] });
          for (const { same, ...checkpoint } of end[1].left)
            expect({ checkpoint, same }).toMatchObject({ same: true });
        } finally {
          await reference.close();
          await world.close();
        }
      }),
      { numRuns: traits.oneMachine ? RUNS : Math.ceil(RUNS / 2) },
    );
  });
});
