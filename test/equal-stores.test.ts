/** D7: the same program gives the same results on every store, whatever it does and whenever it is reopened. Memory is the reference. */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { baseTuning } from "../src/core/fold.js";
import { stores } from "./support/stores.js";
import { type Command, SESSIONS, World } from "./support/world.js";

const who = fc.nat(SESSIONS.length - 1);
const at = fc.nat(30);
const text = fc.string({ unit: "grapheme", maxLength: 12 });
const key = fc.constantFrom("plan", "notes", "__proto__", "constructor", "10", "2");
const value = fc.oneof(fc.jsonValue({ maxDepth: 2 }), fc.array(text, { maxLength: 4 }), text) as fc.Arbitrary<never>;

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      who,
      texts: fc.array(text, { minLength: 1, maxLength: 3 }),
      big: fc.boolean(),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("checkpoint" as const), who, label: text }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("set" as const), who, key, value }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unset" as const), who, key }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("splice" as const),
      who,
      key: fc.oneof(fc.constant("messages"), key),
      start: fc.nat(4),
      remove: fc.nat(3),
      items: fc.array(text, { maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("save" as const),
      who,
      keep: fc.nat(6),
      texts: fc.array(text, { maxLength: 2 }),
      state: fc.dictionary(fc.constantFrom("plan", "notes"), value),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("finish" as const),
      who,
      how: fc.constantFrom("complete" as const, "fail" as const, "halt" as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("fork" as const), at, id: who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rewind" as const), who, at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("adopt" as const), who, at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("prune" as const), who, keep: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete" as const), who }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("update" as const),
      who,
      title: text,
      tags: fc.array(fc.constantFrom("x", "y"), { maxLength: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("history" as const), who }) },
  { weight: 1, arbitrary: fc.constant({ do: "gc" } as const) },
  { weight: 3, arbitrary: fc.constant({ do: "reopen" } as const) },
);

const slackBytes = baseTuning.slackBytes;
beforeAll(() => {
  baseTuning.slackBytes = 300;
});
afterAll(() => {
  baseTuning.slackBytes = slackBytes;
});

const RUNS = Number(process.env["HOLDFAST_RUNS"] ?? 150);

describe.each(stores)("D7: $name", ({ address, traits }) => {
  test("answers as memory does, and every checkpoint that is left holds what it held", { timeout: 300_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 40, size: "max" }), async (commands) => {
        const reference = new World("memory:", false);
        const world = new World(address(), traits.durable);
        try {
          await reference.run(commands);
          await world.run(commands);
          expect(world.log).toEqual(reference.log);
          const end = world.log.at(-1) as [string, { verdict: { ok: boolean; findings: unknown[] }; left: { same: boolean }[] }];
          expect(end[1].verdict).toMatchObject({ ok: true, findings: [] });
          for (const { same, ...checkpoint } of end[1].left) expect({ checkpoint, same }).toMatchObject({ same: true });
        } finally {
          await reference.close();
          await world.close();
        }
      }),
      { numRuns: RUNS },
    );
  });
});
