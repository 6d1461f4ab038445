/**
 * What `sessions.redact` does to calls, turns and letters: inputs of calls that are not over
 * stay, and everything else goes.
 */
import { describe, expect, test } from "vitest";
import { type Holdfast, open, partsOf, type ToolCallPart } from "../../../src/index.js";
import { filesWith } from "../../support/bytes.js";
import { asks, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const SECRET = "Ambrose-Quill-99812";

/** An agent that looks somebody up, and then writes to them: only if it is allowed to. */
function writer(hold: Holdfast, made: unknown[] = []) {
  return hold.agent({
    name: "writer",
    system: () => `You know ${SECRET}.`,
    model: script(
      asks(["lookup", { who: SECRET }], ["note", { who: SECRET }]),
      asks(["mail", { to: SECRET }, "m1"], ["mail", { to: `${SECRET} again` }, "m2"]),
      `I have written to ${SECRET}.`,
    ),
    tools: {
      lookup: { mode: "repeatable", run: async ({ who }: { who: string }) => ({ found: who }) },
      note: {
        mode: "keyed",
        key: () => "note:1",
        run: async ({ who }: { who: string }, context) => (context.set("noted", who), who),
      },
      mail: {
        mode: "once",
        approval: true,
        run: async (input: { to: string }) => (made.push(input), { sent: input.to }),
      },
    },
  });
}

const callsOf = async (hold: Holdfast, id: string): Promise<readonly unknown[]> => {
  const session = await hold.session(id, { waitMs: 5_000 });
  await session.close();
  return session.messages.flatMap((message) =>
    partsOf(message).flatMap((part) =>
      part.type === "tool-call" ? [(part as ToolCallPart).input] : [],
    ),
  );
};

describe.each(stores)("redact and calls on $name", ({ name, address }) => {
  const isOnDisk = name === "sqlite" || name === "dir";

  test("inputs of calls that wait stay, and are named; once they are over they go, and with them their digests", async () => {
    const at = address();
    const hold = await open(at);
    const made: unknown[] = [];
    const bot = writer(hold, made);
    const waiting = await bot.run("a", `Write to ${SECRET}`, { key: "t1" });
    expect(waiting.status).toBe("waiting");
    const [first, second] = (await hold.effects.list({ status: "waiting" })).items.map(
      ({ effectId }) => effectId,
    ) as [string, string];
    const report = await hold.sessions.redact("a", SECRET);
    expect(report.exempt).toEqual([first, second].toSorted());
    expect(await callsOf(hold, "a")).toEqual([
      { who: "[redacted]" },
      { who: "[redacted]" },
      { to: SECRET },
      { to: `${SECRET} again` },
    ]);
    expect((await hold.effects.get(first))?.input).toEqual({ to: SECRET });
    expect((await hold.verify()).findings).toEqual([]);
    await hold.effects.approve(first, {
      by: `ana for ${SECRET}`,
      note: `yes, ${SECRET}`,
      input: { to: `${SECRET} at home` },
    });
    await hold.effects.deny(second, { by: SECRET, reason: `not ${SECRET}` });
    // Whoever goes on finds them as they were.
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    expect(made).toEqual([{ to: `${SECRET} at home` }]);
    const again = await hold.sessions.redact("a", SECRET);
    expect(again.exempt).toEqual([]);
    expect(await callsOf(hold, "a")).toEqual([
      { who: "[redacted]" },
      { who: "[redacted]" },
      { to: "[redacted]" },
      { to: "[redacted] again" },
    ]);
    expect((await hold.verify()).findings).toEqual([]);
    // The same name is the same call still: it is answered from the record.
    const session = await hold.session("a");
    expect(
      await session.effect(
        "note",
        { who: "[redacted]" },
        { mode: "keyed", key: "note:1" },
        async () => "made again",
      ),
    ).toBe("[redacted]");
    await session.close();
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    await hold.close();
  });

  test("letters: those that wait are reworded, of those that were taken in nothing is left, and posting again is known", async () => {
    const at = address();
    const hold = await open(at);
    const bot = writer(hold);
    await bot.submit("a", `first ${SECRET}`, { key: "k1", title: SECRET });
    const later = await bot.submit("a", `second ${SECRET}`, {
      key: "k2",
      atMs: Date.now() + 3_600_000,
    });
    await hold.sessions.signal("a", "hint", { is: SECRET }, { key: "s1" });
    const worker = hold.worker({ agents: [bot] });
    await worker.drain({ maxMs: 20_000 });
    for (const { effectId } of (await hold.effects.list({ status: "waiting" })).items)
      await hold.effects.settle(effectId, { output: { sent: SECRET } });
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    if (isOnDisk) expect(filesWith(at, SECRET)).not.toEqual([]);
    const report = await hold.sessions.redact("a", SECRET);
    expect(report).toMatchObject({ outside: true, exempt: [] });
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    // The same signal, sent again by somebody whose answer was lost, is still the same.
    await hold.sessions.signal("a", "hint", { is: SECRET }, { key: "s1" });
    const session = await hold.session("a");
    expect(await session.unfinished()).toEqual([]);
    await session.close();
    await later.cancel();
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });

  test("bases copy what stood in state and in calls: these copies go, too", async () => {
    const { baseTuning } = await import("../../../src/core/journal/session-state.js");
    const { slackBytes } = baseTuning;
    baseTuning.slackBytes = 200;
    try {
      const at = address();
      const hold = await open(at);
      const session = await hold.session("a");
      session.set("who", SECRET);
      session.set("big", `${SECRET} ${"x".repeat(9_000)}`);
      await session.effect(
        "act",
        { who: SECRET },
        { mode: "once", key: "k" },
        async () => `${SECRET} ${"y".repeat(9_000)}`,
      );
      for (let n = 0; n < 30; n++) {
        session.set("n", `${n} ${"z".repeat(100)}`);
        await session.checkpoint();
      }
      expect(session.state).toMatchObject({ who: SECRET });
      await session.close();
      const report = await hold.sessions.redact("a", SECRET);
      expect(report.saves).toBeGreaterThan(3);
      if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
      await hold.checkpoints.prune("a", { keep: 2 });
      await hold.gc();
      const again = await hold.session("a");
      expect(again.state).toMatchObject({ who: "[redacted]", n: `29 ${"z".repeat(100)}` });
      const told = await again.effect(
        "act",
        { who: "[redacted]" },
        { mode: "once", key: "k" },
        async () => "made again",
      );
      expect(told).toBe(`[redacted] ${"y".repeat(9_000)}`);
      expect(
        await again.effect(
          "act",
          { who: SECRET },
          { mode: "once", key: "k" },
          async () => "made again",
        ),
      ).toBe(told);
      await again.close();
      expect((await hold.verify()).findings).toEqual([]);
      await hold.close();
    } finally {
      baseTuning.slackBytes = slackBytes;
    }
  });

  test("a call that is not over in a session that shares the reply is exempt as well", async () => {
    const hold = await open(address());
    const made: unknown[] = [];
    const bot = hold.agent({
      name: "payer",
      checkpoint: "after-model",
      model: script(asks(["pay", { to: SECRET }]), "done"),
      tools: {
        pay: {
          mode: "once",
          approval: true,
          run: async (input: { to: string }) => (made.push(input), "paid"),
        },
      },
    });
    await bot.run("p", "go");
    const [pending] = (await hold.effects.list({ status: "waiting" })).items;
    const latest = await hold.checkpoints.latest("p");
    await hold.sessions.fork(latest?.id ?? "", { id: "f" });
    const report = await hold.sessions.redact("f", SECRET);
    expect(report).toMatchObject({ exempt: [pending?.effectId], records: 0 });
    await hold.effects.approve(pending?.effectId ?? "");
    expect(await bot.resume("p")).toMatchObject({ status: "completed" });
    expect(made).toEqual([{ to: SECRET }]);
    expect(await hold.sessions.redact("f", SECRET)).toMatchObject({
      exempt: [],
      records: 2,
      sharedWith: ["p"],
    });
    expect(await callsOf(hold, "f")).toEqual([{ to: "[redacted]" }]);
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });
});
